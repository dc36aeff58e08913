#include "dist/shard_exchange.h"

#include <exception>
#include <utility>
#include <vector>

#include "autograd/tape.h"
#include "core/error.h"

namespace ringtape {
namespace {

/// Starts to gather the slices of bucket `b` in `flat`.
Work all_gather_bucket(const ParameterArena& arena, Communicator& comm, const Tensor& flat, std::size_t b) {
  const GradientBucket& bucket = arena.buckets()[b];
  const ShardSlice& slice = arena.slices()[b];
  return comm.all_gather(flat.alias({slice.elements}, slice.offset),
                         flat.alias({bucket.elements}, bucket.offset));
}

void all_gather_slices(const ParameterArena& arena, Communicator& comm, const Tensor& flat) {
  std::vector<Work> works;
  for (std::size_t b = 0; b < arena.buckets().size(); ++b) {
    works.push_back(all_gather_bucket(arena, comm, flat, b));
  }
  for (const Work& work : works) work.wait();
}

/// A gather in flight, and the tensors that have no memory until something reads one of them.
class Arriving {
 public:
  explicit Arriving(Work work) : work_(std::move(work)) {}
  /// Waits for a gather whose tensors nothing has read, so that the stream can reuse their memory at once.
  /// Without the wait the communicator would keep the memory until it sees that the gather is complete.
  ~Arriving() {
    if (taken_.empty() || std::uncaught_exceptions() > 0) return;
    try {
      work_.wait();
    } catch (const Error&) {
      // The next operation of the communicator reports it.
    }
  }
  Arriving(const Arriving&) = delete;
  Arriving& operator=(const Arriving&) = delete;

  /// Takes the memory of `tensor`, until a read of it, or of another tensor of this gather, calls `arrive`.
  void take(const Tensor& tensor, std::function<void()> arrive) {
    const std::shared_ptr<Storage>& storage = tensor.storage();
    taken_.emplace_back(storage, std::exchange(storage->data, nullptr));
    storage->arrive = std::move(arrive);
  }

  void finish() {
    work_.wait();
    for (const auto& [weak, data] : std::exchange(taken_, {})) {
      const std::shared_ptr<Storage> storage = weak.lock();
      if (storage == nullptr) continue;
      storage->data = data;
      storage->arrive = nullptr;
    }
  }

 private:
  Work work_;
  std::vector<std::pair<std::weak_ptr<Storage>, std::shared_ptr<void>>> taken_;
};

/// A tensor with a storage of its own over the same memory, which the storage keeps alive.
Tensor second_handle(const Tensor& flat) {
  void* const first = flat.raw();  // waits for what is arriving
  auto storage = std::make_shared<Storage>();
  storage->data = std::shared_ptr<void>(flat.storage()->data, first);
  storage->bytes = flat.bytes();
  storage->device = flat.device();
  return {std::move(storage), flat.shape(), flat.dtype()};
}

/// Starts with the last buckets: they have the first layers, which the next forward reads first.
void start_all_gather(const ParameterArena& arena, Communicator& comm, const Tensor& flat) {
  const Tensor memory = second_handle(flat);
  const bool is_copy = flat.storage() != arena.values().storage();
  auto all = std::make_shared<std::vector<std::shared_ptr<Arriving>>>();
  for (std::size_t b = arena.buckets().size(); b-- > 0;) {
    const auto arriving = std::make_shared<Arriving>(all_gather_bucket(arena, comm, memory, b));
    const GradientBucket& bucket = arena.buckets()[b];
    for (std::size_t i = bucket.first_entry; i < bucket.first_entry + bucket.entries; ++i) {
      const Tensor& parameter = *arena.entries()[i].tensor;
      arriving->take(is_copy ? parameter.autograd->low_precision : parameter,
                     [arriving] { arriving->finish(); });
    }
    all->push_back(arriving);
  }
  const auto arrive_all = [all] {
    for (const auto& arriving : *all) arriving->finish();
  };
  all->push_back(std::make_shared<Arriving>(Work()));
  all->back()->take(flat, arrive_all);
}

}  // namespace

ShardExchange make_shard_exchange(const ParameterArena& arena, std::shared_ptr<Communicator> comm,
                                  bool overlap) {
  const auto all_gather = [comm, &arena](const Tensor& flat) { all_gather_slices(arena, *comm, flat); };
  ShardExchange exchange{.sum = all_reduce_over(comm, ReduceOp::sum),
                         .max = all_reduce_over(comm, ReduceOp::max),
                         .all_gather = all_gather,
                         .start_all_gather = all_gather};
  if (overlap) {
    exchange.start_all_gather = [comm, &arena](const Tensor& flat) { start_all_gather(arena, *comm, flat); };
  }
  return exchange;
}

}  // namespace ringtape
