#include "apps/gpt/write_text.h"

#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "text/streaming_decoder.h"

namespace ringtape::gpt {

void write_text(GPT& model, const Tokenizer& tokenizer, const std::string& prompt,
                const GenerationOptions& options, const std::string& stop) {
  bool has_begun = false;  // the prompt appears with the first token: an error comes before
  StreamingDecoder decoder(tokenizer);
  std::string written;
  generate(model, tokenizer.encode(prompt), options, [&](std::int32_t token) {
    if (!std::exchange(has_begun, true)) fmt::print("{}", prompt);
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
