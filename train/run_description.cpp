#include <algorithm>

#include "core/ceil_div.h"
#include "core/numbers.h"
#include "kernels/gemm.h"
#include "nn/compute_dtype.h"
#include "nn/parameter_shard.h"
#include "profile/machine.h"
#include "train/training_run.h"

// The description of a run that is printed before it begins.
namespace ringtape {

std::string Trainer::Run::schedule_text() const {
  return ringtape::schedule_text(options_.schedule, schedule_, options_.data.batch_size, length_);
}

/// "model 784-256-10 (203530 parameters), batch 64, adam at 0.001"; if some parameters are frozen, also the
/// number of trained ones; with --lr-scaling, also the scaled rate.
std::string Trainer::Run::describe_training() const {
  const std::int64_t micro_batch = options_.accumulation.micro_batch;
  const std::int64_t all = model_elements();
  // A model that ranks divide has no frozen parameters.
  const std::int64_t trained = divides_model() ? all : arena_->trained_elements();
  const ScheduleOptions& schedule = options_.schedule;
  const std::int64_t batch = options_.data.batch_size;
  std::string rate = fmt::format("{}", learning_rate_);
  if (schedule.lr_scaling != BatchScaling::none) {
    rate += fmt::format(" scaled to {:.6g}", scaled_rate(schedule, learning_rate_, batch, length_));
  }
  return fmt::format("model {}{}({} parameters{}), batch {}{}{}, {} at {}", task_.model_name,
                     task_.model_name.empty() ? "" : " ", all,
                     trained < all ? fmt::format(", {} of them trained", trained) : std::string(),
                     std::min(batch, length_.samples),
                     batch > length_.samples ? " (all samples of an epoch)" : "",
                     micro_batch > 0 ? fmt::format(" in micro-batches of {}", micro_batch) : std::string(),
                     options_.optimizer.kind->name, rate);
}

void Trainer::Run::describe_model() const {
  console_.print("{}: {} training and {} test samples\n", task_.name, length_.samples, task_.test->size());
  console_.print("{}\n", describe_training());
}

void Trainer::Run::describe_device() const {
  const std::string gemm =
      gemm_backend(device_) == GemmBackend::own ? "own kernel" : vendor_gemm_name(device_);
  console_.print("device {} ({}), {}, GEMM by {}\n", to_string(device_), describe(device_),
                 describe_compute_dtype(arena_->compute_dtype(), device_), gemm);
  if (comm_->size() > 1) {
    console_.print("{} connected by {}, {} of a batch each{}\n", counted(comm_->size(), "rank"),
                   comm_->backend(),
                   counted(std::min(batch_of_rank(), ceil_div(length_.samples, data_ranks())), "sample"),
                   divides_model() ? fmt::format(", {} for a model", comm_->size() / data_ranks()) : "");
  }
  const DistributionOptions& ranks = options_.distribution;
  const auto note = [&](bool is_set, const char* flag, const char* one) {
    if (is_set) console_.print("{} has no effect: there is one {}\n", flag, one);
  };
  if (mean_ranks() == 1) {
    note(ranks.zero > 0, "--zero", "data rank");
    note(ranks.compress.has_value(), "--compress", "data rank");
    note(ranks.no_overlap, "--no-overlap", "data rank");
  }
  if (comm_->size() == 1) {
    note(ranks.check_replicas, "--check-replicas", "rank");
    note(ranks.slow_link.has_value(), "--slow-link", "rank");
  }
}

std::int64_t Trainer::Run::model_elements() const {
  if (stages() == nullptr) return whole_elements(*model_);
  std::int64_t elements = 0;
  for (const Stages::Parameter& parameter : stages()->parameters()) elements += parameter.shape.elements();
  return elements;
}

}  // namespace ringtape
