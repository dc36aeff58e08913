// Two streams and a pinned buffer: in each step a batch is copied to the device, a gradient is computed, and
// another stream passes it on, as in data parallelism. Three waits order this; --without removes one of two.
#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <string>

#include "autograd/creation.h"
#include "cli/command_line.h"
#include "core/memory.h"
#include "core/stream.h"
#include "kernels/gemm.h"

namespace {

using namespace ringtape;

constexpr std::int64_t kWidth = 64;
constexpr std::size_t kBytes = kWidth * sizeof(float);

enum class Missing { nothing, host_wait, stream_wait };

struct Options {
  Device device;
  int steps = 3;
  Missing without = Missing::nothing;
};

/// Queues a copy of kBytes on the stream.
void copy_on(const Stream& stream, void* to, Device to_device, const void* from, Device from_device) {
  const StreamScope scope(stream);
  copy_bytes_async(to, to_device, from, from_device, kBytes);
}

void run(const Options& options) {
  const auto floats = [&](std::int64_t rows) { return zeros({rows, kWidth}, DType::f32, options.device); };
  const Tensor batch = floats(1), gradient = floats(1), sent = floats(options.steps);
  const Tensor weights = full({kWidth, kWidth}, 1.0 / kWidth, DType::f32, options.device);
  const std::shared_ptr<void> pinned = allocate_pinned(kBytes, options.device);
  auto* const values = static_cast<float*>(pinned.get());
  Stream::current(options.device).synchronize();
  const Stream compute = Stream::create(options.device), communication = Stream::create(options.device);
  Event copied(options.device), computed(options.device), passed_on(options.device);

  for (int step = 0; step < options.steps; ++step) {
    if (options.without != Missing::host_wait) copied.synchronize();  // the last copy has read the buffer
    for (std::int64_t i = 0; i < kWidth; ++i) values[i] = static_cast<float>(step + 1);
    passed_on.wait_on(compute);  // the last gradient has been read
    copy_on(compute, batch.raw(), options.device, values, {});
    copied.record(compute);
    gemm(compute,
         {.m = 1, .n = kWidth, .k = kWidth, .a = batch.raw(), .b = weights.raw(), .c = gradient.raw()});
    computed.record(compute);
    if (options.without != Missing::stream_wait) computed.wait_on(communication);  // the gradient is there
    copy_on(communication, sent.data<float>() + step * kWidth, options.device, gradient.raw(),
            options.device);
    passed_on.record(communication);
  }
  communication.synchronize();
  compute.synchronize();  // before the buffer is freed
  for (int step = 0; step < options.steps; ++step)
    fmt::print("step {}: the batch is {}, the gradient that was passed on {:g}\n", step, step + 1,
               sent.to_doubles()[static_cast<std::size_t>(step * kWidth)]);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  std::optional<Device> device = Device{};
  CommandLine app(
      "Two streams of a training run, with or without their waits.\n"
      "Example: race --steps 5 --without host-wait");
  app.option("--device", device, "cpu or cuda; in a build with the preset model, cuda is the GPU model");
  app.option("--steps", between(options.steps, 1, 1000), "steps");
  app.option("--without",
             named_option_value(options.without, {{"nothing", Missing::nothing},
                                                  {"host-wait", Missing::host_wait},
                                                  {"stream-wait", Missing::stream_wait}}),
             "the wait to leave out: nothing, host-wait or stream-wait");
  return app.run(argc, argv, [&] {
    options.device = device_or_auto(device);
    run(options);
  });
}
