#include "text/gpt2.h"

#include "io/embed.h"

RINGTAPE_EMBED(ringtape_gpt2_merges, RINGTAPE_TEXT_FOLDER "/gpt2/vocab.bpe");

namespace ringtape {

std::shared_ptr<const BpeTokenizer> gpt2_tokenizer(const std::optional<std::filesystem::path>& merges) {
  if (merges) return std::make_shared<BpeTokenizer>(read_bpe_merges(*merges));
  const auto* const begin = reinterpret_cast<const char*>(ringtape_gpt2_merges_begin);
  const auto* const end = reinterpret_cast<const char*>(ringtape_gpt2_merges_end);
  return std::make_shared<BpeTokenizer>(parse_bpe_merges({begin, end}, "embedded vocab.bpe"));
}

}  // namespace ringtape
