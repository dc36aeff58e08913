#include "lessons/touched.h"

#include <algorithm>

#include "core/error.h"
#include "kernels/ladders/ladders.h"
#include "kernels/simt/observer.h"

namespace ringtape {
namespace {

/// An access of the chosen block: the elements [first, first + count) of a matrix.
struct Access {
  int matrix;
  std::int64_t first, count;
  int phase;  // barriers that the block had passed
  int thread;
};

/// Notes the accesses of a launch to three matrices.
class Notes : public simt::Observer {
 public:
  Notes(const std::vector<ladders::TrialBuffer>& matrices, int element_bytes, const Watched& watched)
      : matrices_(matrices), element_bytes_(element_bytes), watched_(watched), totals_(matrices.size()) {
    active_ = this;
    simt::set_observer(this);  // one worker
    simt::access_hook = [](const void* memory, std::size_t bytes, bool) { active_->note(memory, bytes); };
  }
  ~Notes() override {
    simt::access_hook = nullptr;
    simt::set_observer(nullptr);
  }

  void block_begins() override {
    phase_ = 0;
    if (is_chosen()) threads_ = static_cast<int>(simt::blockDim.x * simt::blockDim.y);
  }
  void block_arrived(simt::SourceLocation) override { ++phase_; }

  const std::vector<Access>& accesses() const { return accesses_; }
  /// Elements of a matrix that all blocks access.
  std::int64_t total(int matrix) const { return totals_[static_cast<std::size_t>(matrix)]; }
  /// Threads in the chosen block; 0 if the launch has no such block.
  int threads() const { return threads_; }

 private:
  bool is_chosen() const {
    return static_cast<int>(simt::blockIdx.x) == watched_.block_x &&
           static_cast<int>(simt::blockIdx.y) == watched_.block_y;
  }

  void note(const void* memory, std::size_t bytes) {
    for (std::size_t m = 0; m < matrices_.size(); ++m) {
      const auto* begin = static_cast<const char*>(matrices_[m].data);
      const auto* at = static_cast<const char*>(memory);
      const int element = m == 2 ? 4 : element_bytes_;  // C is f32
      if (at < begin || at >= begin + matrices_[m].bytes) continue;
      const std::int64_t first = (at - begin) / element, count = static_cast<std::int64_t>(bytes) / element;
      totals_[m] += count;
      if (is_chosen()) accesses_.push_back({static_cast<int>(m), first, count, phase_, simt::thread_rank()});
    }
  }

  static inline Notes* active_ = nullptr;
  const std::vector<ladders::TrialBuffer>& matrices_;
  int element_bytes_;
  Watched watched_;
  std::vector<std::int64_t> totals_;
  std::vector<Access> accesses_;
  int phase_ = 0, threads_ = 0;
};

/// The phases in which the block reads A or B, in order.
std::vector<int> phases_with_reads(const std::vector<Access>& accesses) {
  std::vector<int> phases;
  for (const Access& access : accesses)
    if (access.matrix < 2) phases.push_back(access.phase);
  std::sort(phases.begin(), phases.end());
  phases.erase(std::unique(phases.begin(), phases.end()), phases.end());
  return phases;
}

}  // namespace

TouchedProduct watch_gemm(int version, int size, const Watched& watched) {
  const ladders::Trial trial = ladders::make_trial("gemm", size, {});
  check(version >= 1 && version <= static_cast<int>(trial.rungs.size()), "--rung: expected 1 to {}, found {}",
        trial.rungs.size(), version);
  const ladders::Rung& rung = trial.rungs[static_cast<std::size_t>(version - 1)];
  const bool low = rung.inputs == DType::bf16;
  const std::vector<ladders::TrialBuffer> matrices = {trial.memory[low ? 2 : 0], trial.memory[low ? 3 : 1],
                                                      trial.memory[4]};
  Notes notes(matrices, low ? 2 : 4, watched);
  trial.run(Stream::current({}), version);
  check(notes.threads() > 0, "--block: rung {} has no block {},{} at this size", version, watched.block_x,
        watched.block_y);
  check(watched.thread < notes.threads(), "--thread: a block of rung {} has {} threads, found {}", version,
        notes.threads(), watched.thread);
  const std::vector<int> phases = phases_with_reads(notes.accesses());
  const int steps = static_cast<int>(phases.size());
  check(watched.step < steps, "--step: rung {} has steps 0 to {} at this size, found {}", version, steps - 1,
        watched.step);

  TouchedProduct result{rung.name, size, notes.threads(), steps, {}};
  const auto elements = static_cast<std::size_t>(size) * static_cast<std::size_t>(size);
  for (const char* name : {"A", "B", "C"})
    result.matrices.push_back({name, std::vector(elements, Toucher::nobody), 0, 0, 0});
  std::vector<std::vector<bool>> seen(3, std::vector<bool>(elements));
  for (const Access& access : notes.accesses()) {
    const auto m = static_cast<std::size_t>(access.matrix);
    TouchedMatrix& matrix = result.matrices[m];
    const bool in_step =
        watched.step < 0 || m == 2 || access.phase == phases[static_cast<std::size_t>(watched.step)];
    const Toucher by = access.thread == watched.thread             ? Toucher::thread
                       : access.thread / 32 == watched.thread / 32 ? Toucher::warp
                                                                   : Toucher::block;
    matrix.block_accesses += access.count;
    for (std::int64_t i = access.first; i < access.first + access.count; ++i) {
      const auto element = static_cast<std::size_t>(i);
      matrix.block_elements += seen[m][element] ? 0 : 1;
      seen[m][element] = true;
      if (in_step) matrix.by[element] = std::max(matrix.by[element], by);
    }
  }
  for (int m = 0; m < 3; ++m) result.matrices[static_cast<std::size_t>(m)].all_accesses = notes.total(m);
  return result;
}

}  // namespace ringtape
