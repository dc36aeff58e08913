#pragma once

#include <cuda_runtime_api.h>

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

/// Everything that the model knows, behind one mutex. Functions of these headers expect it to be held.
namespace gpu_model {

/// An operation that was queued and that runs once.
struct Node {
  std::uint64_t id = 0;                        ///< in the order of the calls
  std::shared_ptr<const Operation> operation;  ///< null when it is done
  int device = 0;
  int stream = 0;  ///< its number
  std::uint64_t correlation = 0;
  bool in_graph = false;
  Stamp stamp;
  Clock clock;                                ///< what is ordered before it, and itself
  std::vector<std::shared_ptr<Node>> before;  ///< that it waits for
  std::vector<Node*> after;                   ///< that wait for it
  std::size_t waits_for = 0;                  ///< of `before`, how many are not done
  bool done = false;
  int queries = 0;       ///< in a row, that found it not done
  std::int64_t end = 0;  ///< when it was done
};
using NodePtr = std::shared_ptr<Node>;

/// A graph: operations, each with those of the graph that come before it.
struct GraphBody {
  struct Entry {
    std::shared_ptr<const Operation> operation;
    std::vector<std::size_t> before;
    int device;
    std::size_t branch = 0;  ///< set by instantiation
  };
  std::vector<Entry> entries;
};

/// A capture that is going on.
struct Capture {
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  cudaStream_t origin;
  bool invalidated = false;
  GraphBody body;
};

/// What makes an operation wait: the operations themselves, and what is ordered before the host knows of
/// them.
struct Order {
  std::vector<NodePtr> before;
  Clock clock;
};

struct Device {
  int index;
  std::unique_ptr<MemorySpace> space;  ///< null until the context is open
  std::unique_ptr<CUmemPoolHandle_st> pool;
  cudaError_t sticky = cudaSuccess;
  NodePtr left_by_destroyed;  ///< after all that was queued in streams when they were destroyed
  std::size_t destroyed_lane = 0;
  std::uint64_t destroyed_tick = 0;
  std::unique_ptr<CUstream_st> legacy;
  std::map<std::thread::id, std::unique_ptr<CUstream_st>> per_thread;
};

struct State {
  std::mutex mutex;
  std::condition_variable changed;

  std::vector<std::unique_ptr<Device>> devices;
  std::map<CUstream_st*, std::unique_ptr<CUstream_st>> streams;
  std::map<CUevent_st*, std::unique_ptr<CUevent_st>> events;
  std::set<std::shared_ptr<Capture>> captures;
  PinnedMemory pinned;

  std::map<std::uint64_t, NodePtr> pending;  ///< not done, by id
  std::map<std::uint64_t, Node*> ready;      ///< of these, those that wait for nothing
  Clock host;                                ///< what the host has waited for
  std::size_t lanes = 0;
  std::uint64_t nodes = 0;
  std::uint64_t calls = 0;
  int stream_numbers = 0;
  int contexts = 0;
  int allocations_until_failure = 0;

  Schedule schedule = Schedule::order;
  std::mt19937_64 random;
  Observer* observer = nullptr;
  WaitHook wait_hook = nullptr;
  ReportHandler report_handler = nullptr;
  int reports = 0;
};

/// Lives as long as the process, since destructors of static objects call CUDA too.
State& state();

using Lock = std::unique_lock<std::mutex>;

/// The device of this number, with its context opened.
Device& open_device(int index);

/// Queues an operation behind what `order` says. The node's clock is order's with its own stamp.
NodePtr add_node(std::shared_ptr<const Operation> operation, int device, int stream, Stamp stamp,
                 Order order);
/// What the schedule does at a call.
void run_at_call();
/// Runs until `node` is done. Waits for what is blocked, with the lock given up.
void run_until(Lock& lock, const NodePtr& node);
/// Runs one operation of those that are ready by the schedule's choice; false when all are blocked, or none
/// is there.
bool run_any();
/// Notes that the host has waited for all of `clock`.
void host_has_waited_for(const Clock& clock);
/// Whether the node is done, to a query: the late schedule lets two queries in a row find that it is not.
bool query(const NodePtr& node);

}  // namespace gpu_model

/// A stream.
struct CUstream_st {
  int number = 0;  ///< 0 for the legacy default stream
  int device = 0;
  bool is_legacy = false;
  bool is_blocking = false;  ///< waits for the legacy default stream, and that for it
  std::size_t lane = 0;
  std::uint64_t tick = 0;
  gpu_model::NodePtr last;  ///< queued last; null when nothing was
  std::shared_ptr<gpu_model::Capture> capture;
  std::vector<std::size_t> captured_last;  ///< entries of the capture that the next one comes after
};

/// An event.
struct CUevent_st {
  int device = 0;
  unsigned flags = 0;
  gpu_model::NodePtr node;                      ///< null until it is recorded
  std::shared_ptr<gpu_model::Capture> capture;  ///< that it was recorded in last; null: in none
  std::vector<std::size_t> captured;
};
