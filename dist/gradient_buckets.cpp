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
  return cut_into_buckets(elements, sizes);
}

GradientBuckets::GradientBuckets(const ParameterArena& arena, const BucketSizes& sizes,
                                 std::function<void(std::size_t)> launch)
    : arena_(arena), buckets_(make_gradient_buckets(arena, sizes)), launch_(std::move(launch)) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    bucket_of_entry_.insert(bucket_of_entry_.end(), buckets_[b].entries, b);
  }
}

void GradientBuckets::begin_round() {
  incomplete_.assign(buckets_.size(), 0);
  for (std::size_t i = 0; i < bucket_of_entry_.size(); ++i) {
    if (arena_.entries()[i].tensor->requires_grad()) ++incomplete_[bucket_of_entry_[i]];
  }
  next_ = 0;
  is_open_ = true;
}

void GradientBuckets::complete(std::size_t entry) {
  --incomplete_[bucket_of_entry_[entry]];
  while (next_ < buckets_.size() && incomplete_[next_] == 0) launch_next();
}

void GradientBuckets::launch_next() {
  const SpanScope span(Track::compute, "launch bucket", {{"bucket", static_cast<std::int64_t>(next_)}});
  launch_(next_++);
}

void GradientBuckets::end_round() {
  while (next_ < buckets_.size()) launch_next();
  is_open_ = false;
}

}  // namespace ringtape
