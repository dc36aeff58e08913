#include "apps/gpt/write_text.h"

#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "text/streaming_decoder.h"

namespace ringtape::gpt {

void write_text(GPT& model, const Tokenizer& tokenizer, const std::vector<std::int32_t>& prompt,
                const GenerationOptions& options, const std::string& stop,
                const std::function<void(const std::string& piece)>& write) {
  bool has_begun = false;  // the prompt is written with the first token, so that errors come before it
  StreamingDecoder decoder(tokenizer);
  std::string written;
  std::string beginning;
  for (const std::int32_t token : prompt) beginning += decoder.push(token);
  GenerationOptions of_tokenizer = options;
  of_tokenizer.vocabulary = tokenizer.vocabulary_size();
  generate(model, prompt, of_tokenizer, [&](std::int32_t token) {
    if (!std::exchange(has_begun, true)) write(beginning);
    if (tokenizer.end_of_text() == token) return false;
    const std::string text = decoder.push(token);
    written += text;
    write(text);
    return stop.empty() || written.find(stop) == std::string::npos;
  });
  write(decoder.finish());
}

void print_text(GPT& model, const Tokenizer& tokenizer, const std::vector<std::int32_t>& prompt,
                const GenerationOptions& options, const std::string& stop) {
  write_text(model, tokenizer, prompt, options, stop, [](const std::string& piece) {
    fmt::print("{}", piece);
    std::fflush(stdout);
  });
  fmt::print("\n");
}

}  // namespace ringtape::gpt
