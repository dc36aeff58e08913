#include "trace/device_activity.h"

#ifdef RINGTAPE_WITH_CUPTI
#include <cupti.h>
#endif

#include "autograd/creation.h"
#include "core/error.h"
#include "core/stream.h"
#include "profile/device_time.h"
#include "profile/overlap.h"
#include "tests/support/catch.h"
#include "tests/support/gpu.h"

using namespace ringtape;

namespace {

using std::chrono::microseconds;
constexpr SpanClock::time_point kZero{std::chrono::seconds(5000)};

SpanClock::time_point at(int time) {
  return kZero + microseconds(time);
}

Span span(const char* name, std::uint64_t id, int depth, int begin, int end) {
  Span made;
  made.name = name;
  made.id = id;
  made.depth = depth;
  made.begin = at(begin);
  made.end = at(end);
  return made;
}

DeviceActivity kernel(const char* name, std::uint64_t span, int begin, int end, int stream = 7) {
  DeviceActivity made;
  made.name = name;
  made.span = span;
  made.begin = at(begin);
  made.end = at(end);
  made.stream = stream;
  return made;
}

/// A step with a forward of two nested spans and a backward, in the order in which they end.
std::vector<Span> step() {
  return {span("linear", 3, 2, 2, 4), span("forward", 2, 1, 1, 6), span("linear backward", 5, 2, 8, 11),
          span("backward", 4, 1, 7, 12), span("step", 1, 0, 0, 15)};
}

}  // namespace

TEST_CASE("device time: work that a span queued counts for it, not for the span around it", "[device_time]") {
  // The device runs behind the host, with gaps of 5 and 10 us.
  const std::vector<DeviceActivity> activities = {kernel("memset", 1, 5, 6), kernel("sgemm", 3, 10, 30),
                                                  kernel("bias_add", 3, 30, 32), kernel("relu", 2, 32, 35),
                                                  kernel("sgemm", 5, 45, 85)};
  const DeviceTime time = share_device_time(step(), activities);
  REQUIRE(time.of_span.size() == 5);
  CHECK(time.of_span[0] == microseconds(22));  // linear
  CHECK(time.of_span[1] == microseconds(3));   // forward itself
  CHECK(time.of_span[2] == microseconds(40));  // linear backward
  CHECK(time.of_span[3] == microseconds(0));   // backward
  CHECK(time.of_span[4] == microseconds(1));   // step
  CHECK(time.busy == microseconds(66));        // of 80
  CHECK(time.overlapped.count() == 0);
  CHECK(time.elsewhere.count() == 0);
}

TEST_CASE("device time: streams that work at the same time share it", "[device_time]") {
  // us           0    10   20   30   40   50
  // stream 7     [ linear       ][ backw ]
  // stream 13         [ nccl         ]
  // stream 20              [x]
  const std::vector<DeviceActivity> activities = {kernel("linear", 3, 0, 30), kernel("backward", 5, 30, 45),
                                                  kernel("nccl", 4, 10, 40, 13), kernel("x", 99, 20, 26, 20)};
  const DeviceTime time = share_device_time(step(), activities);
  CHECK(time.of_span[0] == microseconds(10 + 5 + 2 + 2));  // alone, halves, a third, a half
  CHECK(time.of_span[3] == microseconds(5 + 2 + 2 + 5));
  CHECK(time.of_span[2] == microseconds(5 + 5));
  CHECK(time.elsewhere == microseconds(2));  // no span has the number 99
  CHECK(time.busy == microseconds(45));
  CHECK(time.overlapped == microseconds(30));
}

TEST_CASE("device time: an evaluation between steps does not count", "[device_time]") {
  // us           0    10   20   30   40   50   60
  // host         [ step  ][ evaluation ][ step   ]
  // device            [ of step 1][eval][ of step 2 ]
  std::vector<Span> spans = {span("forward", 2, 1, 2, 8), span("step 1", 1, 0, 0, 20),
                             span("evaluation", 3, 0, 20, 40), span("forward", 5, 1, 42, 48),
                             span("step 2", 4, 0, 40, 60)};
  spans[1].kind = spans[4].kind = SpanKind::step;
  const std::vector<DeviceActivity> activities = {
      kernel("late", 2, 10, 25),     kernel("of the evaluation", 3, 25, 39),
      kernel("no span", 0, 26, 39),  kernel("of the step itself", 4, 40, 45),
      kernel("no span", 99, 45, 50), kernel("after the host", 5, 60, 70)};
  const std::vector<DeviceActivity> kept = activities_of_steps(spans, activities);
  REQUIRE(kept.size() == 4);
  CHECK(kept[0].name == "late");
  CHECK(kept[1].name == "of the step itself");
  CHECK(kept[2].span == 99);
  CHECK(kept[3].name == "after the host");
  CHECK(share_device_time(spans, kept).busy == microseconds(15 + 10 + 10));
}

