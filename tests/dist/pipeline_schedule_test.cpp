#include "dist/pipeline_schedule.h"

#include <algorithm>
#include <map>
#include <utility>

#include "tests/support/catch.h"
#include "tests/support/error_of.h"

namespace ringtape::test {
namespace {

constexpr PipelineScheduleKind kKinds[] = {PipelineScheduleKind::afab, PipelineScheduleKind::one_f_one_b,
                                           PipelineScheduleKind::interleaved};

/// Calls body(kind, shape) for all kinds and small shapes.
template <class Body>
void for_each_shape(const Body& body) {
  for (const PipelineScheduleKind kind : kKinds) {
    const bool has_chunks = kind == PipelineScheduleKind::interleaved;
    for (int stages = 1; stages <= 8; ++stages) {
      for (int chunks = has_chunks ? 2 : 1; chunks <= (has_chunks ? 4 : 1); ++chunks) {
        for (int micro_batches = 1; micro_batches <= 20; ++micro_batches) {
          body(kind, PipelineShape{stages, micro_batches, chunks});
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("pipeline schedules: each chunk has each micro-batch once forward and then once backward",
          "[dist][stages]") {
  for_each_shape([](PipelineScheduleKind kind, const PipelineShape& shape) {
    for (int stage = 0; stage < shape.stages; ++stage) {
      std::map<std::pair<int, int>, int>
          directions;  // by micro-batch and chunk: 1 after forward, 2 after backward
      bool in_order = true;
      std::map<int, int> last_backward;  // by chunk
      for (const StageTask& task : stage_schedule(kind, shape, stage)) {
        int& done = directions[{task.micro_batch, task.chunk}];
        in_order = in_order && done == (task.is_backward ? 1 : 0);
        ++done;
        if (!task.is_backward) continue;
        // One order of sums in every schedule.
        const auto [last, is_first] = last_backward.try_emplace(task.chunk, -1);
        in_order = in_order && task.micro_batch == last->second + 1;
        last->second = task.micro_batch;
      }
      REQUIRE(in_order);
      REQUIRE(std::ssize(directions) == shape.micro_batches * shape.chunks);
      REQUIRE(std::all_of(directions.begin(), directions.end(),
                          [](const auto& each) { return each.second == 2; }));
    }
  });
}

TEST_CASE(
    "pipeline schedules: no stage waits for ever, and stages that are equally fast idle as long as published",
    "[dist][stages]") {
  for_each_shape([](PipelineScheduleKind kind, const PipelineShape& shape) {
    INFO(shape.stages << " stages, " << shape.micro_batches << " micro-batches, " << shape.chunks
                      << " chunks");
    const auto times = simulate(pipeline_schedule(kind, shape), 1, 2);
    if (shape.micro_batches < shape.stages && shape.chunks > 1) return;  // a chunk waits for the round
    const double expected = (shape.stages - 1.0) / (shape.chunks * shape.micro_batches + shape.stages - 1.0);
    REQUIRE_THAT(bubble_of(times), Catch::Matchers::WithinAbs(expected, 1e-12));
  });
}

TEST_CASE("pipeline schedules: a stage keeps as many micro-batches as published", "[dist][stages]") {
  for_each_shape([](PipelineScheduleKind kind, const PipelineShape& shape) {
    const auto [p, m, v] = shape;
    for (int stage = 0; stage < p; ++stage) {
      INFO(p << " stages, " << m << " micro-batches, " << v << " chunks, stage " << stage);
      int expected = m * v;  // all
      if (kind == PipelineScheduleKind::one_f_one_b)
        expected = std::min(m, p - stage);  // Narayanan et al., 2021
      // 2 (p - stage - 1) + (v - 1) p + 1 of chunks a v-th as large: p v + p - 1 on the first stage, as in
      // Korthikanti et al., 2022, section 4.2.3.
      if (kind == PipelineScheduleKind::interleaved) {
        if (m % p != 0) continue;
        expected = std::min(m * v, 2 * (p - stage - 1) + (v - 1) * p + 1);
      }
      REQUIRE(max_in_flight(stage_schedule(kind, shape, stage)) == expected);
    }
  });
}

TEST_CASE("pipeline schedules: the formula of micro-batches in flight counts those of the schedule",
          "[dist][stages]") {
  for_each_shape([](PipelineScheduleKind kind, const PipelineShape& shape) {
    for (int stage = 0; stage < shape.stages; ++stage) {
      INFO(shape.stages << " stages, " << shape.micro_batches << " micro-batches, " << shape.chunks
                        << " chunks, stage " << stage);
      const double counted = max_in_flight(stage_schedule(kind, shape, stage));
      REQUIRE(micro_batches_in_flight(kind, shape, stage) == std::max(1.0, counted / shape.chunks));
    }
  });
}

TEST_CASE("pipeline schedules: 1F1B of two stages, task by task", "[dist][stages]") {
  const auto forward = [](int m) { return StageTask{false, m, 0}; };
  const auto backward = [](int m) { return StageTask{true, m, 0}; };
  const PipelineShape shape{2, 3, 1};
  using Tasks = std::vector<StageTask>;
  CHECK(stage_schedule(PipelineScheduleKind::one_f_one_b, shape, 0) ==
        Tasks{forward(0), forward(1), backward(0), forward(2), backward(1), backward(2)});
  CHECK(stage_schedule(PipelineScheduleKind::one_f_one_b, shape, 1) ==
        Tasks{forward(0), backward(0), forward(1), backward(1), forward(2), backward(2)});
  CHECK(draw_schedule(PipelineScheduleKind::one_f_one_b, shape) ==
        "2 stages, 3 micro-batches, 1 chunk a stage: bubble 25.0% of the time, 25.0% by (p-1)/(vm+p-1)\n\n"
        "stage 0   f0 f1       b0--- f2 b1---    b2---\n"
        "stage 1      f0 b0--- f1 b1--- f2 b2---\n"
        "\nmicro-batches kept at a time by each stage: 2 1\n");
}

TEST_CASE("pipeline schedules: a stage that waits for ever is named", "[dist][stages]") {
  auto schedule = pipeline_schedule(PipelineScheduleKind::one_f_one_b, {2, 2, 1});
  std::swap(schedule[1][0], schedule[1][1]);  // a backward before its forward
  CHECK(error_of([&] {
          simulate(schedule, 1, 2);
        }).find("stage 0 waits for ever before the backward of micro-batch 0") != std::string::npos);
  CHECK(error_of([] {
          stage_schedule(PipelineScheduleKind::one_f_one_b, {2, 4, 2}, 0);
        }) == "pipeline: 2 chunks a stage, expected one, or the schedule interleaved");
}

}  // namespace ringtape::test
