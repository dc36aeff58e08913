#include "apps/update.h"

#include <cmath>
#include <utility>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "core/error.h"
#include "optim/clip.h"

namespace ringtape::apps {
namespace {

void add_to(Tensor& sum, const Tensor& value) {
  sum = sum.defined() ? add(sum, value) : value;
}

void check_limit(const char* flag, double limit) {
  check(std::isfinite(limit) && limit >= 0, "{} must be finite and at least 0, found {}", flag, limit);
}

}  // namespace

Update::Update(const Task& task, const TrainOptions& options, Module& model, ParameterArena& arena,
               Optimizer& optimizer, LossScaler* scaler, bool measure_norm)
    : task_(task),
      options_(options),
      model_(model),
      arena_(arena),
      optimizer_(optimizer),
      scaler_(scaler),
      measure_norm_(measure_norm),
      print_tape_(options.print_tape) {
  check_limit("--clip-norm", options.clip_norm);
  check_limit("--clip-value", options.clip_value);
  check(options.clip_norm_type > 0, "--clip-norm-type must be above 0, found {}", options.clip_norm_type);
  check(!options.clip_each_micro_batch || options.clip_norm > 0,
        "--clip-each-micro-batch needs the limit: --clip-norm");
}

UpdateResult Update::operator()(const Batch& batch) {
  const std::int64_t micro_batch = options_.micro_batch > 0 ? options_.micro_batch : batch.size();
  UpdateResult result;
  window_.begin(batch.size());
  optimizer_.zero_grad();
  const std::vector<MicroBatch> pieces = cut_into_micro_batches(batch.size(), micro_batch);
  for (const MicroBatch& piece : pieces) {
    forward_backward(batch.slice(piece.first, piece.size), result);
    if (options_.clip_each_micro_batch) clip_after_micro_batch(pieces.size());
  }
  if (window_.targets() == 0) return result;
  result.grad_norm = clip();
  optimizer_.step();
  if (scaler_ != nullptr) scaler_->update(arena_);
  return result;
}

void Update::forward_backward(const Batch& micro_batch, UpdateResult& sum) {
  const TapeScope scope;
  const auto [features, targets] = micro_batch.to(arena_.device());
  Tensor prediction = model_(to(task_.prepare(features), arena_.compute_dtype()));
  if (task_.correct) add_to(sum.correct, to(task_.correct(prediction, targets), DType::f32));
  const Tensor loss = task_.loss(std::move(prediction), targets, window_.divisor());
  if (std::exchange(print_tape_, false)) Tape::current().print();
  scaler_ != nullptr ? scaler_->backward(loss) : loss.backward();
  add_to(sum.loss, loss.detach());
}

void Update::clip_after_micro_batch(std::size_t micro_batches) {
  const double limit = options_.clip_norm / std::sqrt(static_cast<double>(micro_batches));
  clip_grad_norm_now(arena_, limit, options_.clip_norm_type, loss_scale());
}

Tensor Update::clip() {
  if (options_.clip_value > 0) clip_grad_value(arena_, options_.clip_value, loss_scale());
  const bool clips_norm = options_.clip_norm > 0 && !options_.clip_each_micro_batch;
  if (!clips_norm && !measure_norm_ && scaler_ == nullptr) return {};
  const double limit = clips_norm ? options_.clip_norm : INFINITY;
  return clip_grad_norm(
      arena_, limit,
      {.norm_type = options_.clip_norm_type, .skip_nonfinite = true, .loss_scale = loss_scale()});
}

}  // namespace ringtape::apps
