#include "optim/loss_scaler.h"

#include <cmath>
#include <limits>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "core/error.h"
#include "kernels/loss_scale.h"
#include "kernels/reduce.h"
#include "nn/layers.h"
#include "optim/clip.h"
#include "tests/catch.h"
#include "tests/gpu.h"
#include "tests/kernel_test.h"
#include "tests/tensors.h"

namespace ringtape::test {
namespace {

TEST_CASE("the loss scale moves as torch.amp.GradScaler's, step by step", "[scaler]") {
  const SafetensorsFile file(std::string(RINGTAPE_TEST_DATA) + "/golden/loss_scale.safetensors");
  const std::vector<double> overflows = file.load("overflows").to_doubles();
  on_every_device([&](Device device, const Stream& stream) {
    const DeviceArray<float> scale(device, {65536.0f});
    const DeviceArray<std::int32_t> tracker(device, {0}), at_floor(device, {0});
    const DeviceArray<std::int64_t> skipped(device, {0});
    const LossScaleRule rule{
        .growth_factor = 2, .backoff_factor = 0.5, .growth_interval = 5, .floor = 0x1p-100f};
    std::vector<double> scales, trackers;
    double overflows_so_far = 0;
    for (const double overflow : overflows) {
      const DeviceArray<int> flag(device, {static_cast<int>(overflow)});
      update_loss_scale(stream, flag.data(), rule,
                        LossScaleState{scale.data(), tracker.data(), skipped.data(), at_floor.data()});
      scales.push_back(scale.doubles()[0]);
      trackers.push_back(tracker.doubles()[0]);
      overflows_so_far += overflow;
      CHECK(skipped.doubles()[0] == overflows_so_far);
    }
    CHECK(scales == file.load("scale").to_doubles());
    CHECK(trackers == file.load("growth_tracker").to_doubles());
  });
}

}  // namespace
}  // namespace ringtape::test
