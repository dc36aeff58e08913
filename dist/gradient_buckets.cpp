#include "dist/gradient_buckets.h"

#include <utility>

#include "trace/spans.h"

namespace ringtape {

std::vector<GradientBucket> make_gradient_buckets(const ParameterArena& arena, const BucketSizes& sizes) {
  if (arena.is_sharded()) return arena.buckets();
  const std::vector<ArenaEntry>& entries = arena.entries();
  std::vector<std::int64_t> elements;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::int64_t end = i + 1 < entries.size() ? entries[i + 1].offset : arena.size();
    elements.push_back(end - entries[i].offset);
  }
  return cut_into_buckets(elements, sizes, 1, arena.runs());
}

std::vector<std::size_t> buckets_of_chunk(const ParameterArena& arena,
                                          const std::vector<GradientBucket>& buckets, int chunk) {
  std::vector<std::size_t> numbers;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    if (arena.entries()[buckets[b].first_entry].chunk == chunk) numbers.push_back(b);
  }
  return numbers;
}

GradientBuckets::GradientBuckets(const ParameterArena& arena, const BucketSizes& sizes,
                                 std::function<void(std::size_t)> launch)
    : arena_(arena), buckets_(make_gradient_buckets(arena, sizes)), launch_(std::move(launch)) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    bucket_of_entry_.insert(bucket_of_entry_.end(), buckets_[b].entries, b);
  }
}

void GradientBuckets::begin_round(int chunk) {
  incomplete_.assign(buckets_.size(), 0);
  for (std::size_t i = 0; i < bucket_of_entry_.size(); ++i) {
    if (arena_.entries()[i].tensor->requires_grad()) ++incomplete_[bucket_of_entry_[i]];
  }
  round_ = buckets_of_chunk(arena_, buckets_, chunk);
  next_ = 0;
}

void GradientBuckets::complete(std::size_t entry) {
  --incomplete_[bucket_of_entry_[entry]];
  while (next_ < round_.size() && incomplete_[round_[next_]] == 0) launch_next();
}

void GradientBuckets::launch_next() {
  const std::size_t bucket = round_[next_++];
  const SpanScope span(Track::compute, "launch bucket", {{"bucket", static_cast<std::int64_t>(bucket)}});
  launch_(bucket);
}

void GradientBuckets::end_round() {
  while (next_ < round_.size()) launch_next();
}

}  // namespace ringtape