TEST_CASE("device time: the shares add up to the busy time, to the nanosecond", "[device_time]") {
  std::vector<DeviceActivity> activities;
  for (int i = 0; i < 200; ++i) {
    DeviceActivity made =
        kernel("k", static_cast<std::uint64_t>(i % 6), i * 3, i * 3 + 1 + i * 7 % 11, i % 5);
    made.begin += std::chrono::nanoseconds(i * 37 % 101);
    made.end += std::chrono::nanoseconds(i * 53 % 997);
    activities.push_back(made);
  }
  const std::vector<Span> spans = step();
  const DeviceTime time = share_device_time(spans, activities);
  SpanClock::duration sum = time.elsewhere;
  for (const SpanClock::duration each : time.of_span) sum += each;
  CHECK(sum == time.busy);
  CHECK(time.busy <= microseconds(700));
  CHECK(time.overlapped > microseconds(100));
  CHECK(time.overlapped < time.busy);
}

TEST_CASE("device time: no activities, and activities without a duration", "[device_time]") {
  CHECK(share_device_time(step(), {}).busy.count() == 0);
  const std::vector<DeviceActivity> empty = {kernel("nothing", 3, 5, 5)};
  CHECK(share_device_time(step(), empty).busy.count() == 0);
}

TEST_CASE("device records: activities find the span of their call", "[device_time]") {
  DeviceRecords records;
  records.activities = {kernel("second", 0, 20, 30), kernel("first", 0, 10, 15),
                        kernel("of a graph", 0, 40, 41), kernel("of a graph", 0, 41, 43),
                        kernel("no span", 0, 50, 60)};
  records.activities[0].call = 100;
  records.activities[1].call = 101;
  records.activities[2].call = records.activities[3].call = 102;  // one launch
  records.activities[4].call = 103;
  records.span_of_call = {{101, 3}, {100, 5}, {102, 1}, {7, 2}};
  const DeviceActivities result = resolve(records, at(0), at(100));
  REQUIRE(result.all.size() == 5);
  CHECK(result.all[0].name == "first");
  CHECK(result.all[0].span == 3);
  CHECK(result.all[1].span == 5);
  CHECK(result.all[2].span == 1);
  CHECK(result.all[3].span == 1);
  CHECK(result.all[4].span == 0);
  CHECK(result.missing.empty());
}

TEST_CASE("device records: activities without valid times are left out and counted", "[device_time]") {
  DeviceRecords records;
  records.activities = {kernel("good", 0, 10, 15), kernel("without", 0, 0, 0), kernel("backwards", 0, 20, 19),
                        kernel("late", 0, 20, 21)};
  records.activities[1].begin = records.activities[1].end = {};
  records.activities[3].end += std::chrono::hours(1);  // by another clock
  records.lost = 2;
  const DeviceActivities result = resolve(records, at(0), at(100));
  REQUIRE(result.all.size() == 1);
  CHECK(result.all[0].name == "good");
  CHECK(result.missing == "2 records of 6 were lost, and 3 have no times");
}

TEST_CASE("device activities: names of kernels", "[device_time]") {
  CHECK(kernel_name("_ZN8ringtape7on_cuda12_GLOBAL__N_112relu_forwardEPKfPfl") == "relu_forward");
  CHECK(kernel_name("_ZN8ringtape7on_cuda11adam_updateIfNS_8bfloat16EEEvPT_PT0_l") ==
        "adam_update<float, ringtape::bfloat16>");
  CHECK(kernel_name("_ZN7cutlass6KernelIXadL_Z1fvEEEEvi") == "cutlass::Kernel<&(f())>");
  CHECK(kernel_name("ampere_sgemm_128x64_nn") == "ampere_sgemm_128x64_nn");
  CHECK(kernel_name("f") == "f");  // not the type float
  CHECK(kernel_name("_Z!") == "_Z!");
  CHECK(kernel_name(nullptr) == "kernel");
  DeviceActivity activity = kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 0, 0, 1);
  CHECK(is_communication(activity));
  activity.name = "adam_update";
  CHECK_FALSE(is_communication(activity));
}

