#include <thread>

#include "autograd/recompute.h"
#include "autograd/tape.h"
#include "nn/layers.h"
#include "tests/support/error_of.h"
#include "tests/support/tensors.h"

// Uses that would silently lose gradients are errors; the texts of errors.
namespace ringtape::test {
namespace {

using Values = std::vector<double>;

TEST_CASE("an operation on an intermediate whose tape is gone is refused", "[tape]") {
  const Tensor w = leaf({1, 2}, {2});
  const Tensor h = relu(scale(w, 3));
  sum(h).backward();
  CHECK(w.grad().to_doubles() == Values{3, 3});
  CHECK(error_of([&] { multiply(h, h); }) ==
        "multiply: the input f32[2] on cpu needs a gradient, but is not on the tape: a backward() has run "
        "since it was computed, or the tape was cleared; run its forward again, add up the losses before one "
        "backward(), or detach() it");
  CHECK(Tape::current().size() == 0);
  CHECK(w.grad().to_doubles() == Values{3, 3});

  // The message's suggestion.
  const Tensor again = relu(scale(w, 3));
  add(sum(again), sum(multiply(again, again))).backward();
  CHECK(w.grad().to_doubles() == Values{3 + 3 + 18, 3 + 3 + 36});
  CHECK(multiply(h.detach(), h.detach()).to_doubles() == Values{9, 36});
  const NoGrad no_grad;
  CHECK(multiply(h, h).to_doubles() == Values{9, 36});
}

TEST_CASE("a second head on a trunk whose tape is gone is refused, whatever else it reads", "[tape]") {
  Linear trunk(2, 3), first(3, 1), second(3, 1);
  const Tensor shared = trunk(tensor_of({1, 2}, {1, 2}));
  sum(first(shared)).backward();
  CHECK(error_of([&] { second(shared); }).starts_with("linear: the input f32[1, 3] on cpu needs a gradient"));
  CHECK_FALSE(second.parameter("weight").grad().defined());
  {
    const TapeScope scope;
    CHECK(error_of([&] { cat({second(tensor_of({1, 2, 3}, {1, 3})), first(shared)}); }) != "");
  }
  CHECK(Tape::current().size() == 0);
}

TEST_CASE("tensors of another thread's tape are refused by operations and by backward", "[tape]") {
  const Tensor w = leaf({1, 2}, {2});
  const Tensor loss = sum(scale(w, 3));
  std::string backward, operation;
  std::thread([&] {
    backward = error_of([&] { loss.backward(); });
    operation = error_of([&] { scale(loss, 2); });
  }).join();
  CHECK(backward ==
        "backward() from f32[] on cpu: it is not on the tape: another thread, or a recomputed segment, "
        "recorded "
        "it on a tape of its own");
  CHECK(operation.find("another thread") != std::string::npos);
  loss.backward();  // its own thread still has it
  CHECK(w.grad().to_doubles() == Values{3, 3});
}

TEST_CASE("a recomputed segment reads intermediates of the tapes outside, and none that are gone", "[tape]") {
  const Tensor w = leaf({1, 2}, {2});
  const Tensor outside = scale(w, 3);
  Tensor inside;
  const auto segment = [&](const Tensor& x) {
    inside = multiply(x, outside);
    return recompute([&](const Tensor& y) { return add(y, outside); }, inside);
  };
  const Tensor y = recompute(segment, outside);
  CHECK(error_of([&] { scale(inside, 2); }).find("a recomputed segment") != std::string::npos);
  sum(y).backward();  // 9 w^2 + 3 w
  CHECK(w.grad().to_doubles() == Values{18 + 3, 36 + 3});
  CHECK(error_of([&] { recompute(segment, w.detach()); }).starts_with("multiply: the input f32[2]"));
}

TEST_CASE("errors name the operation that was called and what is wrong with its input", "[tape]") {
  const Tensor none;
  const Tensor x = leaf({1, 2}, {2});
  CHECK(error_of([&] { none.item(); }) == "item() of an undefined tensor");
  CHECK(error_of([&] { none.to_vector<float>(); }) ==
        "elements of an undefined tensor were requested as f32");
  CHECK(error_of([&] { none.backward(); }) == "backward() of an undefined tensor");
  CHECK(error_of([&] { view(none, {1}); }).find("undefined tensor") != std::string::npos);
  CHECK(error_of([&] { tensor_of({1}, {1}).backward(); }) ==
        "backward() from f32[1] on cpu: it does not depend on any tensor with requires_grad");
  CHECK(error_of([&] {
          from_vector<float>({1, 2, 3}, {2});
        }) == "from_vector: 3 values were given for shape [2], which has 2");
  CHECK(error_of([&] {
          from_span<float>(std::vector<float>{1, 2, 3}, {2});
        }) == "from_span: 3 values were given for shape [2], which has 2");
  CHECK(error_of([&] {
          stack({x, x}, 3);
        }) == "stack: dimension 3 is out of range for f32[2] on cpu: expected -2 to 1");
  CHECK(error_of([&] {
          stack({x, none});
        }) ==
        "stack: expected equal shapes, dtypes and devices, found f32[2] on cpu and an undefined tensor");
  CHECK(error_of([&] { stack({none}); }) == "stack: found an undefined tensor");
  CHECK(error_of([&] {
          stack({zeros({1, 1, 1, 2})});
        }) == "stack: f32[1, 1, 1, 2] on cpu has 4 dimensions already, and may have at most 4");
  CHECK(error_of([&] {
          view(x, {1, 1, 1, 1, 2});
        }) == "shape [1, 1, 1, 1, 2] has 5 dimensions: expected at most 4");
  CHECK(stack({x.detach(), x.detach()}, -1).to_doubles() == Values{1, 1, 2, 2});
  Tape::current().clear();
}

}  // namespace
}  // namespace ringtape::test
