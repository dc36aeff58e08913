#pragma once

#include <filesystem>
#include <optional>
#include <string>

/// The readers of external data, in the form for the fuzzers: each reads all of `input` and returns the text
/// of the Error, or nothing when the input was accepted. Other exceptions of a reader pass through, and an
/// accepted result that contradicts its input throws std::logic_error.
namespace ringtape::fuzz {

/// IDX, plain or gzipped, with any number of dimensions.
std::optional<std::string> read_idx(const std::string& input);
std::optional<std::string> read_csv(const std::string& input);
/// Safetensors files are read from the disk: `input` is written to `file` first.
std::optional<std::string> read_safetensors(const std::string& input, const std::filesystem::path& file);
/// The JSON of a checkpoint: `input` is what follows its first line. It is written to `json`; the
/// .safetensors file stands beside it.
std::optional<std::string> read_checkpoint(const std::string& input, const std::filesystem::path& json);

/// GPT-2's merges: as many as the input has, at most 100.
std::optional<std::string> read_merges(const std::string& input);
/// Files of tokens are mapped from the disk: `input` is written to `file` first.
std::optional<std::string> read_tokens(const std::string& input, const std::filesystem::path& file);
/// A text for every tokenizer: all of them accept it or none.
std::optional<std::string> encode_text(const std::string& input);

/// A checkpoint's JSON: `body` behind the first line that has its checksum.
std::string checkpoint_json(const std::string& body);

}  // namespace ringtape::fuzz
