// Every kernel but GEMM: the bytes it must move, the time the device's copy rate allows for them, the time it
// takes and the ratio of the two. On the CPU some rows name a second time: a plain vectorised OpenMP loop for
// the same work.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>
#include <vector>

#include "autograd/creation.h"
#include "core/error.h"
#include "core/machine.h"
#include "core/memory.h"
#include "core/stream.h"
#include "core/tensor.h"
#include "kernels/adam.h"
#include "kernels/clip.h"
#include "kernels/cross_entropy.h"
#include "kernels/elementwise.h"
#include "kernels/lamb.h"
#include "kernels/lars.h"
#include "kernels/math.h"
#include "kernels/mse.h"
#include "kernels/random.h"
#include "kernels/reduce.h"
#include "kernels/relu.h"
#include "kernels/sgd.h"

namespace {

using namespace ringtape;
using Work = std::function<void()>;

/// Median seconds of one call over 21 rounds, each long enough to be timed well.
double seconds_of(Device device, const Work& work) {
  const Stream stream = Stream::current(device);
  Event start(device), stop(device);
  const auto run = [&](int repeats) {
    start.record(stream);
    for (int i = 0; i < repeats; ++i) work();
    stop.record(stream);
    return stop.elapsed_ms_since(start) * 1e-3 / repeats;
  };
  run(2);
  const int repeats = std::clamp(static_cast<int>(2e-3 / run(2)), 1, 1000);
  std::vector<double> times;
  for (int round = 0; round < 21; ++round) times.push_back(run(repeats));
  std::nth_element(times.begin(), times.begin() + 10, times.end());
  return times[10];
}

/// Prints the table's rows, against the copy rate measured at the start.
class Table {
 public:
  explicit Table(Device device) : device_(device) {
    const std::int64_t n = device.is_cpu() ? std::int64_t{1} << 26 : std::int64_t{1} << 28;
    const Tensor from = randn({n}, DType::f32, device), to = zeros({n}, DType::f32, device);
    const double seconds =
        seconds_of(device, [&] { scale(Stream::current(device), DType::f32, from.raw(), to.raw(), n, 1.0); });
    bytes_per_second_ = 2 * static_cast<double>(from.bytes()) / seconds;
    fmt::print("{}\ncopy rate (read and written): {:.1f} GB/s\n\n", describe(device),
               bytes_per_second_ / 1e9);
    fmt::print("{:<28} {:<18} {:>10} {:>11} {:>11} {:>8} {:>6} {:>11} {:>6}\n", "kernel", "size", "MB",
               "limit us", "us", "GB/s", "ratio", "loop us", "ratio");
  }

  /// `bytes`: what the work must move. `loop`: the same work as a plain loop, on the CPU.
  void row(const char* kernel, const std::string& size, double bytes, const Work& work,
           const Work& loop = {}) {
    const double seconds = seconds_of(device_, work);
    const double limit = bytes / bytes_per_second_;
    fmt::print("{:<28} {:<18} {:>10.2f} {:>11.2f} {:>11.2f} {:>8.1f} {:>6.2f}", kernel, size, bytes / 1e6,
               limit * 1e6, seconds * 1e6, bytes / seconds / 1e9, seconds / limit);
    rows_.push_back({{"kernel", kernel},
                     {"size", size},
                     {"megabytes", bytes / 1e6},
                     {"microseconds", seconds * 1e6},
                     {"limit_microseconds", limit * 1e6}});
    if (loop && device_.is_cpu()) {
      const double of_loop = seconds_of(device_, loop);
      fmt::print(" {:>11.2f} {:>6.2f}", of_loop * 1e6, seconds / of_loop);
      rows_.back()["loop_microseconds"] = of_loop * 1e6;
    }
    fmt::print("\n");
    std::fflush(stdout);
  }

  /// Writes the rows so far to a file.
  void save(const std::string& path) const {
    std::ofstream file(path);
    file << nlohmann::ordered_json{{"device", to_string(device_)},
                                   {"description", describe(device_)},
                                   {"copy_gb_per_s", bytes_per_second_ / 1e9},
                                   {"kernels", rows_}}
                .dump(2)
         << '\n';
    check(file.good(), "'{}' cannot be written", path);
  }

  Device device() const { return device_; }
  Stream stream() const { return Stream::current(device_); }

