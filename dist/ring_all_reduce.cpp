#include "dist/ring_all_reduce.h"

#include <algorithm>
#include <utility>

#include "core/ceil_div.h"
#include "core/error.h"
#include "core/stream.h"
#include "kernels/pointwise.h"

namespace ringtape {
namespace {

/// The transfers of one rank in order: all segments of step 0, then those of step 1, and so on. Segment g of
/// a step sends the elements that segment g of the previous step received.
class Ring {
 public:
  Ring(Communicator& comm, Tensor tensor, ReduceOp op, const RingOptions& options)
      : comm_(comm), tensor_(std::move(tensor)), op_(op), options_(options) {
    const auto element_bytes = static_cast<std::int64_t>(size_of(tensor_.dtype()));
    segment_ = std::max<std::int64_t>(options.segment_bytes / element_bytes, 1);
    const std::int64_t largest = ceil_div(tensor_.elements(), comm.size());
    segments_ = static_cast<int>(ceil_div(largest, segment_));
    // A segment of the next step may only begin when the same segment of this step is complete.
    in_flight_ = std::min(options.in_flight, segments_);
    received_ = empty({in_flight_ * std::min(segment_, largest)}, tensor_.dtype(), tensor_.device());
    works_.resize(in_flight_);
  }

  void run() {
    const int transfers = 2 * (comm_.size() - 1) * segments_;
    for (int k = 0; k < transfers + in_flight_; ++k) {
      if (k >= in_flight_) finish(k - in_flight_);
      if (k < transfers) begin(k);
    }
  }

 private:
  bool adds(int k) const { return k / segments_ < comm_.size() - 1; }

  int sent_chunk(int k) const {
    const int step = k / segments_, size = comm_.size();
    // In the second half a rank begins with the chunk it has completed, the next one.
    return adds(k) ? (comm_.rank() - step + size) % size
                   : (comm_.rank() + 1 - (step - (size - 1)) + size) % size;
  }
  int received_chunk(int k) const { return (sent_chunk(k) + comm_.size() - 1) % comm_.size(); }

  /// The elements of the chunk that transfer k moves; empty if the chunk is shorter and lacks that segment.
  Tensor part(int k, int chunk) const {
    const ElementRange whole = ring_chunk(tensor_.elements(), comm_.size(), chunk);
    const std::int64_t first = std::min(k % segments_ * segment_, whole.count);
    const std::int64_t count = std::min(segment_, whole.count - first);
    return tensor_.alias({count}, whole.first + first);
  }

  /// The buffer in which transfer k receives `count` elements to be added.
  Tensor buffer(int k, std::int64_t count) const {
    return received_.alias({count}, k % in_flight_ * (received_.elements() / in_flight_));
  }

  void begin(int k) {
    const Tensor out = part(k, sent_chunk(k)), in = part(k, received_chunk(k));
    const int next = (comm_.rank() + 1) % comm_.size();
    const int previous = (comm_.rank() + comm_.size() - 1) % comm_.size();
    if (options_.trace) {
      options_.trace(
          {k / segments_, k % segments_, sent_chunk(k), received_chunk(k), out.elements(), in.elements()});
    }
    std::vector<Transfer> sends, receives;
    if (out.elements() > 0) sends.push_back({out, next});
    if (in.elements() > 0) receives.push_back({adds(k) ? buffer(k, in.elements()) : in, previous});
    works_[k % in_flight_] = comm_.exchange(std::move(sends), std::move(receives));
  }

  void finish(int k) {
    works_[k % in_flight_].wait();
    const Tensor own = part(k, received_chunk(k));
    const std::int64_t n = own.elements();
    if (!adds(k) || n == 0) return;
    const Stream stream = Stream::current(own.device());
    add(stream, own.dtype(), own.raw(), buffer(k, n).raw(), own.raw(), n);
    const bool is_complete = k / segments_ == comm_.size() - 2;
    if (is_complete && op_ == ReduceOp::mean) {
      scale(stream, own.dtype(), own.raw(), own.raw(), n, 1.0 / comm_.size());
    }
  }

  Communicator& comm_;
  Tensor tensor_;
  ReduceOp op_;
  const RingOptions& options_;
  std::int64_t segment_ = 0;  // elements
  int segments_ = 0;          // of the largest chunk
  int in_flight_ = 0;
  Tensor received_;          // in_flight_ buffers
  std::vector<Work> works_;  // of the transfers in flight
};

}  // namespace

ElementRange ring_chunk(std::int64_t elements, int chunks, int chunk) {
  const std::int64_t each = elements / chunks,
                     larger = elements % chunks;  // the first `larger` chunks have one element more
  const std::int64_t first = chunk * each + std::min<std::int64_t>(chunk, larger);
  return {first, each + (chunk < larger ? 1 : 0)};
}

void ring_all_reduce(Communicator& comm, const Tensor& tensor, ReduceOp op, const RingOptions& options) {
  check(tensor.defined() && tensor.device() == comm.device() && is_floating(tensor.dtype()),
        "ring_all_reduce: tensor is {}, expected a floating dtype on {}",
        tensor.defined() ? describe(tensor) : "undefined", to_string(comm.device()));
  check(op == ReduceOp::sum || op == ReduceOp::mean, "ring_all_reduce: {}, expected sum or mean",
        name_of(op));
  check(options.segment_bytes > 0 && options.in_flight > 0,
        "ring_all_reduce: segments of {} bytes, {} in flight, expected at least 1", options.segment_bytes,
        options.in_flight);
  if (comm.size() == 1 || tensor.elements() == 0) return;
  tensor.bump_version();
  Ring(comm, tensor, op, options).run();
}

}  // namespace ringtape
