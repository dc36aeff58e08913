#pragma once

#include <filesystem>
#include <optional>
#include <string>

/// The readers of Hugging Face's folders, in the form of readers.h. They are in a file of their own because
/// they need the whole library, and libfuzzer.sh compiles the other readers alone.
namespace ringtape::fuzz {

/// `input` is written to config.json of the folder.
std::optional<std::string> read_gpt_config(const std::string& input, const std::filesystem::path& folder);
/// `input` is written to `file` of the folder, of which the rest is a whole model: the index, or weights.
std::optional<std::string> read_gpt(const std::string& input, const std::filesystem::path& folder,
                                    const std::string& file);

}  // namespace ringtape::fuzz
