#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/analysis/analysis.h"

namespace ringtape::analysis {

/// Which threads of a block have been at a barrier together since when. Two accesses are ordered where a
/// barrier stands between them that both threads passed: __syncthreads, or a __syncwarp that names both. A
/// shuffle orders nothing.
class BarrierTimes {
 public:
  struct Time {
    std::uint32_t barriers = 0;  // block barriers so far; goes on from block to block
    std::uint32_t syncs = 0;     // __syncwarp calls of the warp so far
  };

  void begin_block() { first_of_block_ = ++barriers_; }
  void sync_block() { ++barriers_; }
  void sync_warp(int warp, unsigned lanes);

  Time now(int thread) const { return {barriers_, warps_[thread / 32].syncs}; }
  bool in_this_block(Time time) const { return time.barriers >= first_of_block_; }
  /// Whether what `earlier` did at `time`, in this block, comes before what `later` does now.
  bool ordered(int earlier, Time time, int later) const;

 private:
  struct Warp {
    std::uint32_t syncs = 0;
    std::uint32_t together[32][32] = {};  // the last __syncwarp that named both lanes
  };
  std::uint32_t barriers_ = 0;
  std::uint32_t first_of_block_ = 0;
  std::vector<Warp> warps_ = std::vector<Warp>(32);
};

/// The last accesses to each byte of a block's shared memory.
class SharedShadow {
 public:
  /// What is wrong with an access.
  struct Problem {
    enum { none, race, unwritten, under_way } kind = none;  // under_way: a copy that has not been waited for
    int site = 0;  // of the other access of a race, or of the copy's begin
    int thread = 0;
  };

  void resize(std::size_t bytes) { bytes_.assign(bytes, {}); }
  /// Bytes from `first` on that any thread has used since resize().
  std::size_t used(std::size_t first) const;
  /// Notes an access by `thread` at instruction `site`; returns the first problem.
  Problem access(std::size_t offset, std::size_t bytes, Access access, int thread, int site,
                 const BarrierTimes& times);
  /// The same for the begin of an asynchronous copy: until `thread` writes the bytes, which is their arrival,
  /// nobody may use them.
  Problem begin_copy(std::size_t offset, std::size_t bytes, int thread, int site, const BarrierTimes& times);

 private:
  struct Mark {
    BarrierTimes::Time time;  // 0 barriers: no access yet
    std::uint16_t thread = 0;
    std::uint16_t site = 0;
    bool atomic = false;
    bool writes = false;      // and does not read
    bool copy_begin = false;  // of an asynchronous copy
  };
  // Of the readers since the last write, the first and the last: where any is not ordered with a later write,
  // one of these two is, but for readers that single __syncwarps order.
  struct Byte {
    Mark writer, first_reader, last_reader;
  };
  static Problem race_with(const Mark& mark, const Mark& now, const BarrierTimes& times);
  Problem note_all(std::size_t offset, std::size_t bytes, Access access, const Mark& now,
                   const BarrierTimes& times);
  static Problem note(Byte& byte, Access access, const Mark& now, const BarrierTimes& times);

  std::vector<Byte> bytes_;
};

}  // namespace ringtape::analysis
