#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <utility>

namespace ringtape {

/// A learning-rate schedule: the rate of optimizer step `step`, counted from 0. Schedules are pure functions
/// of the step, so a resumed run needs no state, and a schedule can be drawn without training.
class Schedule {
 public:
  Schedule() = default;  ///< empty
  template <std::convertible_to<std::function<double(std::int64_t)>> Function>
  Schedule(Function rate) : rate_(std::move(rate)) {}

  bool is_empty() const { return rate_ == nullptr; }
  /// Throws Error for an empty schedule.
  double operator()(std::int64_t step) const;

 private:
  std::function<double(std::int64_t)> rate_;
};

/// Schedules have the names and values of torch.optim.lr_scheduler where PyTorch has them; its recursive
/// forms and these closed ones agree to rounding. All throw Error for an invalid rate or length.
namespace schedule {

/// Always `rate`.
Schedule constant(double rate);
/// rate * gamma^floor(step / step_size) (StepLR).
Schedule step_decay(double rate, std::int64_t step_size, double gamma);
/// From `rate` to `end_rate` along a half cosine over `steps` steps, then end_rate (CosineAnnealingLR;
/// Loshchilov and Hutter, "SGDR: Stochastic gradient descent with warm restarts", 2017, without the
/// restarts).
Schedule cosine(double rate, std::int64_t steps, double end_rate = 0);
/// (rate - end_rate) * (1 - step / steps)^power + end_rate, then end_rate (PolynomialLR for end_rate 0). With
/// power 0: always rate.
Schedule polynomial(double rate, std::int64_t steps, double power, double end_rate = 0);
/// polynomial() with power 1 (LinearLR from 1 to 0 for end_rate 0).
Schedule linear_decay(double rate, std::int64_t steps, double end_rate = 0);
/// OneCycleLR with cosine halves (Smith and Topin, "Super-convergence", 2018): from max_rate / div_factor up
/// to max_rate in the first `pct_start` of the steps, then down to max_rate / div_factor / final_div_factor
/// in the last step. PyTorch's default of `pct_start` is 0.3.
Schedule one_cycle(double max_rate, std::int64_t steps, double pct_start = 0.1, double div_factor = 25,
                   double final_div_factor = 1e4);

/// The shape of a warm-up.
enum class Warmup {
  linear,     ///< rate * (step + 1) / (steps + 1) (Goyal et al., "Accurate, large minibatch SGD", 2017)
  quadratic,  ///< the square of that factor
  constant,   ///< a fixed fraction (ConstantLR)
};

/// `steps` steps of warm-up towards main(0), then `main`, whose steps are counted from the end of the warm-up
/// (SequentialLR). `constant_factor` is the fraction that Warmup::constant holds.
Schedule warm_up(Warmup kind, std::int64_t steps, Schedule main, double constant_factor = 1.0 / 3);

/// `first` for `steps` steps, then `second`, whose steps are counted from 0 (SequentialLR).
Schedule then(Schedule first, std::int64_t steps, Schedule second);

}  // namespace schedule

/// How the rate grows with the batch.
enum class BatchScaling {
  none,
  linear,       ///< in proportion (Goyal et al., 2017)
  square_root,  ///< with the square root (Krizhevsky, "One weird trick", 2014; You et al., LAMB, 2020)
};

/// The rate for `batch`, given the rate for `base_batch`. Throws Error for batches below 1.
double scale_rate(BatchScaling rule, double rate, std::int64_t batch, std::int64_t base_batch);

/// The length of the warm-up for a batch, in steps. You et al. ("Large batch optimization for deep learning:
/// training BERT in 76 minutes", 2020) train on ImageNet with LAMB and 0.3125 epochs of warm-up at batch 512,
/// and double the epochs with each doubling of the batch, up to 20 at 32,768: epochs = 0.3125 * batch / 512.
/// Since an epoch has dataset / batch steps, this is the same number of steps for every batch; it is capped
/// at a quarter of the training.
std::int64_t suggested_warmup_steps(std::int64_t dataset, std::int64_t batch, std::int64_t total_steps);

}  // namespace ringtape
