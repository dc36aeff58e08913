// Times causal self-attention, forward and with the backward, at sequence lengths of training and of long
// contexts. Each time is compared with a floor: the FLOPs of the definition at the device's limit, two
// products over T (T + 1) / 2 pairs of tokens in the forward and five in the backward. Our backward computes
// two of its products twice (kernels/attention.h), and tiles on the diagonal are computed whole. In 16 bits,
// the time with the backward includes the conversions of qkv from f32 and of its gradient to f32.
#include "autograd/ops.h"
#include "autograd/tape.h"
#include "cli/command_line.h"
#include "kernels/limits.h"
#include "nn/compute_dtype.h"
#include "profile/machine.h"
#include "profile/result_file.h"
#include "trace/timing.h"

namespace {

using namespace ringtape;

struct Problem {
  std::int64_t batch, tokens;
  int heads;
  std::int64_t width;
};

// GPT-2's heads at batch 4 x 64 and 1 x 1024, then longer sequences.
const Problem kProblems[] = {{4, 64, 12, 64}, {1, 1024, 12, 64}, {1, 4096, 12, 64}, {1, 16384, 1, 64}};

ResultRow row_of(const std::string& name, const Problem& p, DType dtype, int products, double seconds,
                 const MachineLimits& limits) {
  const std::int64_t pairs = p.batch * p.heads * p.tokens * (p.tokens + 1) / 2;
  const double flops = products * 2.0 * static_cast<double>(pairs * p.width);
  return {.name = name,
          .size = fmt::format("{} x {} x {} x {} {}", p.batch, p.tokens, p.heads, p.width, name_of(dtype)),
          .seconds = seconds,
          .flops = flops,
          .limit_seconds = flops / limits.flops_per_second,
          .more = {{"batch", p.batch}, {"tokens", p.tokens}, {"heads", p.heads}, {"width", p.width}}};
}

void benchmark(Device device, DType dtype, const std::string& json_path) {
  Results results("bench_attention", device, json_path);
  const MachineLimits limits = measure_limits(device, dtype);
  results.setting("dtype", name_of(dtype));
  fmt::print("{}: {}; {:.0f} GFLOP/s\n\n", to_string(device), describe(device),
             limits.flops_per_second * 1e-9);
  fmt::print("{:<24} {:<24} {:>10} {:>10} {:>8}\n", "attention", "size", "ms", "GFLOP/s", "x floor");
  for (const Problem& p : kProblems) {
    const Tensor leaf =
        randn({p.batch, p.tokens, 3 * p.heads * p.width}, DType::f32, device).set_requires_grad(true);
    const Tensor qkv = to(leaf.detach(), dtype);
    const Tensor gradient = randn({p.batch, p.tokens, p.heads * p.width}, dtype, device);
    const auto forward = [&] { causal_self_attention(qkv, p.heads, p.heads); };
    const auto both = [&] {
      leaf.autograd->grad_written = false;
      Tape::current().backward(causal_self_attention(to(leaf, dtype), p.heads, p.heads), gradient);
    };
    const TimingOptions options{.rounds = p.tokens > 1024 ? 5 : 21};
    for (const ResultRow& row :
         {row_of("forward", p, dtype, 2, median_seconds(forward, device, options), limits),
          row_of("forward and backward", p, dtype, 7, median_seconds(both, device, options), limits)}) {
      fmt::print("{:<24} {:<24} {:>10.3f} {:>10.0f} {:>8.2f}\n", row.name, row.size, *row.seconds * 1e3,
                 row.flops / *row.seconds * 1e-9, *row.seconds / *row.limit_seconds);
      results.add(row);
    }
  }
  results.save();
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine app("Times causal self-attention, forward and backward, against the device's limit.");
  std::optional<Device> device;
  std::optional<DType> dtype = DType::f32;
  std::string json;
  app.option("--device", device, kDeviceHelp);
  app.option("--dtype", dtype_value(dtype), "f32, bf16, f16 or auto");
  app.file("--json", json, kJsonHelp);
  return app.run(argc, argv, [&] {
    const Device on = device_or_auto(device);
    benchmark(on, dtype.value_or(half_dtype(on)), json);
  });
}
