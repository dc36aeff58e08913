#pragma once

#include <filesystem>
#include <optional>
#include <string>

/// The readers that take bytes from outside, in the form that the fuzzers want: each reads everything that
/// `input` offers and gives the text of the Error it got, or nothing when the input was accepted. Whatever
/// else a reader throws passes through, and an accepted result that contradicts its input throws
/// std::logic_error.
namespace ringtape::fuzz {

/// IDX, plain or gzipped, with any number of dimensions.
std::optional<std::string> read_idx(const std::string& input);
std::optional<std::string> read_csv(const std::string& input);
/// Safetensors files are read from the disk: `input` is written to `file` first.
std::optional<std::string> read_safetensors(const std::string& input, const std::filesystem::path& file);

}  // namespace ringtape::fuzz
