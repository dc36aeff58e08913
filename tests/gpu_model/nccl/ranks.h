#pragma once

#include <cuda_runtime_api.h>
#include <gpu_model/model.h>
#include <nccl.h>

#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/catch.h"

/// Ranks as threads, each with a GPU of the model, a communicator and a stream.
namespace gpu_model::test {

/// The failed checks of all threads (Catch2's own checks are for one thread).
class Failures {
 public:
  void add(const std::string& text) {
    const std::lock_guard lock(mutex_);
    all_.push_back(text);
  }
  std::vector<std::string> all() {
    const std::lock_guard lock(mutex_);
    return all_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> all_;
};

/// The model's reports during its lifetime.
class Reports {
 public:
  Reports() : before_(set_report_handler(&keep)) { kept().clear(); }
  ~Reports() { set_report_handler(before_); }
  Reports(const Reports&) = delete;
  Reports& operator=(const Reports&) = delete;
  std::vector<std::string> all() const {
    const std::lock_guard lock(mutex());
    return kept();
  }

 private:
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  static std::vector<std::string>& kept() {
    static std::vector<std::string> texts;
    return texts;
  }
  static void keep(const std::string& text) {
    const std::lock_guard lock(mutex());
    kept().push_back(text);
  }
  ReportHandler before_;
};

/// A rank in its thread.
struct Rank {
  int rank, ranks;
  ncclComm_t comm;
  cudaStream_t stream;
  Failures& failures;

  void expect(bool holds, const std::string& what) const {
    if (!holds) failures.add("rank " + std::to_string(rank) + " of " + std::to_string(ranks) + ": " + what);
  }
  void expect(ncclResult_t found, ncclResult_t expected, const std::string& what) const {
    expect(found == expected, what + ": " + ncclGetErrorString(found) + " (" + ncclGetLastError(comm) + ")");
  }
  void ok(ncclResult_t found, const std::string& what) const { expect(found, ncclSuccess, what); }
  void synchronize() const { expect(cudaStreamSynchronize(stream) == cudaSuccess, "cudaStreamSynchronize"); }
  /// Ends the communicator before the body ends: cudaFree() waits for all of a device's work.
  void abort() const { ok(ncclCommAbort(comm), "ncclCommAbort"); }
  /// Waits until the communicator has an asynchronous error.
  ncclResult_t async_error() const {
    ncclResult_t error = ncclSuccess;
    while (ncclCommGetAsyncError(comm, &error) == ncclSuccess && error == ncclSuccess)
      std::this_thread::yield();
    return error;
  }
};

/// `count` elements of T on the current device.
template <class T>
class Array {
 public:
  Array(const Rank& rank, const std::vector<T>& values) : rank_(rank), count_(values.size()) {
    rank_.expect(cudaMalloc(&memory_, (count_ + 1) * sizeof(T)) == cudaSuccess, "cudaMalloc");
    cudaMemcpy(memory_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice);
    cudaStreamSynchronize(
        nullptr);  // a copy of pageable memory may end later, and the rank's stream does not wait for it
  }
  ~Array() { cudaFree(memory_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  T* get() const { return static_cast<T*>(memory_); }
  /// The values, after the work of the rank's stream.
  std::vector<T> values() const {
    rank_.synchronize();
    std::vector<T> result(count_);
    cudaMemcpy(result.data(), memory_, count_ * sizeof(T), cudaMemcpyDeviceToHost);
    return result;
  }

 private:
  const Rank& rank_;
  std::size_t count_;
  void* memory_ = nullptr;
};

enum class End { destroy, by_body };

/// Calls body(rank) in a thread for each of `ranks` ranks, and destroys the communicators, unless the body
/// has ended them. Fails the test with the ranks' failed checks.
inline void run_ranks(int ranks, const std::function<void(const Rank&)>& body, End end = End::destroy) {
  Failures failures;
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      Rank rank{r, ranks, nullptr, nullptr, failures};
      rank.expect(cudaSetDevice(r) == cudaSuccess, "cudaSetDevice");
      rank.ok(ncclCommInitRank(&rank.comm, ranks, id, r), "ncclCommInitRank");
      rank.expect(cudaStreamCreateWithFlags(&rank.stream, cudaStreamNonBlocking) == cudaSuccess,
                  "cudaStreamCreate");
      body(rank);
      if (end == End::destroy) rank.ok(ncclCommDestroy(rank.comm), "ncclCommDestroy");
      rank.synchronize();
      cudaStreamDestroy(rank.stream);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failures.all() == std::vector<std::string>{});
}

/// Calls body() under each schedule.
inline void for_schedules(const std::function<void()>& body) {
  const std::pair<Schedule, std::uint64_t> all[] = {{Schedule::order, 0},
                                                    {Schedule::late, 0},
                                                    {Schedule::early, 0},
                                                    {Schedule::random, 1},
                                                    {Schedule::random, 2}};
  for (const auto& [schedule, seed] : all) {
    INFO("schedule " << static_cast<int>(schedule) << ", seed " << seed);
    set_schedule(schedule, seed);
    body();
  }
  set_schedule(Schedule::order);
}

}  // namespace gpu_model::test
