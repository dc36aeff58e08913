#include "dist/data_parallel.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>

#include "autograd/tape.h"
#include "core/error.h"
#include "core/spans.h"
#include "dist/verify_parameters.h"
#include "kernels/elementwise.h"

namespace ringtape {

DataParallel::DataParallel(Module& model, ParameterArena& arena, std::shared_ptr<Communicator> ranks,
                           DataParallelOptions options)
    : arena_(arena),
      ranks_(std::move(ranks)),
      options_(std::move(options)),
      buckets_(arena, options_.bucket_sizes, [this](std::size_t bucket) { launch(bucket); }),
      took_part_(arena.entries().size(), 0),
      filled_(arena.entries().size(), 0) {
  check(arena.device() == ranks_->device(), "data parallel: the model is on {}, the communicator on {}",
        to_string(arena.device()), to_string(ranks_->device()));
  if (options_.hook == nullptr) options_.hook = std::make_shared<AllReduceHook>();
  verify_parameters(model, *ranks_);

  ranks_->broadcast(arena.values(), 0).wait();
  arena.bump_versions();
  for (const auto& [name, tensor] : model.named_parameters()) {
    if (!tensor->requires_grad()) ranks_->broadcast(tensor->detach(), 0).wait();
  }
  for (std::size_t i = 0; i < arena.entries().size(); ++i) {
    auto& hooks = arena.entries()[i].tensor->autograd->post_accumulate_hooks;
    hook_numbers_.push_back(hooks.size());
    hooks.emplace_back([this, i] { on_gradient(i); });
  }
}

DataParallel::~DataParallel() {
  for (std::size_t i = 0; i < arena_.entries().size(); ++i) {
    // Others may have added hooks since, whose numbers have to stay.
    arena_.entries()[i].tensor->autograd->post_accumulate_hooks[hook_numbers_[i]] = [] {};
  }
}

void DataParallel::on_gradient(std::size_t entry) {
  took_part_[entry] = 1;
  is_reduced_ = false;
  if (!synchronizes_) return;
  if (!buckets_.is_open()) {
    begin_round();
  } else {
    check(!running_backward_.expired(),
          "data parallel: a backward has ended with an exception; finish() tells the other ranks, and has to "
          "come before the next backward");
  }
  if (options_.overlap) buckets_.complete(entry);
}

void DataParallel::begin_round() {
  buckets_.begin();
  const auto running = std::make_shared<int>();
  running_backward_ = running;
  Tape::current().at_end_of_backward([this, running] { end_round(); });
}

void DataParallel::launch(std::size_t number) {
  const GradientBucket& bucket = buckets_.buckets()[number];
  const SpanScope span(Track::compute, "launch bucket", {{"bucket", static_cast<std::int64_t>(number)}});
  const Stream stream = Stream::current(arena_.device());
  for (std::size_t i = bucket.first_entry; i < bucket.first_entry + bucket.entries; ++i) {
    AutogradMeta& meta = *arena_.entries()[i].tensor->autograd;
    if (meta.grad_written && meta.requires_grad) {
      if (filled_[i] == 0) took_part_[i] = 1;
      continue;
    }
    // What lies there is stale.
    fill(stream, DType::f32, meta.grad.raw(), meta.grad.elements(), 0.0);
    meta.grad_written = meta.requires_grad;
    filled_[i] = 1;
  }
  options_.hook->launch(*ranks_, arena_.gradients().alias({bucket.elements}, bucket.offset));
}

void DataParallel::end_round() {
  buckets_.launch_rest();
  options_.hook->wait(*ranks_);
  is_reduced_ = true;
}

void DataParallel::finish() {
  check(synchronizes_, "data parallel: finish() inside of no_sync()");
  const bool failed = buckets_.is_open();
  if (!is_reduced_ || failed) {
    if (!failed) buckets_.begin();
    end_round();
  }
  is_reduced_ = false;
  agree_on_absence(failed);
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
