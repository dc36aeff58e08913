#include "text/streaming_decoder.h"

#include "text/utf8.h"

namespace ringtape {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

}  // namespace

std::string StreamingDecoder::push(std::int32_t id) {
  held_ += tokenizer_.token(id);
  std::string text;
  std::size_t at = 0;
  while (at < held_.size()) {
    const Utf8Sequence sequence = read_utf8(held_, at);
    if (sequence.kind == Utf8Sequence::Kind::cut) break;
    const bool valid = sequence.kind == Utf8Sequence::Kind::character;
    text += valid ? held_.substr(at, sequence.bytes) : to_utf8(kReplacement);
    at += sequence.bytes;
  }
  held_.erase(0, at);
  return text;
}

std::string StreamingDecoder::finish() {
  const bool unfinished = !held_.empty();
  held_.clear();
  return unfinished ? to_utf8(kReplacement) : "";
}

}  // namespace ringtape
