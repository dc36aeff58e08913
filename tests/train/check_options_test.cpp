#include "optim/registry.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "train/option_list.h"

namespace ringtape::test {
namespace {

std::string refusal(const std::function<void(TrainerOptions&)>& change) {
  TrainerOptions options;
  change(options);
  return error_of([&] { check_options(options); });
}

// A program's flags cannot hold these values, but the options of a library's user can.
TEST_CASE("options: a value that no flag could set is refused by its name", "[train]") {
  CHECK(refusal([](TrainerOptions&) {}).empty());
  const OptimizerKind own = optimizer_named("sgd");  // a program's own optimizer has no word
  CHECK(refusal([&own](TrainerOptions& options) { options.optimizer.kind = &own; }).empty());
  CHECK(refusal([](TrainerOptions& options) {
          options.observation.sort = ProfileColumn{99};
        }).starts_with("--sort: expected self, share, "));
  CHECK(refusal([](TrainerOptions& options) { options.distribution.compress = DType::f64; }) ==
        "--compress: expected none, bf16 or f16, found 'f64'");
  CHECK(refusal([](TrainerOptions& options) { options.precision.dtype = DType::i64; }) ==
        "--dtype: expected f32, bf16, f16 or auto, found 'i64'");
  CHECK(refusal([](TrainerOptions& options) {
          options.schedule.kind = ScheduleKind{99};
        }).starts_with("--schedule: expected "));
}

TEST_CASE("options: a device by name; the run chooses it for auto and cuda", "[train]") {
  std::optional<Device> device;
  const OptionValue value = option_value(device);
  value.read("cpu");
  CHECK(device == Device{});
  CHECK(value.write() == "cpu");
  value.read("auto");
  CHECK_FALSE(device.has_value());
  CHECK(value.write() == "auto");
  CHECK(error_of([&] { value.read("tpu"); }) ==
        "device 'tpu' is unknown: expected auto, cpu, cuda or cuda:N");
  if (cuda_device_count() == 0) {
    CHECK(error_of([&] { value.read("cuda"); }).starts_with("device 'cuda' was requested, but this "));
    return;
  }
  value.read("cuda:0");
  CHECK(device == Device{DeviceType::cuda, 0});
  value.read("cuda");
  CHECK_FALSE(device.has_value());
}

}  // namespace
}  // namespace ringtape::test
