#include <cmath>
#include <vector>

#include "lessons/tasks/clip/task.h"
#include "lessons/tasks/model.h"
#include "lessons/tasks/tests.h"
#include "optim/clip.h"
#include "optim/sgd.h"

namespace ringtape::tasks {
namespace {

using Clip = decltype(::clip_gradients);

/// Gradients of two parameters, with the norm sqrt(9 + 16 + 144) = 13.
struct Gradients {
  std::vector<float> first = {3, -4}, second = {0, 12, 0};
  double norm = 0;

  Gradients(Clip* clip, double limit) {
    const std::vector<std::span<float>> all = {first, second};
    norm = clip(all, limit);
  }
};

void test_norm(Clip* clip) {
  const double norm = Gradients(clip, 1000).norm;
  if (norm == 0)
    wrong("the norm is 0: gradients (3, -4) and (0, 12, 0) have the norm sqrt(9 + 16 + 144) = 13");
  if (close(norm, 169, 1e-6))
    wrong("the norm is 169, the sum of the squares: the root is missing, which makes 13");
  if (close(norm, 12, 1e-6) || close(norm, 17, 1e-6)) {
    wrong(
        "the norm is {:g}: take one norm of all parameters together, sqrt(9 + 16 + 144) = 13, not a norm of "
        "each, 5 and 12",
        norm);
  }
  if (close(norm, 11, 1e-6) || close(norm, 19, 1e-6))
    wrong("the norm is {:g}: square the elements before adding them", norm);
  if (!close(norm, 13, 1e-6)) wrong("gradients (3, -4) and (0, 12, 0) have the norm 13, found {:g}", norm);
}

void test_small(Clip* clip) {
  const Gradients found(clip, 1000);
  if (found.first[0] != 3 || found.second[1] != 12) {
    wrong(
        "a norm of 13 is below the limit of 1000, and yet 3 became {:g}: gradients below the limit do not "
        "change",
        found.first[0]);
  }
}

void test_large(Clip* clip) {
  const Gradients found(clip, 6.5);
  if (found.first[0] == 3) wrong("a norm of 13 is above the limit of 6.5, but the gradients did not change");
  if (close(found.norm, 6.5, 1e-6)) wrong("return the norm before clipping, 13, not the limit");
  if (found.first == std::vector<float>{3, -4} || found.second[1] == 6.5F) {
    wrong("elements were limited one by one, which turns the gradient: multiply all of them by 6.5 / 13");
  }
  const std::vector<float> first = {1.5F, -2}, second = {0, 6, 0};
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (!close(found.first[i], first[i], 1e-5)) {
      wrong("limit 6.5, norm 13: {:g} expected in place of 3 or -4, found {:g}", first[i], found.first[i]);
    }
  }
  if (!close(found.second[1], 6, 1e-5))
    wrong("limit 6.5, norm 13: 12 becomes 6, found {:g}", found.second[1]);
}

}  // namespace

void test_clip(const LearnersFile& file) {
  auto* const clip = file.function<Clip>("clip_gradients");
  test_norm(clip);
  test_small(clip);
  test_large(clip);
}

void run_clip(const LearnersFile& file) {
  auto* const clip = file.function<Clip>("clip_gradients");
  constexpr double kLimit = 0.1;
  SmallModel mine, library;
  SGD my_steps(mine.arena, {.learning_rate = 2}), its_steps(library.arena, {.learning_rate = 2});
  std::vector<double> by_mine, by_library;
  for (int step = 0; step < 40; ++step) {
    by_mine.push_back(mine.backward());
    std::vector<std::span<float>> gradients;
    for (const ArenaEntry& entry : mine.arena.entries()) {
      gradients.push_back(mine.gradients().subspan(static_cast<std::size_t>(entry.offset),
                                                   static_cast<std::size_t>(entry.elements)));
    }
    clip(gradients, kLimit);
    my_steps.step();
    by_library.push_back(library.backward());
    clip_grad_norm_now(library.arena, kLimit);
    its_steps.step();
  }
  show_losses("your clipping", by_mine, "the library's", by_library);
}

}  // namespace ringtape::tasks
