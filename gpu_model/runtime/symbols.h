#pragma once

#include <cstddef>
#include <string>

/// Names for addresses of this program's code, from the symbol table of its file, which has functions with
/// internal linkage too (dladdr() knows none of those).
namespace gpu_model {

/// The mangled name of the function at or around `address`; "" where it is not known.
std::string symbol_at(const void* address);
/// "ringtape::on_cuda::relu_forward", without its namespaces' "(anonymous namespace)", arguments and return
/// type.
std::string function_at(const void* address);
/// "ringtape::copy_bytes_async at core/memory.cpp:351": for an address that a call returns to. Asks addr2line
/// for the line.
std::string place_of(const void* return_address);

/// Bytes of __shared__ variables of the kernel at `entry`: the thread_local statics of the function, and of
/// the helpers in its source file, such as block_reduce's, which it is taken to call. (A kernel stands in an
/// unnamed namespace, a helper does not.)
std::size_t static_shared_bytes(const void* entry);

}  // namespace gpu_model