 private:
  Device device_;
  double bytes_per_second_ = 0;
  nlohmann::ordered_json rows_ = nlohmann::ordered_json::array();
};

// ---- plain loops ----

void loop_relu(const float* x, float* y, std::int64_t n) {
#pragma omp parallel for simd schedule(static)
  for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] <= 0 ? 0 : x[i];
}

void loop_mse(const float* p, const float* t, std::int64_t n, float* loss) {
  float sum = 0;
#pragma omp parallel for simd schedule(static) reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += (p[i] - t[i]) * (p[i] - t[i]);
  *loss = sum / static_cast<float>(n);
}

void loop_norm(const float* x, std::int64_t n, float* norm) {
  float sum = 0;
#pragma omp parallel for simd schedule(static) reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += x[i] * x[i];
  *norm = std::sqrt(sum);
}

void loop_adamw(float* w, const float* g, float* m, float* v, std::int64_t n) {
#pragma omp parallel for simd schedule(static)
  for (std::int64_t i = 0; i < n; ++i) {
    m[i] += 0.1f * (g[i] - m[i]);
    v[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];
    w[i] = 0.99999f * w[i] - 1e-3f * m[i] / (std::sqrt(v[i]) + 1e-8f);
  }
}

void loop_cross_entropy(const float* x, const std::int64_t* targets, std::int64_t rows, std::int64_t classes,
                        float* stats, float* loss) {
  float total = 0;
#pragma omp parallel for schedule(static) reduction(+ : total)
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* row = x + r * classes;
    float max = row[0], sum = 0;
#pragma omp simd reduction(max : max)
    for (std::int64_t j = 0; j < classes; ++j) max = row[j] > max ? row[j] : max;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t j = 0; j < classes; ++j) sum += on_cpu::softmax_exp(row[j] - max);
    stats[2 * r] = max;
    stats[2 * r + 1] = sum;
    total += std::log(sum) - (row[targets[r]] - max);
  }
  *loss = total / static_cast<float>(rows);
}

void loop_cross_entropy_backward(const float* x, const std::int64_t* targets, std::int64_t rows,
                                 std::int64_t classes, const float* stats, float* dx) {
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < rows; ++r) {
    const float scale_of_row = 1 / (stats[2 * r + 1] * static_cast<float>(rows));
#pragma omp simd
    for (std::int64_t j = 0; j < classes; ++j) {
      dx[r * classes + j] = scale_of_row * on_cpu::softmax_exp(x[r * classes + j] - stats[2 * r]);
    }
    dx[r * classes + targets[r]] -= 1 / static_cast<float>(rows);
  }
}

// ---- rows ----

void elementwise_rows(Table& table, std::int64_t n) {
  const Stream stream = table.stream();
  const Tensor a = randn({n}, DType::f32, table.device()), b = randn({n}, DType::f32, table.device());
  const Tensor y = zeros({n}, DType::f32, table.device());
  const double bytes = 4 * static_cast<double>(n);
  const std::string size = fmt::format("{} f32", n);
  table.row("fill", size, bytes, [&] { fill(stream, DType::f32, y.raw(), n, 1.0); });
  table.row("scale", size, 2 * bytes, [&] { scale(stream, DType::f32, a.raw(), y.raw(), n, 0.5); });
  table.row("add", size, 3 * bytes, [&] { add(stream, DType::f32, a.raw(), b.raw(), y.raw(), n); });
  table.row("axpy", size, 3 * bytes, [&] { axpy(stream, DType::f32, 1e-6, a.raw(), y.raw(), n); });
  table.row("multiply", size, 3 * bytes,
            [&] { multiply(stream, DType::f32, a.raw(), b.raw(), y.raw(), n, false); });
  table.row("cast to bf16", size, 1.5 * bytes,
            [&] { cast(stream, DType::f32, a.raw(), DType::bf16, y.raw(), n, false); });
  table.row("uniform", size, bytes,
            [&] { uniform(stream, DType::f32, y.raw(), n, 0.0f, 1.0f, std::uint64_t{1}, std::uint64_t{0}); });
  table.row("normal", size, bytes,
            [&] { normal(stream, DType::f32, y.raw(), n, 0.0f, 1.0f, std::uint64_t{1}, std::uint64_t{0}); });
  table.row(
      "relu_forward", size, 2 * bytes, [&] { relu_forward(stream, DType::f32, a.raw(), y.raw(), n); },
      [&] { loop_relu(a.data<float>(), y.data<float>(), n); });
  table.row("relu_backward", size, 3 * bytes,
            [&] { relu_backward(stream, DType::f32, a.raw(), b.raw(), y.raw(), n, false); });

  const Tensor loss = zeros({}, DType::f32, table.device()), one = ones({}, DType::f32, table.device());
  const double mean = 1 / static_cast<double>(n);
  table.row(
      "mse_forward", size, 2 * bytes,
      [&] { mse_forward(stream, DType::f32, a.raw(), b.raw(), n, mean, loss.raw()); },
      [&] { loop_mse(a.data<float>(), b.data<float>(), n, loss.data<float>()); });
  table.row("mse_backward", size, 3 * bytes,
            [&] { mse_backward(stream, DType::f32, a.raw(), b.raw(), one.raw(), n, mean, y.raw(), false); });
  const std::int64_t rows = n / 1024;
  table.row("sum_dim, everything", size, bytes, [&] {
    sum_dim(stream, DType::f32, a.raw(), std::int64_t{1}, n, std::int64_t{1}, 1.0, DType::f32, loss.raw(),
            false);
  });
  table.row("sum_dim, rows", fmt::format("{} x 1024 f32", rows), bytes, [&] {
    sum_dim(stream, DType::f32, a.raw(), rows, std::int64_t{1024}, std::int64_t{1}, 1.0, DType::f32, y.raw(),
            false);
  });
  table.row("sum_dim, columns", fmt::format("{} x 1024 f32", rows), bytes, [&] {
    sum_dim(stream, DType::f32, a.raw(), std::int64_t{1}, rows, std::int64_t{1024}, 1.0, DType::f32, y.raw(),
            false);
  });
}

