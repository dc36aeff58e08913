#include <algorithm>
#include <string>
#include <vector>

#include "lessons/tasks/pipeline/task.h"
#include "lessons/tasks/tests.h"

namespace ringtape::tasks {
namespace {

using Order = decltype(::one_forward_one_backward);
using Orders = std::vector<std::vector<::Work>>;

/// The times at which each stage's works begin; a forward takes 1, a backward 2.
struct Timetable {
  Orders orders;
  std::vector<std::vector<int>> begin;
  int end = 0;
};

int time_of(const ::Work& work) {
  return work.is_forward ? 1 : 2;
}

std::string name_of(const ::Work& work) {
  return fmt::format("{}{}", work.is_forward ? "F" : "B", work.micro_batch);
}

Orders orders_of(Order* order, int stages, int micro_batches) {
  Orders orders(static_cast<std::size_t>(stages));
  for (int stage = 0; stage < stages; ++stage)
    order(stage, stages, micro_batches, orders[static_cast<std::size_t>(stage)]);
  return orders;
}

void check_complete(const Orders& orders, int micro_batches) {
  for (std::size_t stage = 0; stage < orders.size(); ++stage) {
    if (orders[stage].empty()) wrong("stage {} of {} has no work: the order is empty", stage, orders.size());
    for (int k = 0; k < micro_batches; ++k) {
      const auto place = [&](bool is_forward) {
        return std::find_if(orders[stage].begin(), orders[stage].end(), [&](const ::Work& work) {
          return work.is_forward == is_forward && work.micro_batch == k;
        });
      };
      if (place(true) == orders[stage].end())
        wrong("stage {} of {}: micro-batch {} has no forward", stage, orders.size(), k);
      if (place(false) == orders[stage].end())
        wrong("stage {} of {}: micro-batch {} has no backward", stage, orders.size(), k);
      if (place(false) < place(true))
        wrong("stage {} of {}: the backward of micro-batch {} is before its forward", stage, orders.size(),
              k);
    }
    if (orders[stage].size() != 2 * static_cast<std::size_t>(micro_batches)) {
      wrong("stage {} of {} has {} works, expected a forward and a backward of each of {} micro-batches",
            stage, orders.size(), orders[stage].size(), micro_batches);
    }
  }
}

/// When a work on another stage ends, or -1 if it has not begun.
int end_on(const Timetable& table, std::size_t stage, const ::Work& work) {
  for (std::size_t i = 0; i < table.begin[stage].size(); ++i) {
    const ::Work& done = table.orders[stage][i];
    if (done.is_forward == work.is_forward && done.micro_batch == work.micro_batch)
      return table.begin[stage][i] + time_of(done);
  }
  return -1;
}

Timetable run(const Orders& orders) {
  Timetable table = {orders, std::vector<std::vector<int>>(orders.size()), 0};
  std::vector<int> free(orders.size());
  for (bool went_on = true; went_on;) {
    went_on = false;
    for (std::size_t stage = 0; stage < orders.size(); ++stage) {
      while (table.begin[stage].size() < orders[stage].size()) {
        const ::Work& next = orders[stage][table.begin[stage].size()];
        const bool starts = next.is_forward ? stage == 0 : stage + 1 == orders.size();
        const int ready = starts ? 0 : end_on(table, next.is_forward ? stage - 1 : stage + 1, next);
        if (ready < 0) break;
        table.begin[stage].push_back(std::max(free[stage], ready));
        free[stage] = table.begin[stage].back() + time_of(next);
        table.end = std::max(table.end, free[stage]);
        went_on = true;
      }
    }
  }
  for (std::size_t stage = 0; stage < orders.size(); ++stage) {
    if (table.begin[stage].size() == orders[stage].size()) continue;
    wrong("the stages wait for each other for ever: stage {} of {} waits to begin {}", stage, orders.size(),
          name_of(orders[stage][table.begin[stage].size()]));
  }
  return table;
}

/// The most micro-batches that a stage has begun and not ended.
int most_kept(const std::vector<::Work>& order) {
  int kept = 0, most = 0;
  for (const ::Work& work : order) {
    kept += work.is_forward ? 1 : -1;
    most = std::max(most, kept);
  }
  return most;
}

void test(Order* order, int stages, int micro_batches) {
  const Orders orders = orders_of(order, stages, micro_batches);
  check_complete(orders, micro_batches);
  const Timetable table = run(orders);
  for (int stage = 0; stage < stages; ++stage) {
    const int kept = most_kept(orders[static_cast<std::size_t>(stage)]),
              allowed = std::min(stages - stage, micro_batches);
    if (kept > allowed) {
      wrong(
          "stage {} of {} keeps the activations of {} of {} micro-batches, expected at most {}: begin with "
          "fewer forwards, then take "
          "a forward and a backward in turn",
          stage, stages, kept, micro_batches, allowed);
    }
  }
  const int expected = 3 * (micro_batches + stages - 1);
  if (table.end != expected) {
    wrong(
        "{} stages and {} micro-batches take a time of {}, expected 3 ({} + {} - 1) = {}, with a forward of "
        "1 and a backward of 2",
        stages, micro_batches, table.end, micro_batches, stages, expected);
  }
}

}  // namespace

void test_pipeline(const LearnersFile& file) {
  auto* const order = file.function<Order>("one_forward_one_backward");
  test(order, 1, 3);
  for (const int stages : {2, 4}) {
    for (const int micro_batches : {1, 2, 4, 8}) test(order, stages, micro_batches);
  }
}

void run_pipeline(const LearnersFile& file) {
  constexpr int kStages = 4, kMicroBatches = 6;
  const Timetable table =
      run(orders_of(file.function<Order>("one_forward_one_backward"), kStages, kMicroBatches));
  fmt::print(
      "\n{} stages, {} micro-batches; a forward takes 1 (its number), a backward 2 (its number and =):\n",
      kStages, kMicroBatches);
  for (std::size_t stage = 0; stage < kStages; ++stage) {
    std::string line(static_cast<std::size_t>(table.end), '.');
    for (std::size_t i = 0; i < table.begin[stage].size(); ++i) {
      const ::Work& work = table.orders[stage][i];
      const auto at = static_cast<std::size_t>(table.begin[stage][i]);
      line[at] = static_cast<char>('0' + work.micro_batch);
      if (!work.is_forward) line[at + 1] = '=';
    }
    fmt::print("  stage {}  {}  keeps {}\n", stage, line, most_kept(table.orders[stage]));
  }
  fmt::print("{} of {} units of each stage are idle: the bubble, {} / ({} + {})\n", 3 * (kStages - 1),
             table.end, kStages - 1, kMicroBatches, kStages - 1);
}

}  // namespace ringtape::tasks
