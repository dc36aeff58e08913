// Times the tokenizers on one core: megabytes of text per second, and the time of reading the text and
// writing the ids for comparison. Texts: English (tinyshakespeare), the same in Cyrillic letters, and two in
// which GPT-2's tokenizer meets no piece twice.
#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "core/philox.h"
#include "profile/machine.h"
#include "profile/result_file.h"
#include "text/byte_tokenizer.h"
#include "text/character_tokenizer.h"
#include "text/gpt2.h"
#include "text/tinyshakespeare.h"
#include "text/utf8.h"
#include "trace/timing.h"

namespace {

using namespace ringtape;

std::string in_cyrillic(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    result += is_letter ? to_utf8(static_cast<char32_t>(0x410 + (c | 0x20) - 'a')) : std::string(1, c);
  }
  return result;
}

// Random words of 12 letters.
std::string random_words(std::size_t bytes) {
  std::string text(bytes, ' ');
  for (std::size_t i = 0; i < bytes; ++i) {
    const std::uint32_t random = on_cpu::philox4x32_10(1, i, 0).x;
    if (i % 13 != 12) text[i] = static_cast<char>('a' + random % 26);
  }
  return text;
}

void measure(Results& results, const std::string& name, const Tokenizer& tokenizer, std::string_view text,
             const std::string& text_name) {
  const std::vector<std::int32_t> ids = tokenizer.encode(text);
  std::vector<char> to(text.size() + 4 * ids.size());
  const std::vector<double> seconds =
      median_seconds_in_turn({[&] { (void)tokenizer.encode(text); },
                              [&] {
                                std::memcpy(to.data(), text.data(), text.size());
                                std::memcpy(to.data() + text.size(), ids.data(), 4 * ids.size());
                              }},
                             Device{});
  const auto bytes = static_cast<double>(text.size());
  fmt::print("{:<12} {:<28} {:>9.2f} {:>9.1f} {:>9.2f} {:>12.3f}\n", name, text_name,
             bytes / static_cast<double>(ids.size()), 1e3 * seconds[0], 1e3 * seconds[1],
             1e-6 * bytes / seconds[0]);
  results.add({.name = name,
               .size = text_name,
               .seconds = seconds[0],
               .bytes = static_cast<double>(to.size()),
               .limit_seconds = seconds[1],
               .more = {{"text_mb_per_s", 1e-6 * bytes / seconds[0]}}});
}

void benchmark(const std::string& json) {
  Results results("bench_tokenizer", Device{}, json);
  const std::string_view english = tinyshakespeare();
  const std::string cyrillic = in_cyrillic(english), words = random_words(1'000'000), letter(1'000'000, 'a');
  fmt::print("{}, one thread\n\n{:<12} {:<28} {:>9} {:>9} {:>9} {:>12}\n", describe(Device{}), "tokenizer",
             "text", "bytes/id", "ms", "copy ms", "text MB/s");
  measure(results, "bytes", ByteTokenizer(), english, "English, 1.1 MB");
  measure(results, "characters", CharacterTokenizer(english), english, "English, 1.1 MB");
  const std::shared_ptr<const BpeTokenizer> gpt2 = gpt2_tokenizer();
  measure(results, "GPT-2", *gpt2, english, "English, 1.1 MB");
  measure(results, "GPT-2", *gpt2, cyrillic, "Cyrillic letters, 1.9 MB");
  measure(results, "GPT-2", *gpt2, words, "random words, 1 MB");
  measure(results, "GPT-2", *gpt2, letter, "one letter, 1 MB");
  results.save();
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine app("Times the tokenizers.");
  std::string json;
  app.file("--json", json, kJsonHelp);
  return app.run(argc, argv, [&] { benchmark(json); });
}
