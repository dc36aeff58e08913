#include "dist/compress_hook.h"

#include <utility>

#include "autograd/creation.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/stream.h"
#include "kernels/compress.h"

namespace ringtape {
namespace {

CompressionScale scale_of(const Communicator& ranks, const Tensor& largest) {
  return {largest.defined() ? largest.data<float>() : nullptr, ranks.size()};
}

}  // namespace

CompressHook::CompressHook(const ParameterArena& arena, DType dtype, bool error_feedback)
    : device_(arena.device()), dtype_(dtype) {
  check(dtype == DType::bf16 || dtype == DType::f16, "gradient compression: to {}, expected bf16 or f16",
        name_of(dtype));
  const MemoryScope scope(MemoryCategory::gradients);
  if (error_feedback) residual_ = zeros({arena.size()}, DType::f32, device_);
}

void CompressHook::launch(Communicator& ranks, const Tensor& bucket) {
  const MemoryScope scope(MemoryCategory::gradients);
  send_measured(ranks);
  sent_.push_back({bucket, {}, empty(bucket.shape(), dtype_, device_), {}});
  Sent& sent = sent_.back();
  if (dtype_ == DType::bf16) return send(ranks, sent);
  sent.largest = empty({1}, DType::f32, device_);
  largest_abs(Stream::current(device_), bucket.data<float>(), bucket.elements(), sent.largest.data<float>());
  sent.work = ranks.all_reduce(sent.largest, ReduceOp::max);
  last_waits_ = true;
}

void CompressHook::send_measured(Communicator& ranks) {
  if (!std::exchange(last_waits_, false)) return;
  sent_.back().work.wait();
  send(ranks, sent_.back());
}

void CompressHook::send(Communicator& ranks, Sent& sent) {
  float* const residual = residual_.defined() ? residual_.data<float>() + sent.bucket.offset() : nullptr;
  compress(Stream::current(device_), sent.bucket.data<float>(), sent.bucket.elements(),
           scale_of(ranks, sent.largest), residual, dtype_, sent.compressed.raw());
  sent.work = ranks.all_reduce(sent.compressed, ReduceOp::mean);
}

void CompressHook::wait(Communicator& ranks) {
  send_measured(ranks);
  for (const Sent& sent : std::exchange(sent_, {})) {
    sent.work.wait();
    decompress(Stream::current(device_), dtype_, sent.compressed.raw(), sent.bucket.elements(),
               scale_of(ranks, sent.largest), sent.bucket.data<float>());
  }
}

}  // namespace ringtape
