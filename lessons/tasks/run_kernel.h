#pragma once

#include <type_traits>

#include "kernels/simt/executor.h"

namespace ringtape::tasks {

/// Runs a learner's kernel on the executor.
template <class... Parameters>
void run_kernel(void (*kernel)(Parameters...), simt::dim3 grid, simt::dim3 block,
                std::type_identity_t<Parameters>... arguments) {
  const auto call = [=] { kernel(arguments...); };
  const auto thread = [](const void* given) { (*static_cast<const decltype(call)*>(given))(); };
  simt::run_grid(grid, block, 0, thread, &call, reinterpret_cast<const void*>(kernel));
}

}  // namespace ringtape::tasks
