// Times a GPT-2 of 124 M parameters with random weights: training steps (forward, cross-entropy, backward,
// AdamW) and, with --tokens, the generation of tokens one by one. A step is compared with the time of its
// matrix products at the device's highest measured rate (peak_flops()); a token, with the time of reading
// every weight once at the rate of a large copy. tests/long/gpt_against_others.py compares it with other
// programs.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "benchmarks/times.h"
#include "cli/command_line.h"
#include "core/error.h"
#include "core/memory.h"
#include "kernels/limits.h"
#include "nn/arena.h"
#include "nn/compute_dtype.h"
#include "nn/gpt.h"
#include "nn/gpt_estimate.h"
#include "optim/adam.h"
#include "optim/parameter_group.h"
#include "profile/result_file.h"

namespace {

using namespace ringtape;

struct Options {
  std::optional<Device> device;
  std::optional<DType> dtype = DType::f32;
  std::string json;
  std::int64_t batch = 4, context = 64, steps = 5, tokens = 0;
};

Tensor random_tokens(std::int64_t batch, std::int64_t length, Device device) {
  return to(rand({batch, length}, DType::f32, device, 0, 50256), DType::i64);
}

ResultRow time_steps(const Options& o, Device device, DType dtype) {
  const double rate = peak_flops(device, dtype);
  empty_cache(device);
  GPT model({});
  ParameterArena arena(model, device, dtype);
  AdamW optimizer(arena, {.learning_rate = 1e-4, .weight_decay = 0.1}, {no_decay_below_two_dimensions()});
  const Tensor x = random_tokens(o.batch, o.context, device);
  const Tensor y = view(random_tokens(o.batch, o.context, device), {x.elements()});
  const Times times = times_of(o.steps, device, [&] {
    arena.zero_grad();
    Tensor logits = model(x);
    logits = view(logits, {x.elements(), logits.size(2)});
    // The last handle, as in training: the gradient is computed with the loss, in the logits' memory.
    cross_entropy(std::move(logits), y).backward();
    optimizer.step();
  });
  const double flops = 3 * forward_flops(model.options(), o.batch, o.context);
  ResultRow row{.name = "step of GPT-2 124M",
                .size = fmt::format("{} x {} {}", o.batch, o.context, name_of(dtype)),
                .flops = flops,
                .limit_seconds = flops / rate};
  times.add_to(row);
  return row;
}

/// Times the generation of tokens after a prompt of 16.
ResultRow time_tokens(const Options& o, Device device, DType dtype) {
  const double rate = copy_rate(device, large_copy_bytes(device));
  empty_cache(device);
  GPT model({});
  std::optional<ParameterArena> arena;  // also has memory for gradients
  if (device.is_cuda() || dtype != DType::f32) arena.emplace(model, device, dtype);
  model.eval();
  KVCache cache = model.make_cache(1, model.options().context);
  model.next(random_tokens(1, 16, device), cache);
  const Tensor token = random_tokens(1, 1, device);
  const Times times = times_of(o.tokens, device, [&] { model.next(token, cache); });
  const double bytes =
      static_cast<double>(parameter_count(model.options())) * static_cast<double>(size_of(dtype));
  ResultRow row{
      .name = "token of GPT-2 124M", .size = name_of(dtype), .bytes = bytes, .limit_seconds = bytes / rate};
  times.add_to(row);
  return row;
}

void benchmark(const Options& o) {
  const Device device = device_or_auto(o.device);
  const DType dtype = o.dtype.value_or(half_dtype(device));
  Results results("bench_gpt", device, o.json);
  manual_seed(1);
  std::vector<ResultRow> rows;
  if (o.steps > 0) rows.push_back(time_steps(o, device, dtype));
  if (o.tokens > 0) rows.push_back(time_tokens(o, device, dtype));
  for (const ResultRow& row : rows) {
    fmt::print("{}, {}: {:.2f} ms, {:.2f} times the limit\n", row.name, row.size, *row.seconds * 1e3,
               *row.seconds / *row.limit_seconds);
    results.add(row);
  }
  results.save();
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine app(
      "Times training steps of GPT-2 124M, and the generation of tokens, against the device's limit.");
  Options o;
  app.option("--device", o.device, kDeviceHelp);
  app.option("--dtype", dtype_value(o.dtype), "f32, bf16, f16 or auto");
  app.option("--batch-size", between(o.batch, 1, 4096), "sequences in a step");
  app.option("--context", between(o.context, 1, 1024), "tokens in a sequence, at most 1024");
  app.option("--steps", between(o.steps, 0, 10000), "training steps to time, after two to warm up; 0: none");
  app.option("--tokens", between(o.tokens, 0, 1000), "tokens to generate, after two to warm up; 0: none");
  app.file("--json", o.json, kJsonHelp);
  app.after_parsing([&o] {
    check(o.steps > 0 || o.tokens > 0, "--steps and --tokens: expected one of them above 0, found 0 and 0");
  });
  return app.run(argc, argv, [&] { benchmark(o); });
}
