#include "kernels/analysis/cases/case.h"

#include <algorithm>

#include "core/error.h"
#include "core/philox.h"
#include "kernels/common/reduce_scratch.h"

namespace ringtape::analysed {
namespace {

/// Adds the scratch of kernels that end in one sum. Its counter is 0 between launches, so it counts as
/// written.
void add_scratch(analysis::Analysis& analysis) {
  const ReduceScratch* scratch = reduce_scratch(Stream::current({}));
  analysis.add_buffer("partial sums", scratch->partial, sizeof scratch->partial, false);
  analysis.add_buffer("count of blocks", &scratch->blocks_done, sizeof scratch->blocks_done, true);
}

}  // namespace

float* Setup::floats(const std::string& name, std::int64_t n) {
  std::vector<float> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = 0.25f + on_cpu::uniform_float(on_cpu::philox4x32_10(memory_.size(), i, 0).x);
  }
  return input(name, values);
}

void* Setup::add(const std::string& name, std::size_t bytes, bool written) {
  memory_.push_back({name, allocate(Device{}, bytes), bytes, written});
  return memory_.back().data.get();
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> result;
    for (const auto& part : {elementwise_cases(), reduction_cases(), loss_cases(), optimizer_cases(),
                             gradient_cases(), gemm_cases()}) {
      result.insert(result.end(), part.begin(), part.end());
    }
    return result;
  }();
  return all;
}

const Case* find_case(const std::string& name) {
  const auto found =
      std::find_if(cases().begin(), cases().end(), [&](const Case& each) { return each.name == name; });
  return found == cases().end() ? nullptr : &*found;
}

std::vector<analysis::KernelReport> analyse(const Case& kernel, std::int64_t size) {
  check(size > 0 && size <= kernel.most && size % kernel.multiple == 0,
        "{}: a size of {}, expected a multiple of {} up to {}", kernel.name, size, kernel.multiple,
        kernel.most);
  Setup setup;
  kernel.prepare(setup, size);
  analysis::Analysis analysis;
  for (const Setup::Memory& memory : setup.memory()) {
    analysis.add_buffer(memory.name, memory.data.get(), memory.bytes, memory.written);
  }
  add_scratch(analysis);
  setup.launch(Stream::current({}));
  return analysis.reports();
}

}  // namespace ringtape::analysed
