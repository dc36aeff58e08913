#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ringtape {

/// The vocabulary of a byte-pair encoding (Sennrich, Haddow, Birch, "Neural machine translation of rare words
/// with subword units", ACL 2016; on bytes as in GPT-2): the tokens 0 to 255 are the single bytes, and merge
/// i joins two earlier tokens into token 256 + i.
struct BpeMerges {
  std::vector<std::string> tokens;                           ///< the bytes of each id
  std::vector<std::pair<std::int32_t, std::int32_t>> pairs;  ///< of merge i: its left and its right token
  std::uint32_t checksum;                                    ///< CRC-32 of the text that was read
};

constexpr std::int64_t kGpt2Merges = 50'000;

/// Reads GPT-2's vocab.bpe (Hugging Face: merges.txt): a line "#version: ...", then a line for each merge,
/// its two tokens separated by a blank. In the file a byte is a printable character: Latin-1's printable
/// characters stand for themselves, and the other bytes, in order, are U+0100 and the characters after it.
/// Single bytes have their ids in that order. `merges` is the expected number of merges. Throws Error that
/// names the file and the line for a truncated or damaged file: a line that is not two tokens, a token that
/// no earlier line makes, or one that an earlier line has made.
BpeMerges read_bpe_merges(const std::filesystem::path& path, std::int64_t merges = kGpt2Merges);

/// The same for a file already in memory; `name` stands for the file in error texts.
BpeMerges parse_bpe_merges(std::string_view text, const std::string& name, std::int64_t merges = kGpt2Merges);

}  // namespace ringtape
