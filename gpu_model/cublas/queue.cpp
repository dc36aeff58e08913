#include "gpu_model/cublas/queue.h"

#include <string>
#include <utility>

#include "gpu_model/runtime/races.h"
#include "gpu_model/runtime/stream.h"
#include "gpu_model/runtime/symbols.h"

namespace gpu_model {
namespace {

/// The error that would stop a GPU; `error` is cudaSuccess if there is none.
struct Fault {
  cudaError_t error = cudaSuccess;
  std::string text{};
};

Fault illegal(std::string text) {
  return {cudaErrorIllegalAddress, std::move(text)};
}

/// The fault of an operand in a stream of `device`. With the mutex held.
Fault fault_of(const Operand& operand, int device) {
  const auto [begin, bytes] = operand.range;
  if (bytes == 0) return {};
  if (begin == nullptr) return illegal("is null");
  if (reinterpret_cast<std::uintptr_t>(begin) % operand.alignment != 0) {
    return {cudaErrorMisalignedAddress,
            "is not at a multiple of " + std::to_string(operand.alignment) + " bytes"};
  }
  const int owner = memory_device(begin);
  if (owner < 0) {
    if (state().pinned.find(begin, bytes).second != nullptr) return {};
    return illegal("is host memory that is not pinned");
  }
  const auto [address, block] = state().devices[static_cast<std::size_t>(owner)]->pool->find(begin);
  if (block == nullptr || block->history == nullptr) return illegal("is memory that was never allocated");
  const BlockHistory& allocation = *block->history;
  if (block->is_free) return illegal("is freed: " + describe(allocation));
  if (owner != device) {
    return illegal("is " + describe(allocation) + " of device " + std::to_string(owner) +
                   ", the stream's device is " + std::to_string(device));
  }
  const std::size_t before = reinterpret_cast<std::uintptr_t>(begin) - address;
  if (before + bytes <= allocation.requested) return {};
  return illegal("begins at byte " + std::to_string(before) + " of " + describe(allocation) +
                 ", which is too short");
}

/// Takes the place of a faulty product in its stream: the work before it runs as usual.
Operation operation_of(const Fault& fault, const ProductCall& call) {
  Operation operation;
  operation.name = call.name;
  operation.caller = call.caller;
  operation.run = [error = fault.error, device = static_cast<std::size_t>(call.device)] {
    state().devices[device]->sticky = error;
    return Progress::done;
  };
  return operation;
}

Operation operation_of(Product product, const std::vector<Operand>& operands, const ProductCall& call) {
  Operation operation;
  operation.name = call.name;
  operation.caller = call.caller;
  for (const Operand& operand : operands) {
    if (operand.range.bytes == 0) continue;
    (operand.written ? operation.writes : operation.reads).push_back(operand.range);
  }
  const auto map = []<class T>(T*& address) {
    if (address != nullptr) address = reinterpret_cast<T*>(for_operations(address));
  };
  map(product.a), map(product.b), map(product.c);
  map(product.bias), map(product.bias_gradient);
  map(product.alpha.device), map(product.beta.device);
  operation.run = [product] {
    multiply(product);
    return Progress::done;
  };
  return operation;
}

/// Reports the first operand with a fault.
Fault find_fault(const std::vector<Operand>& operands, const ProductCall& call) {
  const Lock lock(state().mutex);
  for (const Operand& operand : operands) {
    Fault fault = fault_of(operand, call.device);
    if (fault.error == cudaSuccess) continue;
    report(std::string(call.name) + " (queued in " + place_of(call.caller) + ") needs " +
           std::to_string(operand.range.bytes) + " bytes for " + operand.name + ", which " + fault.text);
    return fault;
  }
  return {};
}

/// Reports a result that overlaps with an operand: an implementation may write parts of C before it has read
/// all of A and B.
void check_aliases(const Product& product, const ProductCall& call) {
  const auto check = [&](const char* name, const void* operand, const Layout& layout) {
    if (!overlap(operand, layout, product.c, product.c_layout)) return;
    const Lock lock(state().mutex);
    report(std::string(call.name) + " (queued in " + place_of(call.caller) + "): C overlaps with " + name);
  };
  check("A", product.a, product.a_layout);
  check("B", product.b, product.b_layout);
}

}  // namespace

cublasStatus_t queue_product(const Product& product, const ProductCall& call) {
  // "The cuBLAS library context is tied to the CUDA context that was current at the time of cublasCreate()."
  if (call.device != current_device() || call.device != device_of(call.stream)) {
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  std::vector<Operand> operands = operands_of(product);
  operands.push_back({"the workspace", call.workspace, 1, true});
  check_aliases(product, call);
  const Fault fault = find_fault(operands, call);
  Operation operation =
      fault.error == cudaSuccess ? operation_of(product, operands, call) : operation_of(fault, call);
  return enqueue(call.stream, std::move(operation)) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                                   : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // namespace gpu_model
