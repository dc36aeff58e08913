#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "dist/communicator.h"
#include "nn/arena.h"

namespace ringtape {

/// The gradients of ZeRO stage 2 during backward (Rajbhandari et al., 2020, section 5.2). There is no memory
/// for all of them: a bucket has a buffer from just before its first gradient is written until this rank's
/// slice of the mean over the ranks has been added to the shard, ParameterArena::gradients(). A parameter's
/// gradient is a range of its bucket's buffer.
///
/// Two buffers suffice if buckets become complete one after the other: one is filled while the other is being
/// reduced. If a third is needed, the rank waits for the oldest reduction in flight; if none is in flight,
/// because the next bucket to be launched is not complete, a third buffer is allocated. The buffer of a
/// chunk's last bucket (in stage 3, of a unit with is_of_all) does not count if backward begins that bucket
/// before the chunk's first, as with weights that the output layer and the embeddings share: the bucket is
/// complete only at the end, and if it counted, each of the others would have to be reduced before the next
/// is begun. Ranks cannot deadlock: all launch the buckets of a round in the same order, and wait only for
/// buckets that they have launched.
class BucketBuffers {
 public:
  /// For an arena of stage 2 or 3, which must outlive this object.
  BucketBuffers(const ParameterArena& arena, std::shared_ptr<Communicator> comm);

  /// The gradient of this entry is about to be written, for the first time in this backward.
  void open(std::size_t entry);
  /// The gradient of this entry is complete.
  void complete(std::size_t entry) { is_complete_[entry] = 1; }
  /// Starts the reduction of a bucket; incomplete gradients in it count as 0. All ranks launch all buckets of
  /// a round in the same order.
  void launch(std::size_t bucket);
  /// Ends the round: waits for the reductions in flight, and frees all buffers.
  void end_round();

  /// The largest number of buffers that existed at a time, including buffers that do not count.
  std::size_t most() const { return most_; }

 private:
  /// A bucket whose reduction is in flight.
  struct Sent {
    std::size_t bucket;
    Tensor buffer;
    Work work;
  };
  /// A bucket's position in its chunk.
  struct Position {
    std::size_t first_of_chunk = 0;  ///< the chunk's first bucket
    bool may_be_early = false;
  };
  void make_buffer(std::size_t bucket);
  void add_oldest_to_shard();

  const ParameterArena& arena_;
  std::shared_ptr<Communicator> comm_;
  std::vector<std::size_t> bucket_of_entry_;
  std::vector<Tensor> filling_;  // of each bucket; undefined for a bucket without a buffer
  std::deque<Sent> sent_;
  std::vector<std::uint8_t> is_complete_;             // of each entry, in this round
  std::vector<std::uint64_t> shard_zero_grad_count_;  // of each bucket: at the last write to its slice
  std::vector<Position> positions_;                   // of each bucket
  std::vector<std::uint8_t> has_begun_;               // of each bucket, in this round
  std::vector<std::uint8_t> is_early_;                // of each bucket: its buffer does not count
  std::size_t buffers_ = 0;
  std::size_t most_ = 0;
};

}  // namespace ringtape
