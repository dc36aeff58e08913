#include "dist/compress_hook.h"

#include <algorithm>
#include <string>
#include <utility>

#include "autograd/creation.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/stream.h"
#include "kernels/compress.h"
#include "kernels/pointwise.h"

namespace ringtape {
namespace {

CompressionScale scale_of(const Communicator& comm, const Tensor& largest) {
  return {largest.defined() ? largest.data<float>() : nullptr, comm.size()};
}

std::string residual_name(const ArenaEntry& entry) {
  return "residual." + entry.name;
}

/// The residuals of one parameter, [world_size, elements], from the saved residuals of a run with the same or
/// another number of ranks.
Tensor residuals_for(int world_size, const ArenaEntry& entry, const std::vector<NamedTensor>& saved) {
  const auto found = std::find_if(saved.begin(), saved.end(), [&](const NamedTensor& candidate) {
    return candidate.name == residual_name(entry);
  });
  check(found != saved.end(), "gradient compression: found no {}", residual_name(entry));
  const Tensor& before = found->tensor;
  check(before.dtype() == DType::f32 && before.dims() == 2 && before.size(0) > 0 &&
            before.size(1) == entry.elements,
        "gradient compression: {} is {}, expected f32[ranks, {}]", found->name, describe(before),
        entry.elements);
  if (before.size(0) == world_size) return before;
  const Tensor after = empty({world_size, entry.elements});
  const float* const from = before.data<float>();
  for (std::int64_t i = 0; i < entry.elements; ++i) {
    double sum = 0;
    for (std::int64_t rank = 0; rank < before.size(0); ++rank) sum += from[rank * entry.elements + i];
    const auto mean = static_cast<float>(sum / static_cast<double>(before.size(0)));
    for (int rank = 0; rank < world_size; ++rank) after.data<float>()[rank * entry.elements + i] = mean;
  }
  return after;
}

}  // namespace

CompressHook::CompressHook(const ParameterArena& arena, DType dtype, bool error_feedback)
    : arena_(arena), device_(arena.device()), dtype_(dtype) {
  check(dtype == DType::bf16 || dtype == DType::f16, "gradient compression: to {}, expected bf16 or f16",
        name_of(dtype));
  const MemoryScope scope(MemoryCategory::gradients);
  if (error_feedback) residual_ = zeros({arena.size()}, DType::f32, device_);
}

float* CompressHook::residual_of(const Tensor& bucket) const {
  return residual_.defined() ? residual_.data<float>() + bucket.offset() : nullptr;
}

void CompressHook::launch(Communicator& comm, const Tensor& bucket) {
  const MemoryScope scope(MemoryCategory::gradients);
  send_measured(comm);
  sent_.push_back({bucket, {}, empty(bucket.shape(), dtype_, device_), {}});
  Sent& sent = sent_.back();
  if (dtype_ == DType::bf16) return send(comm, sent);
  sent.largest = empty({1}, DType::f32, device_);
  const Stream stream = Stream::current(device_);
  largest_abs(stream, bucket.data<float>(), bucket.elements(), sent.largest.data<float>());
  if (const float* const residual = residual_of(bucket)) {
    const Tensor of_residual = empty({1}, DType::f32, device_);
    largest_abs(stream, residual, bucket.elements(), of_residual.data<float>());
    axpy(stream, DType::f32, 1.0, of_residual.raw(), sent.largest.raw(), 1);
  }
  sent.work = comm.all_reduce(sent.largest, ReduceOp::max);
  last_waits_ = true;
}

void CompressHook::send_measured(Communicator& comm) {
  if (!std::exchange(last_waits_, false)) return;
  sent_.back().work.wait();
  send(comm, sent_.back());
}

void CompressHook::send(Communicator& comm, Sent& sent) {
  compress(Stream::current(device_), sent.bucket.data<float>(), sent.bucket.elements(),
           scale_of(comm, sent.largest), residual_of(sent.bucket), dtype_, sent.compressed.raw());
  sent.work = comm.all_reduce(sent.compressed, ReduceOp::mean);
}

void CompressHook::wait(Communicator& comm) {
  send_measured(comm);
  for (const Sent& sent : std::exchange(sent_, {})) {
    sent.work.wait();
    decompress(Stream::current(device_), dtype_, sent.compressed.raw(), sent.bucket.elements(),
               scale_of(comm, sent.largest), sent.bucket.data<float>());
  }
}

std::vector<NamedTensor> CompressHook::gather_residuals(Communicator& comm) const {
  std::vector<NamedTensor> residuals;
  if (!residual_.defined()) return residuals;
  const bool is_root = comm.rank() == 0;
  for (const ArenaEntry& entry : arena_.entries()) {
    const Tensor own = residual_.alias({entry.elements}, entry.offset);
    const Tensor all = is_root ? empty({comm.size(), entry.elements}, DType::f32, device_) : Tensor();
    comm.gather(own, all, 0).wait();
    if (is_root) residuals.push_back({residual_name(entry), copy_to(all, Device{})});
  }
  return residuals;
}

void CompressHook::scatter_residuals(Communicator& comm, const std::vector<NamedTensor>& residuals) {
  check(residual_.defined(), "gradient compression: residuals were given to a hook without error feedback");
  for (const ArenaEntry& entry : arena_.entries()) {
    const Tensor all =
        comm.rank() == 0 ? copy_to(residuals_for(comm.size(), entry, residuals), device_) : Tensor();
    comm.scatter(all, residual_.alias({entry.elements}, entry.offset), 0).wait();
  }
}

}  // namespace ringtape
