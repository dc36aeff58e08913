#pragma once

namespace gpu_model {

/// Sees to it that a fault at device memory, or at pinned memory that a copy uses, is explained: which
/// allocation or copy it is, and what was wrong. The process then ends with abort(). Other faults go to
/// whoever handled them before. To be called again and again: test programs and sanitizers set handlers of
/// their own.
void watch_for_faults();

}  // namespace gpu_model
