#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "gpu_model/nccl/call.h"

/// The memory that the ranks of a communicator share. It has no name, so nothing is left of it when they are
/// gone, however they end: rank 0 makes it and hands it to the others (connect.h).
namespace gpu_model::nccl {

constexpr int kMaxRanks = 64;

enum class Presence : std::uint32_t { joining, here, destroyed, aborted };

/// What a rank shows to the others. The plain members are guarded by the segment's lock.
struct RankArea {
  std::atomic<std::uint32_t> bell;  ///< a futex: rung when there may be something to do
  std::atomic<Presence> presence;
  pthread_mutex_t alive;  ///< held by a thread of the rank as long as it lives
  std::int32_t process;

  std::uint64_t begun;  ///< collectives
  Shape shapes[2];      ///< of the last two, at the remainder of their number

  std::uint64_t splits;
  struct Split {
    std::int32_t color, key;
  } split[2];

  // The search for waits that never end (deadlock.h).
  std::uint64_t waves;
  std::uint64_t activity[2];
  char waits[400];
};

/// A stream of messages from one rank to another.
struct Channel {
  alignas(64) std::atomic<std::uint64_t> written;  ///< bytes so far
  std::atomic<std::uint64_t> sent;                 ///< messages that were begun
  alignas(64) std::atomic<std::uint64_t> read;
  std::atomic<std::uint64_t> wanted;  ///< messages that the receiver has waited for
};

class Segment {
 public:
  /// A file for this number of ranks, -1 where the system has none.
  static int create(int ranks);
  /// Maps the file and closes it. is_mapped() tells whether that went well.
  explicit Segment(int file);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  bool is_mapped() const { return header_ != nullptr; }
  int ranks() const { return header_->ranks; }
  RankArea& rank(int rank) const;

  Channel& channel(int from, int to) const;
  /// Appends up to `bytes` to the channel, as many as there is room for; the number.
  std::size_t write(int from, int to, const char* data, std::size_t bytes) const;
  /// Takes up to `bytes` from the channel; the number.
  std::size_t read(int from, int to, char* data, std::size_t bytes) const;

  void ring(int rank) const;
  void ring_all() const;
  /// Sleeps until the rank's bell has another value than `seen`, or the time is over.
  void listen(int rank, std::uint32_t seen, int milliseconds) const;

  /// Whether the thread that holds the rank's `alive` has ended without giving it back.
  bool has_died(int rank) const;

  /// Sets the communicator's error, which ends it for all ranks. False where there was one before, which
  /// stays.
  bool fail(ncclResult_t error, const std::string& text) const;
  /// ncclSuccess when there is none.
  ncclResult_t error() const;
  std::string error_text() const;

  /// Holds the segment's lock. A rank that died with it left nothing half done that others would use.
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