TEST_CASE("overlap: on a GPU, of NCCL's kernels with the others", "[device_time]") {
  const std::vector<DeviceActivity> activities = {kernel("linear", 0, 0, 30), kernel("linear", 0, 40, 50),
                                                  kernel("ncclDevKernel_AllReduce", 0, 20, 45, 13)};
  const Overlap overlap = measure_device_overlap(activities);
  CHECK(overlap.compute == microseconds(40));
  CHECK(overlap.communication == microseconds(25));
  CHECK(overlap.hidden == microseconds(15));
  CHECK(overlap.waiting == microseconds(10));
}

TEST_CASE("device recording: without a GPU it says why there is nothing", "[device_time]") {
  if (cuda_device_count() > 0) return;
  DeviceRecording recording({DeviceType::cuda, 0});
  recording.stop();
  CHECK(recording.activities().all.empty());
#ifdef RINGTAPE_WITH_CUPTI
  CHECK_THAT(recording.activities().missing, ContainsSubstring("CUPTI: cupti"));
#else
  CHECK(recording.activities().missing == "built without CUPTI");
#endif
  CHECK_FALSE(is_recording_device());
}

#ifdef RINGTAPE_WITH_CUPTI
GPU_TEST_CASE("device recording: kernels and copies, each with the span that queued it", "[device_time]") {
  const Device gpu{DeviceType::cuda, cuda_device_count() - 1};
  Stream::current(gpu).synchronize();
  DeviceRecording device(gpu);
  SpanRecording host;
  Tensor x;
  {
    const SpanScope outer(SpanKind::phase, "outer");
    x = full({4}, 3.0, DType::f32, gpu);
    const SpanScope inner(SpanKind::operation, "inner");
    CHECK(x.to_vector<float>() == std::vector<float>(4, 3.0f));
  }
  x = full({4}, 4.0, DType::f32, gpu);                   // in no span
  Stream::current({DeviceType::cuda, 0}).synchronize();  // another device may be the current one
  device.stop();
  host.stop();
  REQUIRE(host.spans().size() == 2);  // in the order of their end
  const DeviceActivities& found = device.activities();
  CHECK(found.missing.empty());
  REQUIRE(found.all.size() == 3);
  const DeviceActivity &filled = found.all[0], &copied = found.all[1], &last = found.all[2];
  CHECK(filled.work == DeviceWork::kernel);
  CHECK_THAT(filled.name, ContainsSubstring("fill"));
  CHECK(filled.grid == std::array{1, 1, 1});
  CHECK(filled.block[0] > 1);
  CHECK(filled.span == host.spans()[1].id);
  CHECK(copied.name == "copy device to host");
  CHECK(copied.bytes == 16);
  CHECK(copied.span == host.spans()[0].id);
  CHECK(filled.end <= copied.begin);
  CHECK(last.span == 0);
}

GPU_TEST_CASE("device recording: says that another profiler is attached, and works after it",
              "[device_time]") {
  const Device gpu{DeviceType::cuda, 0};
  CUpti_SubscriberHandle other = nullptr;
  REQUIRE(cuptiSubscribe(
              &other, [](void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}, nullptr) ==
          CUPTI_SUCCESS);
  {
    DeviceRecording recording(gpu);
    CHECK_FALSE(is_recording_device());
    recording.stop();
    CHECK(recording.activities().missing == "another profiler is attached, such as Nsight");
  }
  REQUIRE(cuptiUnsubscribe(other) == CUPTI_SUCCESS);
  DeviceRecording recording(gpu);
  CHECK(is_recording_device());
  CHECK_THROWS_AS(DeviceRecording(gpu), Error);
  recording.stop();
  CHECK(recording.activities().missing.empty());
}
#endif
