#pragma once

#include <filesystem>

#include "text/tokens.h"

/// Files of tokens: a header of 512 bytes, then the ids, little-endian, of 16 bits (U16) or, for a vocabulary
/// of more than 65,536, of 32 (U32). The header is JSON in one line, with blanks before the newline that ends
/// it:
///
///   {"format": "ringtape tokens 1", "tokenizer": "bpe-50257-cf4b72c4", "vocabulary_size": 50257,
///    "dtype": "U16", "count": 338025, "crc32": "53a79aad"}
///
/// "crc32" is computed from the ids as 32-bit numbers, so the same tokens in memory have it too. NumPy reads
/// the ids with `memmap(path, dtype="<u2", offset=512)`.
namespace ringtape {

/// Writes the tokens atomically: on any failure it throws Error, an old file stays unchanged and nothing else
/// is left behind.
void save_tokens(const std::filesystem::path& path, const Tokens& tokens);

/// The tokens of a file, which is mapped, not read: a file larger than the memory can be used. Throws Error
/// that names the file, what was found and what was expected for a damaged header, and for a file whose
/// length differs from the header's. The ids are checked when they are read; "crc32" is not.
Tokens open_tokens(const std::filesystem::path& path);

}  // namespace ringtape
