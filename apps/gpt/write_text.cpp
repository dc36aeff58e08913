#include "apps/gpt/write_text.h"

#include <fmt/format.h>

#include <cstdio>

#include "text/streaming_decoder.h"

namespace ringtape::gpt {

void write_text(GPT& model, const Tokenizer& tokenizer, const std::string& prompt,
                const GenerationOptions& options, const std::string& stop) {
  fmt::print("{}", prompt);
  std::fflush(stdout);
  StreamingDecoder decoder(tokenizer);
  std::string written;
  generate(model, tokenizer.encode(prompt), options, [&](std::int32_t token) {
    if (tokenizer.end_of_text() == token || token >= tokenizer.vocabulary_size()) return false;
    const std::string text = decoder.push(token);
    written += text;
    fmt::print("{}", text);
    std::fflush(stdout);
    return stop.empty() || written.find(stop) == std::string::npos;
  });
  fmt::print("{}\n", decoder.finish());
}

}  // namespace ringtape::gpt
