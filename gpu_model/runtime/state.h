#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gpu_model/include/gpu_model/model.h"
#include "gpu_model/runtime/clock.h"
#include "gpu_model/runtime/device_kind.h"
#include "gpu_model/runtime/engine.h"
#include "gpu_model/runtime/memory_space.h"
#include "gpu_model/runtime/pinned.h"
#include "gpu_model/runtime/pool.h"
#include "gpu_model/runtime/used_memory.h"

/// The whole state of the model, guarded by one mutex. The functions of the runtime's headers must be called
/// with it held, except those of engine.h and gpu_model/model.h that take it themselves.
namespace gpu_model {

/// A queued operation, which runs once.
struct Node {
  std::uint64_t id = 0;                        ///< in the order of the calls
  std::shared_ptr<const Operation> operation;  ///< null when it is complete
  int device = 0;
  int stream = 0;  ///< its number
  std::uint64_t correlation = 0;
  std::uint64_t launch = 0;  ///< of the graph that it is part of; 0 without one
  int captured_in = 0;       ///< the stream whose capture it was part of
  Stamp stamp;
  Clock clock;                                           ///< the operations ordered before it, and itself
  std::vector<std::shared_ptr<Node>> before;             ///< operations that it waits for
  std::vector<Node*> after;                              ///< operations that wait for it
  std::size_t waits_for = 0;                             ///< number of incomplete ones of `before`
  std::vector<std::shared_ptr<BlockHistory>> may_touch;  ///< of a kernel whose accesses are recorded
  std::atomic<bool> done{false};
  int queries = 0;       ///< consecutive queries that found it incomplete
  std::int64_t end = 0;  ///< time of its completion
};
using NodePtr = std::shared_ptr<Node>;

/// The memory that a graph allocates: the same for all launches, given back when the graph and its executable
/// graphs are gone.
struct GraphMemory {
  GraphMemory() = default;
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;
  ~GraphMemory();
  std::vector<std::pair<int, std::uintptr_t>> blocks;  ///< their devices and addresses
  std::vector<NodePtr> after;                          ///< frees of the memory's earlier allocations
  NodePtr last;                                        ///< the end of the last launch
};

/// A graph: operations, each with its dependencies, which are places of earlier entries.
struct GraphBody {
  struct Entry {
    std::shared_ptr<const Operation> operation;
    std::vector<std::size_t> before;
    int device;
    int stream;  ///< number of the stream that captured it
    UsedMemory used;
    std::size_t branch = 0;  ///< set by instantiation
  };
  std::vector<Entry> entries;
  std::shared_ptr<GraphMemory> memory;  ///< null if it allocates none
};

/// A capture in progress.
struct Capture {
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  cudaStream_t origin;
  bool invalidated = false;
  GraphBody body;
};

/// The dependencies of an operation: the operations themselves, and the clock of their order. For the
/// operation of a graph also the number of the launch, and the stream that captured it.
struct Order {
  std::vector<NodePtr> before;
  Clock clock;
  std::uint64_t launch = 0;
  int captured_in = 0;
};

struct Device {
  int index;
  std::unique_ptr<MemorySpace> space;  ///< null until the context is open
  std::unique_ptr<CUmemPoolHandle_st> pool;
  cudaError_t sticky = cudaSuccess;
  std::unique_ptr<CUstream_st> legacy;
  std::map<std::thread::id, std::unique_ptr<CUstream_st>> per_thread;
  std::vector<std::unique_ptr<CUstream_st>> destroyed;  ///< streams whose work the host has not waited for
};

struct State {
  std::mutex mutex;
  std::condition_variable changed;

  std::vector<std::unique_ptr<Device>> devices;
  std::map<CUstream_st*, std::unique_ptr<CUstream_st>> streams;
  std::map<CUevent_st*, std::unique_ptr<CUevent_st>> events;
  std::set<std::shared_ptr<Capture>> captures;
  PinnedMemory pinned;

  std::map<std::uint64_t, NodePtr> pending;  ///< incomplete, by id
  std::map<std::uint64_t, Node*> ready;      ///< the pending ones without incomplete dependencies
  Clock host;  ///< the operations that a thread of the host has waited for, or that precede a host function
  std::size_t lanes = 0;
  std::uint64_t nodes = 0;
  std::uint64_t calls = 0;
  int stream_numbers = 0;
  int contexts = 0;
  int host_waits = 0;
  int allocations_until_failure = 0;

  Schedule schedule = Schedule::order;
  std::uint64_t seed = 0;
  std::mt19937_64 random;
  Observer* observer = nullptr;
  WaitHook wait_hook = nullptr;
  ReportHandler report_handler = nullptr;
  std::atomic<int> reports = 0;
  std::atomic<bool> has_printed_reports = false;
};

/// Never destroyed, since destructors of static objects also call CUDA.
State& state();

using Lock = std::unique_lock<std::mutex>;

/// The device of this index, with its context created.
Device& open_device(int index);

/// Queues an operation after the dependencies in `order`. The node's clock is the clock of `order` with its
/// own stamp.
NodePtr add_node(std::shared_ptr<const Operation> operation, int device, int stream, Stamp stamp,
                 Order order);
/// Follows the schedule from now on.
void follow(State& of, Schedule schedule, std::uint64_t seed);
/// Runs the operations that the schedule runs at a call.
void run_at_call();
/// Runs until `node` is complete. Waits for blocked operations, with the lock released.
void run_until(Lock& lock, const NodePtr& node);
/// Runs one ready operation, chosen by the schedule; false if all are blocked, or there is none.
bool run_any();
/// Runs one ready operation of `node` and the nodes that it waits for, the first of them in the order of the
/// calls; false if all are blocked, or there is none.
bool run_towards(const Node& node);
/// Records that the operation, which began at `start`, is complete.
void finish(Node& node, std::int64_t start);
/// The time for activities.
std::int64_t now();
/// Records that the host has waited for all of `clock`.
void host_has_waited_for(const Clock& clock);
/// Whether all of these are complete, for a query, at which the schedule may run operations. Under the late
/// schedule the first two queries of an incomplete operation return false, and the third runs it.
bool query(const std::vector<NodePtr>& nodes);

}  // namespace gpu_model

/// A stream.
struct CUstream_st {
  int number = 0;  ///< 0 for the legacy default stream
  int device = 0;
  bool is_legacy = false;
  bool is_blocking = false;      ///< synchronizes with the legacy default stream
  const void* caller = nullptr;  ///< return address of the call that created it
  std::size_t lane = 0;
  std::uint64_t tick = 0;
  gpu_model::NodePtr last;  ///< the last queued operation; null without any
  std::shared_ptr<gpu_model::Capture> capture;
  std::vector<std::size_t> captured_last;  ///< dependencies of the next captured operation
};

/// An event.
struct CUevent_st {
  int device = 0;
  unsigned flags = 0;
  const void* caller = nullptr;
  gpu_model::NodePtr node;                      ///< null until it is recorded
  std::shared_ptr<gpu_model::Capture> capture;  ///< the capture of its last record; null without one
  std::vector<std::size_t> captured;
};
