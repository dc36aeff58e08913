#include "dist/data_parallel.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>

#include "autograd/creation.h"
#include "autograd/tape.h"
#include "core/error.h"
#include "dist/verify_parameters.h"
#include "dist/zero.h"
#include "kernels/elementwise.h"
#include "trace/spans.h"

namespace ringtape {

DataParallel::DataParallel(Module& model, ParameterArena& arena, std::shared_ptr<Communicator> ranks,
                           DataParallelOptions options)
    : arena_(arena),
      ranks_(std::move(ranks)),
      options_(std::move(options)),
      buckets_(arena, options_.bucket_sizes, [this](std::size_t bucket) { launch(bucket); }),
      took_part_(arena.entries().size(), 0),
      filled_(arena.entries().size(), 0),
      reduced_(buckets_.buckets().size(), 0) {
  check_arena_is_free();
  check(arena.device() == ranks_->device(), "data parallel: the model is on {}, the communicator on {}",
        to_string(arena.device()), to_string(ranks_->device()));
  check_sharding();
  const int stage = arena.sharding().stage;
  if (stage == 1 && options_.hook == nullptr) options_.hook = std::make_shared<ReduceScatterHook>();
  if (options_.hook == nullptr) options_.hook = std::make_shared<AllReduceHook>();
  if (stage == 2) buffers_ = std::make_unique<BucketBuffers>(arena, ranks_);
  if (stage > 0) arena.set_shard_exchange(make_shard_exchange(arena, ranks_));
  verify_parameters(model, *ranks_);

  arena.gather_values();  // where another has trained it
  ranks_->broadcast(arena.values(), 0).wait();
  arena.bump_versions();
  for (const auto& [name, tensor] : model.named_parameters()) {
    if (!tensor->requires_grad()) ranks_->broadcast(tensor->detach(), 0).wait();
  }
  add_hooks();
}

void DataParallel::check_arena_is_free() const {
  for (const ArenaEntry& entry : arena_.entries()) {
    check(entry.tensor->autograd->pre_accumulate_hook == nullptr,
          "data parallel: the arena has a DataParallel already; destroy it before another is made");
  }
}

void DataParallel::check_sharding() const {
  const ArenaSharding& sharding = arena_.sharding();
  if (sharding.stage == 0) return;
  check(sharding.rank == ranks_->rank() && sharding.ranks == ranks_->size(),
        "data parallel: the arena has the shard of rank {} of {}, but this is rank {} of {}", sharding.rank,
        sharding.ranks, ranks_->rank(), ranks_->size());
  check(sharding.stage == 1 || options_.hook == nullptr,
        "data parallel: ZeRO stage 2 reduces gradients in its own way, found a communication hook");
  check(sharding.stage == 1 || options_.overlap,
        "data parallel: ZeRO stage 2 has no memory for all gradients, but without overlap they would have to "
        "be kept until backward ends");
}

void DataParallel::add_hooks() {
  for (std::size_t i = 0; i < arena_.entries().size(); ++i) {
    AutogradMeta& meta = *arena_.entries()[i].tensor->autograd;
    hook_numbers_.push_back(meta.post_accumulate_hooks.size());
    meta.post_accumulate_hooks.emplace_back([this, i] { on_gradient(i); });
    // In every stage: check_arena_is_free() finds it there.
    meta.pre_accumulate_hook = [this, i] { before_gradient(i); };
  }
}

DataParallel::~DataParallel() {
  for (std::size_t i = 0; i < arena_.entries().size(); ++i) {
    AutogradMeta& meta = *arena_.entries()[i].tensor->autograd;
    // Others may have added hooks since, whose numbers have to stay.
    meta.post_accumulate_hooks[hook_numbers_[i]] = [] {};
    meta.pre_accumulate_hook = nullptr;
  }
  arena_.set_shard_exchange({});
}

void DataParallel::before_gradient(std::size_t entry) {
  if (buffers_ != nullptr) {
    check_no_backward_failed();
    buffers_->open(entry);
  } else if (arena_.is_sharded()) {
    reopen_if_reduced(buckets_.bucket_of(entry));
  }
}

void DataParallel::on_gradient(std::size_t entry) {
  took_part_[entry] = 1;
  is_reduced_ = false;
  if (buffers_ != nullptr) {
    buffers_->complete(entry);
  } else if (!synchronizes_) {
    return;
  }
  check_no_backward_failed();
  if (!buckets_.is_open()) begin_round();
  if (options_.overlap) buckets_.complete(entry);
}

/// The buckets of one that failed may be on their way, and are not open to a second gradient.
void DataParallel::check_no_backward_failed() const {
  check(!buckets_.is_open() || !running_backward_.expired(),
        "data parallel: a backward has ended with an exception; finish() tells the other ranks, and has to "
        "come before the next backward");
}

void DataParallel::begin_round() {
  if (buffers_ != nullptr) announce_round(true);
  buckets_.begin();
  const auto running = std::make_shared<int>();
  running_backward_ = running;
  Tape::current().at_end_of_backward([this, running] { end_round(); });
}

void DataParallel::launch(std::size_t number) {
  const GradientBucket& bucket = buckets_.buckets()[number];
  const SpanScope span(Track::compute, "launch bucket", {{"bucket", static_cast<std::int64_t>(number)}});
  note_absence(bucket);
  if (buffers_ != nullptr) return buffers_->launch(number);
  reopen_if_reduced(number);
  write_zeros_where_absent(bucket);
  options_.hook->launch(*ranks_, arena_.gradients().alias({bucket.elements}, bucket.offset));
  reduced_[number] = arena_.zero_grads();
}

void DataParallel::note_absence(const GradientBucket& bucket) {
  for (std::size_t i = bucket.first_entry; i < bucket.first_entry + bucket.entries; ++i) {
    const AutogradMeta& meta = *arena_.entries()[i].tensor->autograd;
    if (!meta.grad_written || !meta.requires_grad) {
      filled_[i] = 1;
    } else if (filled_[i] == 0) {
      took_part_[i] = 1;
    }
  }
}

void DataParallel::write_zeros_where_absent(const GradientBucket& bucket) {
  for (std::size_t i = bucket.first_entry; i < bucket.first_entry + bucket.entries; ++i) {
    AutogradMeta& meta = *arena_.entries()[i].tensor->autograd;
    if (meta.grad_written && meta.requires_grad) continue;
    // What lies there is stale.
    fill(Stream::current(arena_.device()), DType::f32, meta.grad.raw(), meta.grad.elements(), 0.0);
    meta.grad_written = meta.requires_grad;
  }
}

void DataParallel::reopen_if_reduced(std::size_t number) {
  if (std::exchange(reduced_[number], 0) != arena_.zero_grads()) return;
  const GradientBucket& bucket = buckets_.buckets()[number];
  options_.hook->reopen(*ranks_, arena_.gradients().alias({bucket.elements}, bucket.offset));
}

void DataParallel::end_round() {
  buckets_.launch_rest();
  if (buffers_ != nullptr) {
    buffers_->finish_round();
  } else {
    options_.hook->wait(*ranks_);
  }
  is_reduced_ = true;
}

void DataParallel::finish() {
  check(synchronizes_, "data parallel: finish() inside of no_sync()");
  const bool failed = buckets_.is_open();
  if (failed) end_round();
  if (buffers_ != nullptr) {
    join_rounds_of_others();
  } else if (!is_reduced_) {
    buckets_.begin();
    end_round();
  }
  is_reduced_ = false;
  agree_on_absence(failed);
}

/// In stage 2 ranks may run different numbers of backwards.
void DataParallel::join_rounds_of_others() {
  while (announce_round(false)) {
    buckets_.begin();
    end_round();
  }
  for (const GradientBucket& bucket : buckets_.buckets()) note_absence(bucket);
}

/// Every round of stage 2 begins with this. A rank that runs a backward need not know of the others; one that
/// is in finish() learns whether any runs one.
bool DataParallel::announce_round(bool runs_backward) {
  const Tensor running = full({1}, runs_backward ? 1 : 0, DType::i32, ranks_->device());
  const Work work = ranks_->all_reduce(running, ReduceOp::max);
  if (runs_backward) return true;
  work.wait();
  return running.to_vector<std::int32_t>()[0] != 0;
}

void DataParallel::agree_on_absence(bool failed) {
  std::vector<std::int32_t> flags = took_part_;
  std::fill(took_part_.begin(), took_part_.end(), 0);
  std::fill(filled_.begin(), filled_.end(), 0);
  flags.push_back(failed ? ranks_->rank() + 1 : 0);
  if (ranks_->size() > 1) {
    const Tensor shared = copy_to(from_vector(flags, {std::ssize(flags)}), ranks_->device());
    ranks_->all_reduce(shared, ReduceOp::max).wait();
    flags = shared.to_vector<std::int32_t>();
  }

  std::vector<std::string> absent;
  for (std::size_t i = 0; i < arena_.entries().size(); ++i) {
    AutogradMeta& meta = *arena_.entries()[i].tensor->autograd;
    if (flags[i] != 0 || !meta.requires_grad) continue;
    meta.grad_written = false;
    absent.push_back(arena_.entries()[i].name);
  }
  check(flags.back() == 0,
        "data parallel: a backward ended with an exception on rank {}: the gradients of this window are not "
        "complete",
        flags.back() - 1);
  check(
      absent.empty() || options_.allow_unused,
      "data parallel: no rank used {} in this window, so that nothing was learnt there; freeze it, or allow "
      "unused parameters",
      fmt::join(absent, ", "));
}

std::function<std::int64_t(std::int64_t)> sum_over(std::shared_ptr<Communicator> ranks) {
  return [ranks = std::move(ranks)](std::int64_t own) {
    const Tensor count = copy_to(from_vector(std::vector<std::int64_t>{own}, {1}), ranks->device());
    ranks->all_reduce(count, ReduceOp::sum).wait();
    return count.to_vector<std::int64_t>()[0];
  };
}

}  // namespace ringtape
