#include <fmt/format.h>

#include "autograd/creation.h"
#include "benchmarks/kernels/loops.h"
#include "benchmarks/kernels/rows.h"
#include "kernels/cross_entropy.h"
#include "kernels/mse.h"

namespace ringtape::benchmarks {

void measure_mse(Table& table, std::int64_t n) {
  const Stream stream = table.stream();
  const Device device = table.device();
  const Tensor a = randn({n}, DType::f32, device), b = randn({n}, DType::f32, device);
  const Tensor gradient = empty({n}, DType::f32, device);
  const Tensor loss = zeros({}, DType::f32, device), one = ones({}, DType::f32, device);
  const auto elements = static_cast<double>(n);
  const double mean = 1 / elements;
  const std::string size = fmt::format("{} f32", n);
  table.measure({"mse_forward", size, 8 * elements, 3 * elements,
                 [&] { mse_forward(stream, DType::f32, a.raw(), b.raw(), n, mean, loss.raw()); },
                 [&] { loop_mse(a.data<float>(), b.data<float>(), n, loss.data<float>()); }});
  table.measure({"mse_backward", size, 12 * elements, 2 * elements, [&] {
                   mse_backward(stream, DType::f32, a.raw(), b.raw(), one.raw(), n, mean, gradient.raw(),
                                false);
                 }});
}

namespace {

/// Logits, targets that are spread over the classes, and all that the kernels write.
class CrossEntropy {
 public:
  CrossEntropy(std::int64_t rows, std::int64_t classes, DType dtype, Device device)
      : rows_(rows),
        classes_(classes),
        dtype_(dtype),
        device_(device),
        logits_(randn({rows, classes}, dtype, device)),
        gradient_(zeros({rows, classes}, dtype, device)),
        stats_(zeros({2 * rows}, DType::f32, device)),
        loss_(zeros({}, DType::f32, device)),
        count_(zeros({}, DType::f32, device)),
        one_(ones({}, DType::f32, device)),
        invalid_(zeros({}, DType::i32, device)),
        correct_(zeros({}, DType::i64, device)) {
    std::vector<std::int64_t> classes_of_rows;
    for (std::int64_t r = 0; r < rows; ++r) classes_of_rows.push_back(r * 7919 % classes);
    targets_ = from_vector(classes_of_rows, {rows}, device);
  }

  void forward() const {
    count_rows();
    cross_entropy_forward(stream(), problem(), logits_.raw(), stats_.raw(), nullptr, loss_.raw());
  }
  void backward() const {
    cross_entropy_backward(stream(), problem(), logits_.raw(), stats_.raw(), one_.raw(), gradient_.raw(),
                           false);
  }
  /// The logits turn into gradients of gradients: other numbers, the same work.
  void fused() const {
    count_rows();
    cross_entropy_fused(stream(), problem(), logits_.raw(), loss_.raw());
  }
  void correct() const {
    count_correct(stream(), problem(), gradient_.raw(), correct_.data<std::int64_t>(), false);
  }
  void plain_forward() const {
    loop_cross_entropy(logits_.data<float>(), targets_.data<std::int64_t>(), rows_, classes_,
                       stats_.data<float>(), loss_.data<float>());
  }
  void plain_backward() const {
    loop_cross_entropy_backward(logits_.data<float>(), targets_.data<std::int64_t>(), rows_, classes_,
                                stats_.data<float>(), gradient_.data<float>());
  }
  double bytes() const { return static_cast<double>(logits_.bytes()); }

 private:
  Stream stream() const { return Stream::current(device_); }
  CrossEntropyProblem problem() const {
    return {.dtype = dtype_,
            .target_dtype = DType::i64,
            .targets = targets_.raw(),
            .rows = rows_,
            .classes = classes_,
            .ignore_index = kIgnored,
            .label_smoothing = 0,
            .divisor = count_.data<float>(),
            .invalid_target = invalid_.data<std::int32_t>()};
  }
  void count_rows() const {
    count_targets(stream(), DType::i64, targets_.raw(), rows_, kIgnored, count_.data<float>());
  }

  static constexpr std::int64_t kIgnored = -100;
  std::int64_t rows_, classes_;
  DType dtype_;
  Device device_;
  Tensor logits_, gradient_, stats_, loss_, count_, one_, invalid_, correct_, targets_;
};

}  // namespace

void measure_cross_entropy(Table& table, std::int64_t rows, std::int64_t classes, DType dtype) {
  const CrossEntropy work(rows, classes, dtype, table.device());
  const double bytes = work.bytes(), elements = static_cast<double>(rows) * static_cast<double>(classes);
  const std::string size = fmt::format("{} x {} {}", rows, classes, name_of(dtype));
  TimedWork plain_forward, plain_backward;
  if (dtype == DType::f32) {
    plain_forward = [&] { work.plain_forward(); };
    plain_backward = [&] { work.plain_backward(); };
  }
  // Forward: maximum, difference, exp, sum. Backward: difference, exp, product.
  table.measure({"cross_entropy_forward", size, bytes, 4 * elements, [&] { work.forward(); }, plain_forward});
  table.measure(
      {"cross_entropy_backward", size, 2 * bytes, 3 * elements, [&] { work.backward(); }, plain_backward});
  table.measure({"cross_entropy, two passes", size, 3 * bytes, 7 * elements, [&] {
                   work.forward();
                   work.backward();
                 }});
  table.measure({"cross_entropy_fused", size, 2 * bytes, 7 * elements, [&] { work.fused(); }});
  table.measure({"count_correct", size, bytes, elements, [&] { work.correct(); }});
}

}  // namespace ringtape::benchmarks
