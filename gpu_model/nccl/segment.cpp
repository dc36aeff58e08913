#include "gpu_model/nccl/segment.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <new>

#include "gpu_model/runtime/page.h"

namespace gpu_model::nccl {
namespace {

constexpr std::size_t kChannelBytes = std::size_t{256} << 10, kAllChannelsBytes = std::size_t{16} << 20,
                      kPage = 4096;

void make_mutex(pthread_mutex_t& mutex) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
}

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value, const timespec* timeout) {
  static_assert(sizeof word == sizeof(std::uint32_t));
  return syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

}  // namespace

int Segment::create(int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  const std::size_t capacity =
      std::max(kPage, std::min(kChannelBytes, kAllChannelsBytes / (n * n)) / kPage * kPage);
  const std::size_t areas = round_up(round_up(sizeof(Header), 64) + n * round_up(sizeof(RankArea), 64), 64);
  const std::size_t bytes = round_up(areas + n * n * sizeof(Channel), kPage) + n * n * capacity;
  const int file = memfd_create("nccl of the GPU model", MFD_CLOEXEC);
  if (file < 0) return -1;
  if (ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    close(file);
    return -1;
  }
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) {
    close(file);
    return -1;
  }
  Header* const header = new (memory) Header{};
  make_mutex(header->mutex);
  header->ranks = ranks;
  header->capacity = capacity;
  header->bytes = bytes;
  for (int rank = 0; rank < ranks; ++rank) {
    char* const at = static_cast<char*>(memory) + round_up(sizeof(Header), 64) +
                     static_cast<std::size_t>(rank) * round_up(sizeof(RankArea), 64);
    make_mutex((new (at) RankArea{})->alive);
  }
  munmap(memory, bytes);
  return file;
}

Segment::Segment(int file) {
  struct stat status;
  if (fstat(file, &status) == 0) {
    void* const memory =
        mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory != MAP_FAILED) header_ = static_cast<Header*>(memory);
  }
  close(file);
}

Segment::~Segment() {
  if (header_ != nullptr) munmap(header_, header_->bytes);
}

RankArea& Segment::rank(int rank) const {
  return *reinterpret_cast<RankArea*>(reinterpret_cast<char*>(header_) + round_up(sizeof(Header), 64) +
                                      static_cast<std::size_t>(rank) * round_up(sizeof(RankArea), 64));
}

Channel& Segment::channel(int from, int to) const {
  Channel* const first = reinterpret_cast<Channel*>(&rank(header_->ranks));
  return first[from * header_->ranks + to];
}

char* Segment::buffer(int from, int to) const {
  const auto n = static_cast<std::size_t>(header_->ranks);
  char* const end = reinterpret_cast<char*>(header_) + header_->bytes;
  return end -
         (n * n - static_cast<std::size_t>(from) * n - static_cast<std::size_t>(to)) * header_->capacity;
}

std::size_t Segment::write(int from, int to, const char* data, std::size_t bytes) const {
  Channel& channel = this->channel(from, to);
  char* const memory = buffer(from, to);
  const std::uint64_t at = channel.written.load();
  bytes = std::min(bytes, header_->capacity - (at - channel.read.load()));
  const std::size_t place = at % header_->capacity, first = std::min(bytes, header_->capacity - place);
  if (first > 0) std::memcpy(memory + place, data, first);
  if (bytes > first) std::memcpy(memory, data + first, bytes - first);
  channel.written.store(at + bytes);
  return bytes;
}

std::size_t Segment::read(int from, int to, char* data, std::size_t bytes) const {
  Channel& channel = this->channel(from, to);
  const char* const memory = buffer(from, to);
  const std::uint64_t at = channel.read.load();
  bytes = std::min(bytes, channel.written.load() - at);
  const std::size_t place = at % header_->capacity, first = std::min(bytes, header_->capacity - place);
  if (first > 0) std::memcpy(data, memory + place, first);
  if (bytes > first) std::memcpy(data + first, memory, bytes - first);
  channel.read.store(at + bytes);
  return bytes;
}

void Segment::ring(int rank) const {
  std::atomic<std::uint32_t>& bell = this->rank(rank).bell;
  ++bell;
  futex(bell, FUTEX_WAKE, INT_MAX, nullptr);
}

void Segment::ring_all() const {
  for (int rank = 0; rank < ranks(); ++rank) ring(rank);
}

void Segment::listen(int rank, std::uint32_t seen, int milliseconds) const {
  const timespec timeout{milliseconds / 1000, milliseconds % 1000 * 1'000'000L};
  futex(this->rank(rank).bell, FUTEX_WAIT, seen, &timeout);
}

bool Segment::has_died(int rank) const {
  pthread_mutex_t& alive = this->rank(rank).alive;
  const int result = pthread_mutex_trylock(&alive);
  // Unlocked without being made consistent, it becomes not recoverable.
  if (result == 0 || result == EOWNERDEAD) pthread_mutex_unlock(&alive);
  return result == EOWNERDEAD || result == ENOTRECOVERABLE;
}

bool Segment::fail(ncclResult_t error, const std::string& text) const {
  {
    const Lock lock(*this);
    if (header_->error != ncclSuccess) return false;
    std::snprintf(header_->error_text, sizeof header_->error_text, "%s", text.c_str());
    header_->error = error;
  }
  ring_all();
  return true;
}

std::string Segment::error_text() const {
  return header_->error_text;
}

ncclResult_t Segment::error() const {
  return static_cast<ncclResult_t>(header_->error.load());
}

Segment::Lock::Lock(const Segment& segment) : mutex_(&segment.header_->mutex) {
  if (pthread_mutex_lock(mutex_) == EOWNERDEAD) pthread_mutex_consistent(mutex_);
}

Segment::Lock::~Lock() {
  pthread_mutex_unlock(mutex_);
}

}  // namespace gpu_model::nccl
