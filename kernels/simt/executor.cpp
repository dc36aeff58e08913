#include "kernels/simt/executor.h"

#include <omp.h>

#include <algorithm>
#include <exception>
#include <mutex>

#include "core/error.h"
#include "kernels/simt/observer.h"
#include "kernels/simt/openmp_start.h"
#include "kernels/simt/worker.h"

namespace ringtape::simt {

constinit thread_local uint3 threadIdx{};
constinit thread_local uint3 blockIdx{};
constinit thread_local dim3 blockDim{};
constinit thread_local dim3 gridDim{};

namespace {

/// Links openmp_start.cpp into every program that launches kernels.
[[gnu::used]] const int* const kBringsOpenmpStart = &kMaxThreadsOfCore;

constexpr unsigned kMaxGridYZ = 65535;
Observer* the_observer = nullptr;

}  // namespace

void run_grid(dim3 grid, dim3 block, std::size_t shared_bytes, void (*thread)(const void*),
              const void* context, const void* kernel) {
  const std::int64_t blocks = std::int64_t{grid.x} * grid.y * grid.z;
  const std::int64_t threads = std::int64_t{block.x} * block.y * block.z;
  if (blocks == 0 || threads == 0) return;
  check(threads <= kMaxThreads, "launch with {} x {} x {} threads in a block: expected at most {}", block.x,
        block.y, block.z, kMaxThreads);
  check(grid.y <= kMaxGridYZ && grid.z <= kMaxGridYZ,
        "launch with {} x {} x {} blocks: expected at most {} in y and z, as in CUDA", grid.x, grid.y, grid.z,
        kMaxGridYZ);
  check(!Worker::current().busy(), "launch from inside a kernel");

  // Shared memory in a section, and an observer, exist once for all threads of the host.
  static std::mutex one_launch_at_a_time;
  std::unique_lock lock(one_launch_at_a_time, std::defer_lock);
  if (kCheck || observer() != nullptr) lock.lock();

  Launch launch{grid, block, shared_bytes, thread, context, kernel, order_setting(), observer()};
  const auto run = [&](std::int64_t first, std::int64_t last) {
    try {
      Worker::current().run_blocks(launch, first, last);
    } catch (...) {
      launch.report(std::current_exception(), first);
    }
  };
  const bool one_worker = kCheck || launch.observer != nullptr || omp_in_parallel();
  if (launch.observer != nullptr) launch.observer->launch_begins(launch);
  if (launch.observer != nullptr && !launch.observer->runs_threads()) return launch.observer->launch_ends();
  const int workers =
      one_worker ? 1 : static_cast<int>(std::min<std::int64_t>(blocks, omp_get_max_threads()));
  if (workers == 1) {
    run(0, blocks);
  } else {
#pragma omp parallel num_threads(workers)
    {
      const int worker = omp_get_thread_num(), team = omp_get_num_threads();
      run(blocks * worker / team, blocks * (worker + 1) / team);
    }
  }
  if (launch.observer != nullptr) launch.observer->launch_ends();
  if (launch.error) std::rethrow_exception(launch.error);
}

void set_observer(Observer* observer) {
  the_observer = observer;
}

Observer* observer() {
  return the_observer;
}

int thread_rank() {
  return Worker::current().rank();
}

void* dynamic_shared_bytes() {
  return Worker::current().dynamic_shared();
}

void sync_block(SourceLocation location) {
  Worker::current().sync_block(location);
}

void sync_warp(unsigned mask, SourceLocation location) {
  Worker::current().combine_warp(mask, 0, 0, result_of_sync, nullptr, location);
}

std::uint64_t shuffle_word(unsigned mask, std::uint64_t word, int source, SourceLocation location) {
  return Worker::current().combine_warp(mask, word, source, result_of_shuffle, nullptr, location);
}

unsigned ballot(unsigned mask, bool predicate, SourceLocation location) {
  const std::uint64_t word = predicate ? 1 : 0;
  return static_cast<unsigned>(
      Worker::current().combine_warp(mask, word, 0, result_of_ballot, nullptr, location));
}

std::uint64_t combine_block(std::uint64_t word, Combine combine, SourceLocation location) {
  return Worker::current().combine_block(word, combine, location);
}

std::uint64_t combine_warp(std::uint64_t word, Combine combine, SourceLocation location) {
  Worker& worker = Worker::current();
  return worker.combine_warp(worker.warp_lanes(), word, 0, result_of_combine, combine, location);
}

void check_in_flight(int count, int most, const char* what) {
  check(count < most, "kernel: a thread has {} {} in flight, all that the CPU's model holds", count, what);
}

void note_copies_under_way(int count) {
  if (the_observer != nullptr) the_observer->copies_under_way(thread_rank(), count);
}

void note_copy_begins(void* shared, std::size_t bytes) {
  if (the_observer == nullptr) return;
  the_observer->copy_begins(thread_rank(), shared, bytes, __builtin_return_address(0));
}

}  // namespace ringtape::simt
