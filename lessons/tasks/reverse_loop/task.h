#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

/// The elements of a gradient; empty for a tensor that has none yet.
using Gradient = std::vector<float>;

/// A recorded operation. Tensors have numbers.
struct TapeNode {
  std::size_t output;               ///< the tensor that it computed
  std::vector<std::size_t> inputs;  ///< the tensors that it used and that need a gradient
  /// Computes, from the gradient of the output, a contribution to the gradient of each input, in the order of
  /// `inputs`. A tensor that is listed twice gets two contributions.
  std::function<std::vector<Gradient>(const Gradient& output_gradient)> backward;
};

/// Computes the gradients of all tensors on which the loss depends. `nodes` are in the order in which the
/// forward recorded them. `gradients` has an entry for each tensor, by its number: at first all are empty but
/// the loss's.
extern "C" void run_backward(std::span<const TapeNode> nodes, std::vector<Gradient>& gradients);
