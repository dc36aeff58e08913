// Encodes texts with GPT-2's tokenizer, for tests/long/tokenizer_against_tiktoken.py. Standard input: for
// each text its number of bytes (u32) and the bytes. Standard output: for each text its number of tokens and
// the tokens (u32), after checking that they decode to the text.
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <string>

#include "core/error.h"
#include "text/gpt2.h"

namespace {

void write(std::uint32_t number) {
  std::cout.write(reinterpret_cast<const char*>(&number), sizeof number);
}

void tokenize() {
  const auto tokenizer = ringtape::gpt2_tokenizer();
  std::uint32_t bytes = 0;
  while (std::cin.read(reinterpret_cast<char*>(&bytes), sizeof bytes)) {
    std::string text(bytes, '\0');
    std::cin.read(text.data(), static_cast<std::streamsize>(bytes));
    const std::vector<std::int32_t> ids = tokenizer->encode(text);
    ringtape::check(tokenizer->decode(ids) == text, "the tokens decode to another text");
    write(static_cast<std::uint32_t>(ids.size()));
    for (const std::int32_t id : ids) write(static_cast<std::uint32_t>(id));
  }
}

}  // namespace

int main() {
  try {
    tokenize();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
