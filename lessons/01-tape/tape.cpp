// The tape by hand: three operations, their gradients derived on paper, and the same by the tape.
#include "autograd/tape.h"
#include "autograd/ops.h"
#include "cli/command_line.h"
#include "core/error.h"

namespace {

using namespace ringtape;

constexpr double kX = 3, kW = 2, kB = -1, kTarget = 2;

/// loss = (w x + b - target)^2, in plain C++.
double loss_of(double w, double b) {
  const double error = w * kX + b - kTarget;
  return error * error;
}

void show_by_hand() {
  const double product = kW * kX, sum = product + kB, error = sum - kTarget;
  fmt::print("By hand: loss = (w x + b - t)^2 with x = {}, w = {}, b = {}, t = {}\n", kX, kW, kB, kTarget);
  fmt::print("  forward    w x = {}, w x + b = {}, error = {}, loss = {}\n", product, sum, error,
             error * error);
  const double d_error = 2 * error, d_sum = d_error, d_product = d_sum;
  fmt::print("  backward   dloss/derror = 2 error = {}\n", d_error);
  fmt::print("             dloss/dw = {} x = {}, dloss/db = {}\n", d_product, d_product * kX, d_sum);
  const double h = 1e-5;
  fmt::print("  check      dloss/dw = {:.4f}, dloss/db = {:.4f} by differences of {}\n\n",
             (loss_of(kW + h, kB) - loss_of(kW - h, kB)) / (2 * h),
             (loss_of(kW, kB + h) - loss_of(kW, kB - h)) / (2 * h), h);
}

struct Parameters {
  Tensor w = full({1}, kW).set_requires_grad(true);
  Tensor b = full({1}, kB).set_requires_grad(true);
  Parameters() {
    w.autograd->name = "w";
    b.autograd->name = "b";
  }

  /// Records multiply, add and mse_loss.
  Tensor forward() const { return mse_loss(add(multiply(w, full({1}, kX)), b), full({1}, kTarget)); }
  void print(const char* when) const {
    fmt::print("  {:<32} dloss/dw = {}, dloss/db = {}\n", when, w.grad().item(), b.grad().item());
  }
};

void show_by_tape() {
  const Parameters parameters;
  const Tensor loss = parameters.forward();
  fmt::print("By the tape: loss = {}, {} nodes\n", loss.item(), Tape::current().size());
  Tape::current().print();
  loss.backward();
  parameters.print("after backward()");
  fmt::print("  nodes left on the tape: {}\n", Tape::current().size());
  try {
    loss.backward();
  } catch (const Error& error) {
    fmt::print("  a second backward(): {}\n", error.what());
  }
  parameters.forward().backward();
  parameters.print("after forward and backward again");
  {
    const NoGrad no_grad;
    fmt::print("  under NoGrad: loss = {}, {} nodes\n\n", parameters.forward().item(),
               Tape::current().size());
  }
}

void show_two_uses() {
  const Tensor a = full({1}, 5).set_requires_grad(true);
  const Tensor square = multiply(a, a);
  multiply(square, a).backward();
  fmt::print("One tensor, three uses: a a a with a = 5 has the gradient 3 a^2 = {}\n\n", a.grad().item());
}

void show_change() {
  Tensor a = full({1}, 5).set_requires_grad(true);
  const Tensor cube = multiply(multiply(a, a), a);
  a.copy_from(full({1}, 6));
  try {
    cube.backward();
  } catch (const Error& error) {
    fmt::print("A value changed between forward and backward: {}\n", error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine app("Gradients of three operations by hand and by the tape.\nExample: tape");
  return app.run(argc, argv, [] {
    show_by_hand();
    show_by_tape();
    show_two_uses();
    show_change();
  });
}
