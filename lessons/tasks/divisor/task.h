#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

/// Runs the backward of micro-batch k on its *sum* of losses divided by `divisor`. Gradients add up.
using Backward = std::function<void(std::size_t k, double divisor)>;

/// Accumulates one update of a rank: calls `backward` for each of its micro-batches. `targets[k]` is the
/// number of non-ignored targets of micro-batch k on this rank, `all_targets` the number in all micro-batches
/// on all ranks. Afterwards the gradients of the ranks are averaged: added up and divided by `ranks`.
extern "C" void accumulate(std::span<const std::int64_t> targets, std::int64_t all_targets, int ranks,
                           const Backward& backward);
