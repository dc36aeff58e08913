// Writes the launches of every kernel at the sizes at which it would be measured on a GPU: the shape of each
// launch, and its bytes. Needs no GPU. benchmarks/sass estimates times from them (docs/sass.md).
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "benchmarks/kernels/analyse.h"
#include "benchmarks/kernels/launch_recording.h"
#include "benchmarks/kernels/sizes.h"
#include "cli/command_line.h"
#include "core/error.h"
#include "core/tensor.h"
#include "io/file.h"
#include "io/json.h"
#include "kernels/gemm_tiled.h"
#include "kernels/ladders/ladders.h"

namespace {

using namespace ringtape;
using analysis::KernelReport;
using kernel_cases::Case;
using kernel_cases::LaunchRecording;
using kernel_cases::RecordedLaunch;
using kernel_cases::Setup;
using kernel_cases::Size;

/// Elements of the runs that count bytes. Few, because every access is recorded.
constexpr std::int64_t kCounted = 1 << 16;

/// The same work with at most about kCounted elements. Rows keep their length, so that the same kernels run.
Size small_size(const Size& size) {
  Size result = size;
  if (!size.lengths.empty()) {
    result.lengths = {std::min(size.lengths[0], kCounted)};
  } else {
    result.rows = std::clamp(kCounted / size.columns, std::int64_t{1}, size.rows);
  }
  return result;
}

Json to_json(simt::dim3 shape) {
  return Json::Array{shape.x, shape.y, shape.z};
}

/// The costs per element, as counted for work with `elements` elements: blocks; the bytes that must be read
/// and written at least, the bytes that requests ask for, and the bytes of the sectors that they touch;
/// requests of warps, and accesses of their lanes; sectors beyond the fewest possible; bytes of shared
/// memory, and cycles of its banks.
Json costs_of(const KernelReport& report, double elements) {
  double requested = 0, requests = 0, accesses = 0, scattered = 0, shared_bytes = 0, shared_cycles = 0;
  for (const analysis::LineCounts& line : report.lines) {
    if (line.space == analysis::Space::shared) {
      shared_bytes += static_cast<double>(line.bytes);
      shared_cycles += static_cast<double>(line.transactions);
    } else {
      requested += static_cast<double>(line.bytes);
      requests += static_cast<double>(line.requests);
      accesses += static_cast<double>(line.lanes);
      scattered += static_cast<double>(line.conflicts());
    }
  }
  const double blocks = static_cast<double>(report.grid.x) * report.grid.y * report.grid.z;
  return Json{{"blocks", blocks / elements},
              {"read", static_cast<double>(report.needed_read) / elements},
              {"written", static_cast<double>(report.needed_written) / elements},
              {"requested", requested / elements},
              {"requests", requests / elements},
              {"accesses", accesses / elements},
              {"moved", static_cast<double>(report.bytes_moved()) / elements},
              {"scattered", scattered / elements},
              {"shared", shared_bytes / elements},
              {"shared_cycles", shared_cycles / elements}};
}

/// The launches, each with the costs of the counted launch of the same kernel with the same number.
Json to_json(const std::vector<RecordedLaunch>& launches, const std::vector<KernelReport>& counted,
             double elements) {
  std::vector<bool> taken(counted.size());
  Json::Array result;
  for (const RecordedLaunch& launch : launches) {
    check(launch.kernel != "?", "a kernel has no name: expected debug information and addr2line (binutils)");
    Json row{{"kernel", launch.kernel},
             {"grid", to_json(launch.grid)},
             {"block", to_json(launch.block)},
             {"shared_bytes", launch.shared_bytes}};
    for (std::size_t i = 0; i < counted.size(); ++i) {
      if (taken[i] || counted[i].kernel != launch.kernel) continue;
      taken[i] = true;
      row["of_element"] = costs_of(counted[i], elements);
      break;
    }
    result.push_back(std::move(row));
  }
  return Json(std::move(result));
}

Json case_row(const Case& kernel, const std::string& size_text, const Size& size) {
  const Size small = small_size(size);
  const std::vector<KernelReport> counted = kernel_cases::analyse_size(kernel, small);
  LaunchRecording recording;
  Setup setup(Device{});
  kernel.prepare(setup, size);
  recording.clear();  // drops the launches that fill its memory
  setup.launch(Stream::current({}));
  return Json{{"name", kernel.row.empty() ? kernel.name : kernel.row},
              {"size", size_text},
              {"elements", size.elements()},
              {"columns", size.lengths.empty() ? size.columns : 0},
              {"bytes", kernel.bytes_by_elements(size)},  // like the costs, which are of a small size
              {"flops", kernel.flops_at(size)},
              {"launches", to_json(recording.launches(), counted, static_cast<double>(small.elements()))}};
}

/// A product of a linear layer: the text that ends a row's size, and which operands are transposed.
struct ProductForm {
  const char* suffix;
  bool transpose_a, transpose_b;
};
constexpr ProductForm kForms[] = {{"", false, false}, {", A B^T", false, true}, {", A^T B", true, false}};

/// Our own product of square matrices.
Json product_row(DType dtype, std::int64_t n, const ProductForm& form) {
  const Tensor a = empty({n, n}, dtype, {}), b = empty({n, n}, dtype, {}), c = empty({n, n}, dtype, {});
  GemmArgs args;
  args.m = args.n = args.k = args.lda = args.ldb = args.ldc = n;
  args.a = a.raw();
  args.b = b.raw();
  args.c = c.raw();
  args.dtype = args.out_dtype = dtype;
  args.transpose_a = form.transpose_a;
  args.transpose_b = form.transpose_b;
  LaunchRecording recording;
  gemm_tiled(Stream::current({}), args);
  const auto elements = static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  return Json{{"name", "gemm_tiled"},
              {"size", fmt::format("{0} x {0} x {0} {1}{2}", n, name_of(dtype), form.suffix)},
              {"elements", elements},
              {"bytes", 3.0 * static_cast<double>(n * n) * static_cast<double>(size_of(dtype))},
              {"flops", 2 * elements},
              {"launches", to_json(recording.launches(), {}, 1)}};
}

/// A kernel of attention and the number of tile products that it computes: queries by keys, weights by
/// values, and in the backward's passes those of the gradients.
struct TileProducts {
  const char *kernel, *name;
  int products;
};
constexpr TileProducts kTileProducts[] = {{"attention_forward", "attention_forward", 2},
                                          {"attention_backward", "attention_backward_queries", 3},
                                          {"attention_backward", "attention_backward_keys", 4}};

/// Causal attention of 96 heads of 64: 8 sequences with GPT-2's 12 heads. An element is a multiply-add of one
/// tile product; tiles on the diagonal are computed whole.
void add_attention(Json::Array& rows, std::int64_t tokens) {
  constexpr std::int64_t kHeads = 96, kWidth = 64;
  const double of_formula = static_cast<double>(kHeads * tokens * (tokens + 1) / 2 * kWidth);
  for (const auto& [case_name, kernel_name, products] : kTileProducts) {
    const Case& kernel = *kernel_cases::find_case(case_name);
    const std::vector<KernelReport> counted =
        kernel_cases::analyse_size(kernel, {.rows = 1, .columns = tokens * kWidth});
    LaunchRecording recording;
    Setup setup(Device{});
    kernel.prepare(setup, {.rows = kHeads, .columns = tokens * kWidth});
    recording.clear();
    setup.launch(Stream::current({}));
    std::vector<RecordedLaunch> launches = recording.launches();
    std::erase_if(launches,
                  [&](const RecordedLaunch& each) { return !each.kernel.starts_with(kernel_name); });
    check(launches.size() == 1, "{} is launched {} times, expected once", kernel_name, launches.size());
    const std::int64_t tiles = launches[0].grid.x / kHeads, tile = tokens / tiles;
    const auto of_head = static_cast<double>(tiles * (tiles + 1) / 2 * tile * tile * kWidth);
    const auto counted_kernel = std::find_if(counted.begin(), counted.end(), [&](const KernelReport& each) {
      return each.kernel == launches[0].kernel;
    });
    check(counted_kernel != counted.end(), "{} was not counted", launches[0].kernel);
    const auto bytes_of_head =
        static_cast<double>(counted_kernel->needed_read + counted_kernel->needed_written);
    Json row{{"name", kernel_name},
             {"size", fmt::format("{} heads, {} tokens of {}", kHeads, tokens, kWidth)},
             {"elements", kHeads * of_head},
             {"products", products},
             {"bytes", kHeads * bytes_of_head},
             {"flops", 2 * products * of_formula},
             {"launches", to_json(launches, counted, of_head)}};
    rows.push_back(std::move(row));
  }
}

/// The size for which a ladder's rungs are estimated, and the size at which their bytes are counted.
constexpr int kLadderSize = 4096, kCountedLadderSize = 256;

std::vector<KernelReport> count(const ladders::Trial& trial, int version) {
  analysis::Analysis analysis;
  for (const ladders::TrialBuffer& memory : trial.memory) {
    analysis.add_buffer(memory.name, memory.data, memory.bytes, memory.written);
  }
  trial.run(Stream::current({}), version);
  return analysis.reports();
}

void add_ladder(Json::Array& rows, const std::string& name) {
  const ladders::Trial small = ladders::make_trial(name, kCountedLadderSize, {});
  const ladders::Trial trial = ladders::make_trial(name, kLadderSize, {});
  // In a matrix product, an element is a multiply-add.
  const auto elements_at = [&](double n) { return trial.flops > 0 ? n * n * n : n * n; };
  for (int version = 1; version <= static_cast<int>(trial.rungs.size()); ++version) {
    const std::vector<KernelReport> counted = count(small, version);
    LaunchRecording recording;
    trial.run(Stream::current({}), version);
    rows.push_back(Json{
        {"name",
         fmt::format("{} {} {}", name, version, trial.rungs[static_cast<std::size_t>(version) - 1].name)},
        {"size", fmt::format("{0} x {0}", kLadderSize)},
        {"ladder", name},
        {"elements", elements_at(kLadderSize)},
        {"bytes", trial.bytes},
        {"flops", trial.flops},
        {"launches", to_json(recording.launches(), counted, elements_at(kCountedLadderSize))}});
  }
}

void write_launches(const std::string& path) {
  Json::Array rows;
  for (const kernel_cases::Measured measured : kernel_cases::kMeasured) {
    for (const auto& [text, size] : kernel_cases::sizes_of(measured, true)) {
      for (const Case& kernel : kernel_cases::cases()) {
        if (kernel.measured == measured) rows.push_back(case_row(kernel, text, size));
      }
    }
  }
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const ProductForm& form : kForms) rows.push_back(product_row(dtype, 4096, form));
  }
  add_attention(rows, 1024);
  for (const std::string& ladder : ladders::names()) {
    if (ladder != "attention") add_ladder(rows, ladder);  // attention's rungs have several kernels and forms
  }
  save_text(path, Json{{"rows", std::move(rows)}}.dump(1) + "\n");
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine app("Writes the launches of every kernel at the sizes at which a GPU would be measured.");
  std::string path;
  app.file("--json", path, "the file to write").required();
  return app.run(argc, argv, [&] { write_launches(path); });
}
