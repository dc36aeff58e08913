#include "dist/data_parallel.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "autograd/creation.h"
#include "autograd/tape.h"
#include "core/error.h"
#include "core/stream.h"
#include "dist/bucket_reducer.h"
#include "dist/naive_reducer.h"
#include "dist/shard_exchange.h"
#include "dist/verify_parameters.h"
#include "dist/zero1_reducer.h"
#include "dist/zero2_reducer.h"
#include "dist/zero3_reducer.h"
#include "kernels/elementwise.h"

namespace ringtape {
namespace {

std::unique_ptr<GradientReducer> make_reducer(ParameterArena& arena,
                                              const std::shared_ptr<Communicator>& comm,
                                              const DataParallelOptions& options, UsedParameters& used) {
  if (arena.sharding().zero_stage == 3) return std::make_unique<Zero3Reducer>(arena, comm, used);
  if (arena.sharding().zero_stage == 2) return std::make_unique<Zero2Reducer>(arena, comm, used);
  if (arena.sharding().zero_stage == 1 && options.hook == nullptr) {
    return std::make_unique<Zero1Reducer>(arena, comm, options.overlap, used);
  }
  const auto hook = options.hook != nullptr ? options.hook : std::make_shared<AllReduceHook>();
  if (!options.overlap) return std::make_unique<NaiveReducer>(arena, comm, options.bucket_sizes, hook, used);
  return std::make_unique<BucketReducer>(arena, comm, options.bucket_sizes, hook, used);
}

}  // namespace

DataParallel::DataParallel(Module& model, ParameterArena& arena, std::shared_ptr<Communicator> comm,
                           DataParallelOptions options)
    : arena_(arena), comm_(std::move(comm)), options_(std::move(options)), used_(arena) {
  check(comm_ != nullptr, "data parallel: the communicator is null");
  check_arena_is_free();
  check(arena.device() == comm_->device(), "data parallel: the model is on {}, the communicator on {}",
        to_string(arena.device()), to_string(comm_->device()));
  check_sharding();
  verify_parameters(model, *comm_);
  reducer_ = make_reducer(arena, comm_, options_, used_);
  if (arena.is_sharded()) arena.set_shard_exchange(make_shard_exchange(arena, comm_, options_.overlap));

  if (arena.has_all_values()) {
    arena.gather_values();  // out of date if another DataParallel has trained it
    comm_->broadcast(arena.values(), 0).wait();
    arena.bump_versions();
  }
  // The arena's values are broadcast above; with ZeRO 3, when the reducer shards its units.
  std::set<const Tensor*> in_arena;
  for (const ArenaEntry& entry : arena.entries()) in_arena.insert(entry.tensor);
  for (const auto& [name, tensor] : model.named_parameters()) {
    if (!in_arena.contains(tensor)) comm_->broadcast(tensor->detach(), 0).wait();
  }
  int chunks = 1;
  for (const ArenaEntry& entry : arena.entries()) chunks = std::max(chunks, entry.chunk + 1);
  is_reduced_.assign(static_cast<std::size_t>(chunks), 0);
  add_hooks();
}

void DataParallel::check_arena_is_free() const {
  for (const ArenaEntry& entry : arena_.entries()) {
    check(entry.meta->pre_accumulate_hook == nullptr,
          "data parallel: the arena has a DataParallel already; destroy it before making another");
  }
}

void DataParallel::check_sharding() const {
  const ArenaSharding& sharding = arena_.sharding();
  if (sharding.zero_stage == 0) return;
  check(sharding.rank == comm_->rank() && sharding.world_size == comm_->size(),
        "data parallel: the arena has the shard of rank {} of {}, but this is rank {} of {}", sharding.rank,
        sharding.world_size, comm_->rank(), comm_->size());
  check(sharding.zero_stage < 2 || options_.hook == nullptr,
        "data parallel: ZeRO stage {} has no communication hooks, found one", sharding.zero_stage);
  check(
      sharding.zero_stage < 2 || options_.overlap,
      "data parallel: ZeRO stage {} has no memory for all gradients, but without overlap they would need to "
      "be kept until backward ends: expected overlap, or at most stage 1",
      sharding.zero_stage);
}

void DataParallel::add_hooks() {
  for (std::size_t i = 0; i < arena_.entries().size(); ++i) {
    AutogradMeta& meta = *arena_.entries()[i].meta;
    auto& hooks = meta.post_accumulate_hooks;
    hooks_.push_back(hooks.insert(hooks.end(), [this, i] { after_gradient(i); }));
    // In every stage: check_arena_is_free() finds it there.
    meta.pre_accumulate_hook = [this, i] { before_gradient(i); };
  }
}

DataParallel::~DataParallel() {
  for (std::size_t i = 0; i < arena_.entries().size(); ++i) {
    AutogradMeta& meta = *arena_.entries()[i].meta;
    meta.post_accumulate_hooks.erase(hooks_[i]);
    meta.pre_accumulate_hook = nullptr;
  }
  arena_.set_shard_exchange({});
}

void DataParallel::before_gradient(std::size_t entry) {
  if (reduces()) check_no_backward_failed();
  reducer_->before_gradient(entry);
}

void DataParallel::after_gradient(std::size_t entry) {
  used_.add(entry);
  const int chunk = arena_.entries()[entry].chunk;
  is_reduced_[static_cast<std::size_t>(chunk)] = 0;
  if (!reduces()) return;
  if (!round_is_open_) begin_round(chunk);
  reducer_->after_gradient(entry);
}

/// The buckets of a failed backward may be in flight, and cannot take a second gradient.
void DataParallel::check_no_backward_failed() const {
  check(!round_is_open_ || !running_backward_.expired(),
        "data parallel: a backward has ended with an exception; finish() tells the other ranks, and must "
        "come before the next backward");
}

void DataParallel::begin_round(int chunk) {
  reducer_->begin_round(chunk);
  round_is_open_ = true;
  chunk_ = static_cast<std::size_t>(chunk);
  const auto running = std::make_shared<int>();
  running_backward_ = running;
  Tape::current().at_end_of_backward([this, running] { end_round(); });
}

void DataParallel::end_round() {
  reducer_->end_round();
  round_is_open_ = false;
  is_reduced_[chunk_] = 1;
}

void DataParallel::finish() {
  check(synchronizes_, "data parallel: finish() inside no_sync()");
  const bool failed = round_is_open_;
  if (failed) end_round();
  for (std::size_t chunk = is_reduced_.size(); chunk-- > 0;) {
    reducer_->finish(static_cast<int>(chunk), std::exchange(is_reduced_[chunk], 0) != 0);
  }
  sync_unused_parameters(failed);
}

bool DataParallel::used_all(const std::vector<std::int32_t>& is_used) const {
  for (std::size_t i = 0; i < is_used.size(); ++i) {
    if (is_used[i] == 0 && arena_.entries()[i].tensor->requires_grad()) return false;
  }
  return true;
}

/// One all-reduce tells every rank which parameters were used on any rank, and which rank's backward failed.
/// A rank that needs neither takes part, but does not read the result.
void DataParallel::sync_unused_parameters(bool failed) {
  std::vector<std::int32_t> flags = used_.take();
  if (comm_->size() > 1 && equal_ranks_ && !failed && used_all(flags)) {
    const Tensor shared = zeros({std::ssize(flags) + 1}, DType::i32, comm_->device());
    fill(Stream::current(comm_->device()), DType::i32, shared.raw(), std::ssize(flags), 1);
    comm_->all_reduce(shared, ReduceOp::max).wait();
    return;
  }
  flags.push_back(failed ? comm_->rank() + 1 : 0);
  if (comm_->size() > 1) {
    const Tensor shared = copy_to(from_vector(flags, {std::ssize(flags)}), comm_->device());
    comm_->all_reduce(shared, ReduceOp::max).wait();
    flags = shared.to_vector<std::int32_t>();
  }

  std::vector<std::string> unused;
  for (std::size_t i = 0; i < arena_.entries().size(); ++i) {
    AutogradMeta& meta = *arena_.entries()[i].meta;
    if (flags[i] != 0 || !meta.requires_grad) continue;
    meta.grad_written = false;
    unused.push_back(arena_.entries()[i].name);
  }
  check(flags.back() == 0,
        "data parallel: a backward ended with an exception on rank {}: the gradients of this window are not "
        "complete",
        flags.back() - 1);
  check(
      unused.empty() || options_.allow_unused,
      "data parallel: no rank used {} in this window, so it would not be trained: expected it to be used or "
      "frozen, or allow_unused",
      fmt::join(unused, ", "));
}

std::function<std::int64_t(std::int64_t)> sum_over(std::shared_ptr<Communicator> comm) {
  return [comm = std::move(comm)](std::int64_t own) { return sum_over_ranks(*comm, own); };
}

}  // namespace ringtape
