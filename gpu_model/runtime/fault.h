#pragma once

namespace gpu_model {

/// Installs a SIGSEGV handler that explains an access to device memory, or to pinned memory that a copy uses:
/// the allocation or copy, and the error. The process then ends with abort(). Other faults go to the previous
/// handler. It is called again and again, as test programs and sanitizers set handlers of their own.
void watch_for_faults();

}  // namespace gpu_model
