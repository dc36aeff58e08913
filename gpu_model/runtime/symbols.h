#pragma once

#include <cstddef>
#include <string>

/// Names for addresses of this program's code, from the symbol table of its file, which also has functions
/// with internal linkage (dladdr() does not find them).
namespace gpu_model {

/// The mangled name of the function at or around `address`; "" if it is not known.
std::string symbol_at(const void* address);
/// "ringtape::on_cuda::relu_forward", without its namespaces' "(anonymous namespace)", arguments and return
/// type.
std::string function_at(const void* address);
/// "ringtape::copy_bytes_async at core/memory.cpp:351": for a return address. Gets the line from addr2line.
std::string place_of(const void* return_address);

/// Bytes of __shared__ variables of the kernel at `entry`: the thread_local statics of the function, and of
/// the helpers in its source file, such as block_reduce's, which it is assumed to call. (A kernel is in an
/// unnamed namespace, a helper is not.)
std::size_t static_shared_bytes(const void* entry);

}  // namespace gpu_model
