#pragma once

namespace gpu_model {

/// Installs a handler that explains a fault at device memory, or at pinned memory that a copy uses: the
/// allocation or copy, and the error. The process then ends with abort(). Other faults go to the previous
/// handler. Call it repeatedly: test programs and sanitizers set their own handlers.
void watch_for_faults();

}  // namespace gpu_model
