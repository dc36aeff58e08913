#pragma once

/// RINGTAPE_EMBED(symbol, path): embeds a file in the program, and declares it as the bytes from
/// `symbol_begin` to `symbol_end`. `path` is a string literal, and `symbol` unique in the program. The
/// assembler copies the file into the read-only data; as an array in C++ it would be source text of five
/// times the size.
#define RINGTAPE_EMBED(symbol, path)                                                                  \
  asm(".pushsection .rodata\n"                                                                        \
      ".global " #symbol "_begin, " #symbol "_end\n" #symbol "_begin: .incbin \"" path "\"\n" #symbol \
      "_end: .byte 0\n"                                                                               \
      ".popsection\n");                                                                               \
  extern "C" const unsigned char symbol##_begin[];                                                    \
  extern "C" const unsigned char symbol##_end[]
