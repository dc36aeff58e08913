#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/analysis/analysis.h"

namespace ringtape::analysis {

/// The barriers that the threads of a block have passed. Two accesses are ordered if both threads passed a
/// barrier between them: __syncthreads, or a __syncwarp that names both. A shuffle orders nothing.
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
  /// Whether an access by thread `earlier` at `time`, in this block, happened before thread `later`'s access
  /// now.
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
  /// A problem of an access.
  struct Problem {
    enum { none, race, unwritten, under_way } kind = none;  // under_way: a copy not waited for
    int site = 0;  // of the other access of a race, or of the copy's start
    int thread = 0;
  };

  void resize(std::size_t bytes) { bytes_.assign(bytes, {}); }
  /// Bytes from `first` on that a thread has accessed since resize().
  std::size_t used(std::size_t first) const;
  /// Records an access by `thread` at instruction `site`; returns the first problem.
  Problem access(std::size_t offset, std::size_t bytes, Access access, int thread, int site,
                 const BarrierTimes& times);
  /// The same for the start of an asynchronous copy: until `thread` writes the bytes, which is their arrival,
  /// no thread may access them.
  Problem begin_copy(std::size_t offset, std::size_t bytes, int thread, int site, const BarrierTimes& times);

 private:
  struct Mark {
    BarrierTimes::Time time;  // 0 barriers: no access yet
    std::uint16_t thread = 0;
    std::uint16_t site = 0;
    bool atomic = false;
    bool writes = false;      // a write, not an atomic
    bool copy_begin = false;  // of an asynchronous copy
  };
  // The first and the last reader since the last write: if any reader is not ordered with a later write, one
  // of these two is not, except where only a __syncwarp orders readers.
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
