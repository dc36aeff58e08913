// The tape by hand: three operations, with their gradients derived on paper and then computed by the tape.
#include "autograd/tape.h"
#include "autograd/ops.h"
#include "cli/command_line.h"
#include "core/error.h"
#include "io/file.h"
#include "profile/tape_picture.h"

namespace {

using namespace ringtape;

struct Numbers {
  double x = 3, w = 2, b = -1, target = 2;
};

/// loss = (w x + b - target)^2, in plain C++.
double loss_of(const Numbers& n, double w, double b) {
  const double error = w * n.x + b - n.target;
  return error * error;
}

void show_by_hand(const Numbers& n) {
  const double product = n.w * n.x, sum = product + n.b, error = sum - n.target;
  fmt::print("By hand: loss = (w x + b - t)^2 with x = {}, w = {}, b = {}, t = {}\n", n.x, n.w, n.b,
             n.target);
  fmt::print("  forward    w x = {}, w x + b = {}, error = {}, loss = {}\n", product, sum, error,
             error * error);
  const double d_error = 2 * error, d_sum = d_error, d_product = d_sum;
  fmt::print("  backward   dloss/derror = 2 error = {}\n", d_error);
  fmt::print("             dloss/dw = {} x = {}, dloss/db = {}\n", d_product, d_product * n.x, d_sum);
  const double h = 1e-5;
  fmt::print("  check      dloss/dw = {:.4f}, dloss/db = {:.4f} by differences of {}\n\n",
             (loss_of(n, n.w + h, n.b) - loss_of(n, n.w - h, n.b)) / (2 * h),
             (loss_of(n, n.w, n.b + h) - loss_of(n, n.w, n.b - h)) / (2 * h), h);
}

struct Parameters {
  Tensor w, b, x, target;
  explicit Parameters(const Numbers& n)
      : w(full({1}, n.w).set_requires_grad(true)),
        b(full({1}, n.b).set_requires_grad(true)),
        x(full({1}, n.x)),
        target(full({1}, n.target)) {
    w.autograd->name = "w";
    b.autograd->name = "b";
  }

  /// Records multiply, add and mse_loss.
  Tensor forward() const { return mse_loss(add(multiply(w, x), b), target); }
  void print(const char* when) const {
    fmt::print("  {:<32} dloss/dw = {}, dloss/db = {}\n", when, w.grad().item(), b.grad().item());
  }
};

void show_by_tape(const Numbers& numbers, const std::string& picture) {
  const Parameters parameters(numbers);
  const Tensor loss = parameters.forward();
  if (!picture.empty()) {
    save_text(picture, tape_svg(graph_of(Tape::current())).file());
  }
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
  Numbers numbers;
  CommandLine app("Gradients of three operations by hand and by the tape.\nExample: tape --w 1");
  app.option("--x", numbers.x, "the input");
  app.option("--w", numbers.w, "the weight");
  app.option("--b", numbers.b, "the bias");
  app.option("--target", numbers.target, "the target t");
  std::string picture;
  app.file("--save-tape", picture, "draw the tape to this file");
  return app.run(argc, argv, [&] {
    show_by_hand(numbers);
    show_by_tape(numbers, picture);
    show_two_uses();
    show_change();
  });
}
