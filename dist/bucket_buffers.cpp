#include "dist/bucket_buffers.h"

#include <algorithm>
#include <map>
#include <utility>

#include "autograd/tape.h"
#include "core/memory.h"
#include "core/stream.h"
#include "kernels/elementwise.h"
#include "kernels/pointwise.h"

namespace ringtape {
namespace {

constexpr std::size_t kBuffers = 2;

/// The gradient of an entry, as a range of its bucket's buffer.
Tensor range_of(const Tensor& buffer, const GradientBucket& bucket, const ArenaEntry& entry) {
  return buffer.alias(entry.tensor->shape(), entry.offset - bucket.offset);
}

}  // namespace

BucketBuffers::BucketBuffers(const ParameterArena& arena, std::shared_ptr<Communicator> comm)
    : arena_(arena),
      comm_(std::move(comm)),
      filling_(arena.buckets().size()),
      is_complete_(arena.entries().size(), 0),
      shard_zero_grad_count_(arena.buckets().size(), 0),
      positions_(arena.buckets().size()),
      has_begun_(arena.buckets().size(), 0),
      is_early_(arena.buckets().size(), 0) {
  std::map<int, std::vector<std::size_t>> chunks;
  for (std::size_t b = 0; b < arena.buckets().size(); ++b) {
    const GradientBucket& bucket = arena.buckets()[b];
    bucket_of_entry_.insert(bucket_of_entry_.end(), bucket.entries, b);
    chunks[arena.entries()[bucket.first_entry].chunk].push_back(b);
  }
  for (const auto& [chunk, buckets] : chunks) {
    for (const std::size_t b : buckets) {
      const bool is_last = arena.has_all_values() ? b == buckets.back() : arena.units()[b].is_of_all;
      positions_[b] = {.first_of_chunk = buckets.front(), .may_be_early = is_last};
    }
  }
}

void BucketBuffers::open(std::size_t entry) {
  const std::size_t bucket = bucket_of_entry_[entry];
  if (!filling_[bucket].defined()) make_buffer(bucket);
  AutogradMeta& meta = *arena_.entries()[entry].meta;
  meta.grad = range_of(filling_[bucket], arena_.buckets()[bucket], arena_.entries()[entry]);
  meta.grad_written = false;
}

void BucketBuffers::make_buffer(std::size_t bucket) {
  const Position& position = positions_[bucket];
  is_early_[bucket] = position.may_be_early && has_begun_[position.first_of_chunk] == 0 ? 1 : 0;
  has_begun_[bucket] = 1;
  const auto counted = [&] {
    return buffers_ - static_cast<std::size_t>(std::count(is_early_.begin(), is_early_.end(), 1));
  };
  while (is_early_[bucket] == 0 && counted() >= kBuffers && !sent_.empty()) add_oldest_to_shard();
  const MemoryScope scope(MemoryCategory::gradients);
  filling_[bucket] = empty({arena_.buckets()[bucket].elements}, DType::f32, arena_.device());
  most_ = std::max(most_, ++buffers_);
}

void BucketBuffers::launch(std::size_t number) {
  if (!filling_[number].defined()) make_buffer(number);
  const GradientBucket& bucket = arena_.buckets()[number];
  Tensor buffer = std::exchange(filling_[number], Tensor());
  for (std::size_t i = bucket.first_entry; i < bucket.first_entry + bucket.entries; ++i) {
    AutogradMeta& meta = *arena_.entries()[i].meta;
    if (std::exchange(is_complete_[i], 0) == 0) {
      const Tensor range = range_of(buffer, bucket, arena_.entries()[i]);
      fill(Stream::current(arena_.device()), DType::f32, range.raw(), range.elements(), 0.0);
    }
    meta.grad = Tensor();
    meta.grad_written = meta.requires_grad;
  }
  const std::int64_t elements = arena_.slices()[number].elements;
  const Tensor own = buffer.alias({elements}, arena_.slices()[number].offset - bucket.offset);
  const Work work = comm_->reduce_scatter(buffer, own, ReduceOp::mean);
  sent_.push_back({number, std::move(buffer), work});
}

void BucketBuffers::add_oldest_to_shard() {
  const Sent sent = std::move(sent_.front());
  sent_.pop_front();
  --buffers_;
  is_early_[sent.bucket] = 0;
  sent.work.wait();
  const ShardSlice& slice = arena_.slices()[sent.bucket];
  const Tensor mean =
      sent.buffer.alias({slice.elements}, slice.offset - arena_.buckets()[sent.bucket].offset);
  Tensor shard = arena_.gradients().alias({slice.elements}, slice.in_shard);
  if (std::exchange(shard_zero_grad_count_[sent.bucket], arena_.zero_grad_count()) ==
      arena_.zero_grad_count()) {
    axpy(Stream::current(arena_.device()), DType::f32, 1.0, mean.raw(), shard.raw(), slice.elements);
  } else {
    shard.copy_from(mean);  // the shard holds gradients from before zero_grad()
  }
}

void BucketBuffers::end_round() {
  while (!sent_.empty()) add_oldest_to_shard();
  std::fill(has_begun_.begin(), has_begun_.end(), std::uint8_t{0});
}

}  // namespace ringtape
