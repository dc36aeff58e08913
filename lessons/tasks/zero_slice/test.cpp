#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "lessons/tasks/model.h"
#include "lessons/tasks/tests.h"
#include "lessons/tasks/zero_slice/task.h"
#include "optim/adam.h"

namespace ringtape::tasks {
namespace {

using SliceOf = decltype(::slice_of);
using Update = decltype(::zero_update);

void test_slices(SliceOf* slice_of, std::int64_t elements, int ranks) {
  std::vector<int> owners(static_cast<std::size_t>(elements));
  std::int64_t shortest = elements, longest = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto [first, count] = slice_of(elements, rank, ranks);
    if (first < 0 || count < 0 || first + count > elements) {
      wrong("{} elements on {} ranks: rank {} owns {} from {} on, which is outside of them", elements, ranks,
            rank, count, first);
    }
    for (std::int64_t i = first; i < first + count; ++i) ++owners[static_cast<std::size_t>(i)];
    shortest = std::min(shortest, count);
    longest = std::max(longest, count);
  }
  for (std::size_t i = 0; i < owners.size(); ++i) {
    if (owners[i] == 0) wrong("{} elements on {} ranks: element {} belongs to no rank", elements, ranks, i);
    if (owners[i] > 1)
      wrong("{} elements on {} ranks: element {} belongs to {} ranks", elements, ranks, i, owners[i]);
  }
  if (longest - shortest > 1) {
    wrong("{} elements on {} ranks: slices of {} and of {}, expected lengths that differ by at most 1",
          elements, ranks, shortest, longest);
  }
}

void test_update(SliceOf* slice_of, Update* update) {
  std::vector<std::string> called;
  const Slice own = slice_of(10, 2, 4);
  update(10, 2, 4,
         {[&] { called.emplace_back("reduce_scatter"); },
          [&](Slice slice) {
            called.emplace_back("optimizer");
            if (slice.first != own.first || slice.count != own.count) {
              wrong(
                  "zero_update: rank 2 of 4 lets the optimizer update {} elements from {} on, expected its "
                  "own slice, {} "
                  "from {} on",
                  slice.count, slice.first, own.count, own.first);
            }
          },
          [&] { called.emplace_back("all_gather"); }});
  const auto place = [&](const char* name) {
    return std::find(called.begin(), called.end(), name) - called.begin();
  };
  for (const char* name : {"reduce_scatter", "optimizer", "all_gather"}) {
    if (std::count(called.begin(), called.end(), name) != 1) {
      wrong("zero_update calls {} {} times, expected once", name,
            std::count(called.begin(), called.end(), name));
    }
  }
  if (place("reduce_scatter") > place("optimizer"))
    wrong("the optimizer needs the mean gradient: the reduce_scatter comes first");
  if (place("all_gather") < place("optimizer"))
    wrong("the values are gathered before the optimizer has changed them");
}

/// The mean gradient of four ranks that have the same samples is the gradient of one: the ranks are played
/// one after the other on one model.
double train_sharded(SmallModel& model, Update* update, std::span<float> m, std::span<float> v, int t) {
  constexpr int kRanks = 4;
  const double loss = model.backward();
  const auto elements = static_cast<std::int64_t>(model.values().size());
  for (int rank = 0; rank < kRanks; ++rank) {
    update(elements, rank, kRanks,
           {[] {},
            [&](Slice own) {
              for (auto i = static_cast<std::size_t>(own.first);
                   i < static_cast<std::size_t>(own.first + own.count); ++i) {
                const float g = model.gradients()[i];
                m[i] += 0.1F * (g - m[i]);
                v[i] += 0.001F * (g * g - v[i]);
                const double mean = m[i] / (1 - std::pow(0.9, t)), square = v[i] / (1 - std::pow(0.999, t));
                model.values()[i] -= static_cast<float>(0.01 * mean / (std::sqrt(square) + 1e-8));
              }
            },
            [] {}});
  }
  model.arena.bump_versions();
  return loss;
}

}  // namespace

void test_zero_slice(const LearnersFile& file) {
  auto* const slice_of = file.function<SliceOf>("slice_of");
  for (const std::int64_t elements : {8, 10, 11, 3, 1000003}) {
    for (const int ranks : {1, 2, 4, 7}) test_slices(slice_of, elements, ranks);
  }
  test_update(slice_of, file.function<Update>("zero_update"));
}

void run_zero_slice(const LearnersFile& file) {
  auto* const slice_of = file.function<SliceOf>("slice_of");
  auto* const update = file.function<Update>("zero_update");
  SmallModel sharded, whole;
  std::vector<float> m(sharded.values().size()), v(m.size());
  Adam adam(whole.arena, {.learning_rate = 0.01});
  std::vector<double> by_mine, by_library;
  for (int t = 1; t <= 40; ++t) {
    by_mine.push_back(train_sharded(sharded, update, m, v, t));
    by_library.push_back(whole.backward());
    adam.step();
  }
  show_losses("your slices", by_mine, "one Adam", by_library);
  for (int rank = 0; rank < 4; ++rank) {
    const auto elements = static_cast<std::int64_t>(m.size());
    fmt::print("  rank {} owns the moments of {} of {} elements\n", rank, slice_of(elements, rank, 4).count,
               elements);
  }
}

}  // namespace ringtape::tasks
