#include "benchmarks/kernels/launch_recording.h"

#include <cstdint>

#include "kernels/analysis/source_lines.h"

namespace ringtape::kernel_cases {

std::vector<RecordedLaunch> LaunchRecording::launches() const {
  std::vector<std::uintptr_t> addresses;
  for (const Raw& raw : launches_) addresses.push_back(reinterpret_cast<std::uintptr_t>(raw.kernel));
  const std::vector<analysis::CodeLocation> locations = analysis::locations_of(addresses);
  std::vector<RecordedLaunch> result;
  for (std::size_t i = 0; i < launches_.size(); ++i) {
    const Raw& raw = launches_[i];
    result.push_back({locations[i].function, raw.grid, raw.block, raw.shared_bytes});
  }
  return result;
}

}  // namespace ringtape::kernel_cases
