#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "kernels/simt/observer.h"
#include "kernels/simt/worker.h"

namespace ringtape::kernel_cases {

/// The shape of one launch.
struct RecordedLaunch {
  std::string kernel;  ///< without namespaces and parameters
  simt::dim3 grid, block;
  std::size_t shared_bytes = 0;  ///< dynamic
};

/// Records the launches of analysed kernels during its lifetime without running their threads: results are
/// not written, and work of any size takes no time.
class LaunchRecording final : public simt::Observer {
 public:
  LaunchRecording() { simt::set_observer(this); }
  ~LaunchRecording() override { simt::set_observer(nullptr); }
  LaunchRecording(const LaunchRecording&) = delete;
  LaunchRecording& operator=(const LaunchRecording&) = delete;

  /// Forgets the launches so far.
  void clear() { launches_.clear(); }
  /// The launches so far, in order.
  std::vector<RecordedLaunch> launches() const;

  bool runs_threads() const override { return false; }
  void launch_begins(const simt::Launch& launch) override {
    launches_.push_back({launch.kernel, launch.grid, launch.block, launch.shared_bytes});
  }

 private:
  struct Raw {
    const void* kernel;
    simt::dim3 grid, block;
    std::size_t shared_bytes;
  };
  std::vector<Raw> launches_;
};

}  // namespace ringtape::kernel_cases
