#pragma once

#include <memory>

#include "core/tensor.h"
#include "dist/communicator.h"

/// The borders of a tensor-parallel region with sequence parallelism (Korthikanti et al., "Reducing
/// activation recomputation in large transformer models", 2022). Outside, where norms, dropout and residual
/// sums compute token by token, each of R ranks has its part of the tokens: [B, T / R, C] of [B, T, C], part
/// `rank` of each sequence. An all-reduce is a reduce-scatter and an all-gather, so the same number of bytes
/// is sent as without sequence parallelism, and a rank stores only its part of these activations.
///
///   operation                 in the paper   forward          backward
///   all_gather_tokens         g              all-gather       reduce-scatter   into the region
///   reduce_scatter_tokens     g-bar          reduce-scatter   all-gather       out of it; x is an addend
///
/// For a parameter that all ranks have (of norms, biases, positions) each rank computes the gradient of its
/// own tokens; the sum over the ranks, ParameterArena::sum_parts_of_gradients(), is the gradient.
///
/// All ranks of `comm` must call them in the same order, also in backward. Throws Error unless R divides T.
namespace ringtape {

/// All tokens [B, T, C], from the parts x [B, T / R, C].
Tensor all_gather_tokens(const Tensor& x, const std::shared_ptr<Communicator>& comm);

/// This rank's tokens [B, T / R, C] of the sum over the ranks of x [B, T, C], plus `added`: a bias [C], or
/// positions [P, C], of which row t is added to token t of the sequence; undefined for none.
Tensor reduce_scatter_tokens(const Tensor& x, const Tensor& added, const std::shared_ptr<Communicator>& comm);

}  // namespace ringtape
