#pragma once

#include "gpu_model/runtime/state.h"

namespace gpu_model {

/// cudaErrorStreamCaptureUnsupported, with the capture invalidated, where a call that a capture does not
/// allow ("potentially unsafe": it may make something wait, such as cudaMalloc or cudaEventQuery) is made: in
/// a thread with a capture of a mode other than relaxed, or anywhere while another thread captures in the
/// global mode.
cudaError_t forbid_in_captures();
/// The same for a call about this stream, or about its device where `stream` is null: whoever makes it.
cudaError_t forbid_while_capturing(const CUstream_st& stream);

/// Adds the operation to the graph that the stream captures.
cudaError_t add_to_capture(CUstream_st& stream, std::shared_ptr<const Operation> operation);

/// What is left of a graph when it is instantiated; see cudaGraphLaunch.
}  // namespace gpu_model