void cross_entropy_rows(Table& table, std::int64_t rows, std::int64_t classes, DType dtype) {
  const Stream stream = table.stream();
  const std::int64_t n = rows * classes;
  const Tensor logits = randn({n}, dtype, table.device()), gradient = zeros({n}, dtype, table.device());
  std::vector<std::int64_t> classes_of_rows;
  for (std::int64_t r = 0; r < rows; ++r) classes_of_rows.push_back(r * 7919 % classes);
  const Tensor targets = from_vector(classes_of_rows, {rows}, table.device());
  const Tensor stats = zeros({2 * rows}, DType::f32, table.device()),
               loss = zeros({}, DType::f32, table.device());
  const Tensor count = zeros({}, DType::f32, table.device()), one = ones({}, DType::f32, table.device());
  const Tensor invalid = zeros({1}, DType::i32, table.device());
  const Tensor correct = zeros({}, DType::i64, table.device());
  const CrossEntropyProblem problem{dtype,
                                    DType::i64,
                                    targets.raw(),
                                    rows,
                                    classes,
                                    -100,
                                    0,
                                    count.data<float>(),
                                    invalid.data<std::int32_t>()};
  const auto count_rows = [&] {
    count_targets(stream, DType::i64, targets.raw(), rows, std::int64_t{-100}, count.data<float>());
  };
  const auto forward = [&] {
    count_rows();
    cross_entropy_forward(stream, problem, logits.raw(), stats.raw(), nullptr, loss.raw());
  };
  const auto backward = [&] {
    cross_entropy_backward(stream, problem, logits.raw(), stats.raw(), one.raw(), gradient.raw(), false);
  };
  const double bytes = static_cast<double>(logits.bytes());
  const std::string size = fmt::format("{} x {} {}", rows, classes, name_of(dtype));
  Work loop_forward, loop_backward;
  if (dtype == DType::f32) {
    loop_forward = [&] {
      loop_cross_entropy(logits.data<float>(), targets.data<std::int64_t>(), rows, classes,
                         stats.data<float>(), loss.data<float>());
    };
    loop_backward = [&] {
      loop_cross_entropy_backward(logits.data<float>(), targets.data<std::int64_t>(), rows, classes,
                                  stats.data<float>(), gradient.data<float>());
    };
  }
  table.row("cross_entropy_forward", size, bytes, forward, loop_forward);
  table.row("cross_entropy_backward", size, 2 * bytes, backward, loop_backward);
  table.row("cross_entropy, two passes", size, 3 * bytes, [&] {
    forward();
    backward();
  });
  // The logits turn into gradients of gradients: other numbers, the same work.
  table.row("cross_entropy_fused", size, 2 * bytes, [&] {
    count_rows();
    cross_entropy_fused(stream, problem, logits.raw(), loss.raw());
  });
  table.row("count_correct", size, bytes,
            [&] { count_correct(stream, problem, gradient.raw(), correct.data<std::int64_t>(), false); });
}

