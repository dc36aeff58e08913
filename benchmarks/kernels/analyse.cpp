#include "benchmarks/kernels/analyse.h"

#include <algorithm>
#include <map>

#include "core/error.h"
#include "kernels/common/reduce_scratch.h"

namespace ringtape::kernel_cases {
namespace {

/// Adds the scratch memory of kernels that reduce to one sum. Its counters are 0 between launches, so they
/// count as written.
void add_scratch(analysis::Analysis& analysis) {
  const ReduceScratch* scratch = reduce_scratch(Stream::current({}));
  analysis.add_buffer("partial sums", scratch->partial, sizeof scratch->partial, false);
  analysis.add_buffer("count of blocks", &scratch->blocks_done, sizeof scratch->blocks_done, true);
  analysis.add_buffer("counts of groups", scratch->of_group_done, sizeof scratch->of_group_done, true);
}

/// Adds the memory of the case, and the memory of library classes that it uses, such as an arena or an
/// optimizer. The latter counts as written, except for workspace.
void add_memory(analysis::Analysis& analysis, const Setup& setup, const std::vector<MemoryEvent>& events) {
  std::map<const void*, MemoryEvent> live;
  for (const MemoryEvent& event : events) {
    if (event.bytes > 0) {
      live.insert_or_assign(event.block, event);
    } else {
      live.erase(event.block);
    }
  }
  for (const Setup::Memory& memory : setup.memory()) {
    analysis.add_buffer(memory.name, memory.data.get(), memory.bytes, memory.written);
    live.erase(memory.data.get());
  }
  for (const auto& [block, event] : live) {
    analysis.add_buffer(name_of(event.category), block, static_cast<std::size_t>(event.bytes),
                        event.category != MemoryCategory::workspace);
  }
}

}  // namespace

const std::vector<Case>& analysed_cases() {
  static const std::vector<Case> analysed = [] {
    std::vector<Case> result = cases();
    std::erase_if(result, [](const Case& each) { return each.does.empty(); });
    return result;
  }();
  return analysed;
}

const Case* find_case(const std::string& name) {
  const std::vector<Case>& all = analysed_cases();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Case& each) { return each.name == name; });
  return found == all.end() ? nullptr : &*found;
}

Size size_of_case(const Case& kernel, std::int64_t n) {
  return {.rows = n / kernel.columns, .columns = kernel.columns};
}

std::vector<analysis::KernelReport> analyse(const Case& kernel, std::int64_t n) {
  check(n > 0 && n <= kernel.most && n % kernel.columns == 0,
        "{}: a size of {}, expected a multiple of {} up to {}", kernel.name, n, kernel.columns, kernel.most);
  return analyse_size(kernel, size_of_case(kernel, n));
}

std::vector<analysis::KernelReport> analyse_size(const Case& kernel, const Size& size) {
  MemoryRecording allocated(Device{});
  Setup setup(Device{});
  kernel.prepare(setup, size);
  allocated.stop();
  analysis::Analysis analysis;
  add_memory(analysis, setup, allocated.events());
  add_scratch(analysis);
  setup.launch(Stream::current({}));
  return analysis.reports();
}

}  // namespace ringtape::kernel_cases
