#include "dist/gather_text.h"

#include <cstring>
#include <numeric>

#include "core/ceil_div.h"

namespace ringtape {
namespace {

/// Bytes are sent as words, as collectives have no dtype of one byte.
using Word = std::int32_t;

std::int64_t words_for(std::int64_t bytes) {
  return ceil_div(bytes, sizeof(Word));
}

}  // namespace

std::vector<std::string> gather_text(Communicator& comm, const std::string& text) {
  const Tensor bytes = empty({comm.size()}, DType::i64, comm.device());
  comm.all_gather(from_vector(std::vector<std::int64_t>{std::ssize(text)}, {1}, comm.device()), bytes).wait();
  const std::vector<std::int64_t> sizes = bytes.to_vector<std::int64_t>();
  std::vector<std::int64_t> counts;
  for (const std::int64_t size : sizes) counts.push_back(words_for(size));

  std::vector<Word> words(static_cast<std::size_t>(counts[comm.rank()]));
  if (!text.empty()) std::memcpy(words.data(), text.data(), text.size());
  const Tensor own = from_vector(words, {std::ssize(words)}, comm.device());
  const bool is_root = comm.rank() == 0;
  Tensor all;
  if (is_root) {
    all = empty({std::accumulate(counts.begin(), counts.end(), std::int64_t{0})}, DType::i32, comm.device());
  }
  comm.gather(own, all, 0, counts).wait();
  if (!is_root) return {};

  const std::vector<Word> gathered = all.to_vector<Word>();
  std::vector<std::string> texts;
  std::int64_t first = 0;
  for (std::size_t rank = 0; rank < sizes.size(); first += counts[rank++]) {
    texts.emplace_back(static_cast<std::size_t>(sizes[rank]), '\0');
    if (sizes[rank] > 0) std::memcpy(texts.back().data(), gathered.data() + first, texts.back().size());
  }
  return texts;
}

}  // namespace ringtape