template <class T>
Tensor upload(const std::vector<T>& values, Device device) {
  Tensor bytes = empty({static_cast<std::int64_t>(values.size() * sizeof(T))}, DType::u8, device);
  copy_bytes(bytes.raw(), device, values.data(), Device{}, bytes.bytes());
  return bytes;
}

/// Lengths of GPT-2's 148 parameters (124M), as torch.nn.Module.parameters() would list them.
std::vector<std::int64_t> gpt2_lengths() {
  constexpr std::int64_t kWidth = 768, kVocabulary = 50257, kContext = 1024, kLayers = 12;
  std::vector<std::int64_t> lengths = {kVocabulary * kWidth, kContext * kWidth};
  for (std::int64_t layer = 0; layer < kLayers; ++layer) {
    for (const auto& [in, out] : {std::pair(kWidth, 3 * kWidth), std::pair(kWidth, kWidth),
                                  std::pair(kWidth, 4 * kWidth), std::pair(4 * kWidth, kWidth)}) {
      lengths.insert(lengths.end(), {in * out, out});
    }
    lengths.insert(lengths.end(), 4, kWidth);  // two normalisations
  }
  lengths.insert(lengths.end(), 2, kWidth);
  return lengths;
}

/// Parameters of these lengths in one arena, cut into tiles.
std::vector<Tile> tiles_of(const std::vector<std::int64_t>& lengths, std::int64_t& arena_length) {
  std::vector<Tile> tiles;
  arena_length = 0;
  for (std::size_t p = 0; p < lengths.size(); ++p) {
    for (std::int64_t first = 0; first < lengths[p]; first += kTileElements) {
      tiles.push_back({arena_length + first,
                       static_cast<std::int32_t>(std::min<std::int64_t>(kTileElements, lengths[p] - first)),
                       static_cast<std::int32_t>(p)});
    }
    arena_length += (lengths[p] + kTileAlignment - 1) / kTileAlignment * kTileAlignment;
  }
  return tiles;
}

