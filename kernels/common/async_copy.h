#pragma once

#include "kernels/common/kernel.h"

#if defined(RINGTAPE_ON_MODEL)
#include "kernels/common/check_alignment.h"
#endif

/// cp.async (compute capability 8.0 and later): a thread copies from global to shared memory while it
/// computes. For the CPU there is a model.
namespace ringtape::RINGTAPE_TARGET {

/// One thread's copies in flight, in groups: call copy() for each copy, then commit(). After wait<N>() all
/// groups but the last N have arrived, for this thread; other threads see them after a following barrier.
class AsyncCopies {
 public:
#if defined(__CUDACC__)
  /// Starts a copy of kBytes, 16 or 4. Both addresses must be multiples of kBytes. (Copies of 16 bytes bypass
  /// the L1 cache; copies of 4 bytes cannot.)
  template <int kBytes = 16>
  __device__ __forceinline__ void copy(void* shared, const void* global) {
    const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    if constexpr (kBytes == 16) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
    } else {
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(global) : "memory");
    }
  }
  /// The same, but reads only the first `valid` bytes (others need not exist) and writes zeros for the rest.
  template <int kBytes = 16>
  __device__ __forceinline__ void copy(void* shared, const void* global, int valid) {
    const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    if constexpr (kBytes == 16) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(valid)
                   : "memory");
    } else {
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(global), "r"(valid)
                   : "memory");
    }
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
  // destination holds NaN (for the analysis, a mark): a kernel that does not wait, or that starts a copy
  // while others still read the old values, computes NaN.
  template <int kBytes = 16>
  void copy(void* shared, const void* global) {
    begin({shared, *static_cast<const volatile Bytes<kBytes>*>(global), kBytes});
  }
  template <int kBytes = 16>
  void copy(void* shared, const void* global, int valid) {
    if (valid == kBytes) return copy<kBytes>(shared, global);
#if defined(RINGTAPE_ON_MODEL)
    if (valid != 0) check_alignment<Bytes<kBytes> >(global);
#endif
    Sixteen value = 0;
    __builtin_memcpy(&value, global, static_cast<std::size_t>(valid));
    begin({shared, value, kBytes});
  }
  void commit() {
    simt::check_in_flight(groups_, kMaxGroups, "groups of asynchronous copies");
    group_ends_[groups_++] = count_;
  }
  template <int kGroupsLeft>
  void wait() {
    if (groups_ <= kGroupsLeft) return;
    const int arriving = groups_ - kGroupsLeft;
    const int arrived = group_ends_[arriving - 1];
    note_for_analysis(count_ - arrived);
    for (int i = 0; i < arrived; ++i) copies_[i].arrive();
    for (int i = arrived; i < count_; ++i) copies_[i - arrived] = copies_[i];
    for (int i = arriving; i < groups_; ++i) group_ends_[i - arriving] = group_ends_[i] - arrived;
    count_ -= arrived;
    groups_ -= arriving;
  }

 private:
  // Moved as volatile values: the analysis counts one access for each.
  using Sixteen = unsigned __int128;
  using Four = std::uint32_t;
  template <int kBytes>
  using Bytes = std::conditional_t<kBytes == 16, Sixteen, Four>;
  struct Copy {
    void* to;
    Sixteen value;
    int bytes;

    void arrive() const {
      if (bytes == 16) {
        *static_cast<volatile Sixteen*>(to) = value;
      } else {
        *static_cast<volatile Four*>(to) = static_cast<Four>(value);
      }
    }
  };

  void begin(const Copy& copy) {
    simt::check_in_flight(count_, kMaxCopies, "asynchronous copies");
#if defined(RINGTAPE_ANALYSIS)
    simt::note_copy_begins(copy.to, static_cast<std::size_t>(copy.bytes));
#else
    __builtin_memset(copy.to, 0xff, static_cast<std::size_t>(copy.bytes));
#endif
    copies_[count_++] = copy;
    note_for_analysis(count_);
  }

  static void note_for_analysis([[maybe_unused]] int under_way) {
#if defined(RINGTAPE_ANALYSIS)
    simt::note_copies_under_way(under_way);
#endif
  }

  static constexpr int kMaxCopies = 64, kMaxGroups = 8;
  Copy copies_[kMaxCopies];
  int group_ends_[kMaxGroups];
  int count_ = 0;
  int groups_ = 0;
#endif
};

}  // namespace ringtape::RINGTAPE_TARGET
