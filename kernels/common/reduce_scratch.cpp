#include "kernels/common/reduce_scratch.h"

#include <map>
#include <memory>

#include "core/memory.h"

namespace ringtape {

ReduceScratch* reduce_scratch(const Stream& stream) {
  // A launch on the CPU runs in the calling thread. Aligned like a GPU's memory, so that the analysis counts
  // the same sectors.
  alignas(256) static thread_local ReduceScratch on_host{};
  if (stream.device().is_cpu()) return &on_host;

  static thread_local std::map<void*, std::shared_ptr<void>> of_stream;
  std::shared_ptr<void>& scratch = of_stream[stream.native()];
  if (!scratch) {
    static const ReduceScratch zero{};
    const StreamScope scope(stream);  // the memory is used on this stream
    const MemoryScope category(MemoryCategory::workspace);
    scratch = allocate(stream.device(), sizeof(ReduceScratch));
    copy_bytes(scratch.get(), stream.device(), &zero, Device{}, sizeof(ReduceScratch));
  }
  return static_cast<ReduceScratch*>(scratch.get());
}

}  // namespace ringtape