/// Norms and optimizer steps over parameters of these lengths.
void arena_rows(Table& table, const std::string& size, const std::vector<std::int64_t>& lengths) {
  const Stream stream = table.stream();
  const Device device = table.device();
  std::int64_t n = 0;
  const std::vector<Tile> tiles = tiles_of(lengths, n);
  const auto count = static_cast<std::int64_t>(lengths.size());
  const Tensor table_of_tiles = upload(tiles, device),
               present = upload(std::vector<std::uint8_t>(lengths.size(), 1), device);
  const Tensor options = upload(std::vector<ParameterOptions>(lengths.size(), {1.0f, 0.01f, 1}), device);
  const Tensor steps = zeros({count}, DType::i64, device);
  const Tensor coefficients = empty({count * 16}, DType::u8, device);
  static_assert(sizeof(AdamCoefficients) == 16 && sizeof(SgdCoefficients) == 16 &&
                sizeof(LambCoefficients) == 16);
  const Tensor tile_norms = upload(std::vector<SquaredNorms>(tiles.size()), device);
  const Tensor norms = upload(std::vector<SquaredNorms>(lengths.size()), device);
  const Tensor values = randn({n}, DType::f32, device);
  const Tensor gradients = randn({n}, DType::f32, device);
  const Tensor first = zeros({n}, DType::f32, device);
  const Tensor second = zeros({n}, DType::f32, device);
  const Tensor rate = full({}, 1e-3, DType::f32, device), norm = zeros({3}, DType::f32, device);
  auto* const result = static_cast<GradientNorm*>(norm.raw());
  ArenaView arena{};
  arena.values = values.data<float>();
  arena.gradients = gradients.data<float>();
  arena.tiles = static_cast<const Tile*>(table_of_tiles.raw());
  arena.tile_count = static_cast<std::int64_t>(tiles.size());
  arena.parameter_count = count;
  arena.options = static_cast<const ParameterOptions*>(options.raw());
  arena.present = present.data<std::uint8_t>();
  arena.learning_rate = rate.data<float>();
  arena.clip_factor = &result->clip_factor;
  auto* const norms_of_tiles = static_cast<SquaredNorms*>(tile_norms.raw());
  auto* const norms_of_parameters = static_cast<SquaredNorms*>(norms.raw());

  const double bytes =
      4 * static_cast<double>(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}));
  const auto take_norm = [&](double norm_type) {
    gradient_norm(stream,
                  GradientNormProblem{arena.gradients, arena.tiles, arena.tile_count, arena.present,
                                      norm_type, 1.0f, nullptr},
                  result);
  };
  table.row(
      "gradient_norm", size, bytes, [&] { take_norm(2); },
      [&] { loop_norm(gradients.data<float>(), n, norm.data<float>()); });
  table.row("gradient_norm, largest", size, bytes, [&] { take_norm(INFINITY); });
  take_norm(2);
  const auto adamw = [&](const ArenaView& view) {
    adam_step(stream, AdamStep{view, first.data<float>(), second.data<float>(), steps.data<std::int64_t>(),
                               static_cast<AdamCoefficients*>(coefficients.raw()), 0.9, 0.999, 1e-8, true});
  };
  table.row(
      "adam_step (AdamW, clip)", size, 7 * bytes, [&] { adamw(arena); },
      [&] {
        loop_adamw(values.data<float>(), gradients.data<float>(), first.data<float>(), second.data<float>(),
                   n);
      });
  const Tensor copy = empty({n}, DType::bf16, device);
  ArenaView with_copy = arena;
  with_copy.low_precision = copy.raw();
  with_copy.low_precision_dtype = DType::bf16;
  table.row("adam_step (AdamW, bf16 copy)", size, 7.5 * bytes, [&] { adamw(with_copy); });
  const LambStep lamb{arena,
                      first.data<float>(),
                      second.data<float>(),
                      steps.data<std::int64_t>(),
                      static_cast<LambCoefficients*>(coefficients.raw()),
                      norms_of_tiles,
                      norms_of_parameters,
                      0.9,
                      0.999,
                      1e-6,
                      LambDebias::in_norm,
                      0,
                      INFINITY};
  table.row("lamb_norms, lamb_values (clip)", size, 10 * bytes, [&] {
    lamb_norms(stream, lamb);
    lamb_values(stream, lamb);
  });
  table.row("sgd_step (momentum, clip)", size, 5 * bytes, [&] {
    sgd_step(stream, SgdStep{arena, first.data<float>(), steps.data<std::int64_t>(),
                             static_cast<SgdCoefficients*>(coefficients.raw()), 0.9, 0, false});
  });
  const LarsStep lars{arena, first.data<float>(), norms_of_tiles, norms_of_parameters, 0.9, 1e-3, 1e-8};
  table.row("lars_norms, lars_values (clip)", size, 7 * bytes, [&] {
    lars_norms(stream, lars);
    lars_values(stream, lars);
  });
}

void run(Device device, const std::string& json) {
  Table table(device);
  const std::int64_t large = device.is_cpu() ? std::int64_t{1} << 24 : std::int64_t{1} << 28;
  elementwise_rows(table, large);
  cross_entropy_rows(table, 64, 10, DType::f32);
  cross_entropy_rows(table, std::int64_t{1} << 20, 10, DType::f32);
  cross_entropy_rows(table, device.is_cpu() ? 8192 : 65536, 1000, DType::f32);
  cross_entropy_rows(table, device.is_cpu() ? 256 : 8192, 50304, DType::f32);
  cross_entropy_rows(table, device.is_cpu() ? 256 : 8192, 50304, DType::bf16);
  arena_rows(table, fmt::format("1 x {}", large), {large});
  arena_rows(table, "1000 x 1000", std::vector<std::int64_t>(1000, 1000));
  arena_rows(table, "148 of GPT-2", gpt2_lengths());
  if (!json.empty()) table.save(json);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Times of Ringtape's kernels beside what the memory allows"};
  std::string device = "auto", json;
  app.add_option("--device", device, "cpu, cuda:N or auto")->capture_default_str();
  app.add_option("--json", json, "also write the rows to this file");
  CLI11_PARSE(app, argc, argv);
  try {
    run(Device::parse(device), json);
  } catch (const Error& error) {
    fmt::print(stderr, "bench_kernels: {}\n", error.what());
    return 1;
  }
}
