#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "gpu_model/nccl/call.h"

/// The shared memory of a communicator's ranks. It has no name, so the system frees it when the ranks end in
/// any way: rank 0 creates it and passes it to the others (connect.h).
namespace gpu_model::nccl {

constexpr int kMaxRanks = 64;

enum class Presence : std::uint32_t { joining, here, destroyed, aborted };

/// The part of the segment that a rank writes for the others. The segment's lock guards the non-atomic
/// members.
struct RankArea {
  std::atomic<std::uint32_t> bell;  ///< a futex: rung when there may be work
  std::atomic<Presence> presence;
  pthread_mutex_t alive;  ///< held by a thread of the rank during its lifetime
  std::int32_t process;

  std::uint64_t begun;  ///< number of collectives begun
  Shape shapes[2];      ///< of the last two collectives, at number % 2

  std::uint64_t splits;
  struct Split {
    std::int32_t color, key;
  } split[2];

  // The deadlock detection (deadlock.h).
  std::uint64_t waves;
  std::uint64_t activity[2];
  char waits[400];
};

/// A stream of messages from one rank to another.
struct Channel {
  alignas(64) std::atomic<std::uint64_t> written;  ///< bytes so far
  std::atomic<std::uint64_t> sent;                 ///< messages begun
  alignas(64) std::atomic<std::uint64_t> read;
  std::atomic<std::uint64_t> wanted;  ///< messages that the receiver has begun to wait for
};

class Segment {
 public:
  /// A file for this number of ranks, -1 on an error.
  static int create(int ranks);
  /// Maps the file and closes it. is_mapped() is false on an error.
  explicit Segment(int file);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  bool is_mapped() const { return header_ != nullptr; }
  int ranks() const { return header_->ranks; }
  RankArea& rank(int rank) const;

  Channel& channel(int from, int to) const;
  /// Appends up to `bytes` bytes to the channel, limited by its room; returns the number.
  std::size_t write(int from, int to, const char* data, std::size_t bytes) const;
  /// Removes up to `bytes` bytes from the channel; returns the number.
  std::size_t read(int from, int to, char* data, std::size_t bytes) const;

  void ring(int rank) const;
  void ring_all() const;
  /// Sleeps until the rank's bell has another value than `seen`, at most `milliseconds`.
  void listen(int rank, std::uint32_t seen, int milliseconds) const;

  /// Whether the thread that holds the rank's `alive` has ended without unlocking it.
  bool has_died(int rank) const;

  /// Sets the communicator's error, which ends it for all ranks. False if it already has an error, which is
  /// kept.
  bool fail(ncclResult_t error, const std::string& text) const;
  /// ncclSuccess without an error.
  ncclResult_t error() const;
  std::string error_text() const;

  /// Holds the segment's lock. The data is usable even if a rank died while it held the lock.
  class Lock {
   public:
    explicit Lock(const Segment& segment);
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    pthread_mutex_t* mutex_;
  };

 private:
  struct Header {
    pthread_mutex_t mutex;
    std::int32_t ranks;
    std::atomic<std::int32_t> error;
    std::uint64_t capacity;  ///< bytes of a channel's buffer
    std::uint64_t bytes;     ///< of the segment
    char error_text[600];
  };
  char* buffer(int from, int to) const;

  Header* header_ = nullptr;
};

}  // namespace gpu_model::nccl
