#pragma once

#include "kernels/common/kernel.h"

/// cp.async: copies from global to shared memory while the thread computes (compute capability 8.0 and
/// later), and a model of them for the CPU.
namespace ringtape::RINGTAPE_TARGET {

/// One thread's copies in flight, in groups: call copy() for each, then commit(); after wait<N>() all groups
/// but the last N have arrived, for this thread. Other threads see them after a following barrier.
class AsyncCopies {
 public:
#if defined(__CUDACC__)
  /// Begins to copy 16 bytes. Both addresses are multiples of 16.
  __device__ __forceinline__ void copy(void* shared, const void* global) {
    const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
  }
  __device__ __forceinline__ void commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  template <int kGroupsLeft>
  __device__ __forceinline__ void wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kGroupsLeft) : "memory");
  }
#else
  // The model reads the source at once, but the copy arrives as late as possible, and until then the
  // destination holds NaN: a kernel that does not wait, or that begins a copy while others still read the old
  // values, computes NaN.
  void copy(void* shared, const void* global) {
#if defined(RINGTAPE_ANALYSIS)
    simt::note_copy_begins(shared, sizeof(Bytes));
#else
    __builtin_memset(shared, 0xff, sizeof(Bytes));
#endif
    copies_[count_++] = {static_cast<Bytes*>(shared), *static_cast<const volatile Bytes*>(global)};
    note_for_analysis(count_);
  }
  void commit() {
    group_ends_[groups_++] = count_;
  }
  template <int kGroupsLeft>
  void wait() {
    if (groups_ <= kGroupsLeft) return;
    const int arriving = groups_ - kGroupsLeft;
    const int arrived = group_ends_[arriving - 1];
    note_for_analysis(count_ - arrived);
    for (int i = 0; i < arrived; ++i) *static_cast<volatile Bytes*>(copies_[i].to) = copies_[i].value;
    for (int i = arrived; i < count_; ++i) copies_[i - arrived] = copies_[i];
    for (int i = arriving; i < groups_; ++i) group_ends_[i - arriving] = group_ends_[i] - arrived;
    count_ -= arrived;
    groups_ -= arriving;
  }

 private:
  static void note_for_analysis([[maybe_unused]] int under_way) {
#if defined(RINGTAPE_ANALYSIS)
    simt::note_copies_under_way(under_way);
#endif
  }

  using Bytes = unsigned __int128;  // volatile when moved: one access for the analysis to count
  struct Copy {
    Bytes* to;
    Bytes value;
  };
  static constexpr int kMostCopies = 32, kMostGroups = 8;
  Copy copies_[kMostCopies];
  int group_ends_[kMostGroups];
  int count_ = 0;
  int groups_ = 0;
#endif
};

}  // namespace ringtape::RINGTAPE_TARGET
