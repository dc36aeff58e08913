#pragma once

#include <functional>
#include <vector>

#include "core/tensor.h"

namespace ringtape {

/// A part of a model: computes one tensor from its inputs.
using Segment = std::function<Tensor(const std::vector<Tensor>& inputs)>;

/// Activation recomputation (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016,
/// arXiv:1604.06174), like torch.utils.checkpoint: computes segment(inputs) and keeps none of its
/// intermediates. backward() runs the segment's forward again and then its backward. That costs the time of a
/// forward; the gradients are the same in every bit.
///
/// The segment becomes one node of the tape, whose inputs are all tensors with a gradient that the segment
/// uses: tensors in `inputs`, parameters, and captured tensors. It must compute the same in both runs: the
/// second run gets the random numbers of the first (from default_generator(), which continues afterwards as
/// if there had been no second run). Captured objects must live until backward(). A segment may contain other
/// segments. With recording off (NoGrad) it simply runs.
///
/// backward() throws Error if an input or a parameter was changed in place since the forward, or if the
/// second run uses other tensors, draws a different number of random numbers (as after train() or eval()), or
/// returns another shape or dtype than the first. recompute() throws Error for an empty segment and for an
/// undefined input or result.
Tensor recompute(const Segment& segment, const std::vector<Tensor>& inputs);
Tensor recompute(const std::function<Tensor(const Tensor&)>& segment, const Tensor& input);

/// Divides a network of `parts` parts into segments of `size` parts, and runs all but the last with
/// recompute(): x, the network's input, becomes their result. run(x, first, end) is the forward of parts
/// `first` to `end` - 1. Returns the number of the first part that has not run. The caller runs the last
/// segment, of up to `size` parts, without recompute(): where backward follows at once, it reads these
/// activations next. With a size of 0 no part is run.
std::size_t recompute_segments(
    Tensor& x, std::size_t parts, std::size_t size,
    const std::function<Tensor(Tensor x, std::size_t first, std::size_t end)>& run);

}  // namespace ringtape
