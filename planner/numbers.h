#pragma once

#include <cstdint>
#include <string>

#include "core/numbers.h"

/// Whole numbers, as the planner computes and prints them.
namespace ringtape::planner {

/// The largest size, about 10^12, so that products of sizes can be checked and printed.
constexpr std::int64_t kMaxSize = std::int64_t{1} << 40;

/// A run has at most this many epochs.
constexpr double kMaxEpochs = 1e6;

/// a * b for numbers of at least 0. Throws Error for a product above 2^53, up to which a JSON number (a
/// double) holds every whole number exactly.
std::int64_t product(std::int64_t a, std::int64_t b);

using ringtape::counted;
using ringtape::grouped;

/// "2.421 GiB": with four digits, so that printed sums add up.
std::string bytes_text(std::int64_t bytes);

/// The updates of this many epochs of `updates` each, rounded up. Throws Error unless
/// 0 < epochs <= kMaxEpochs.
std::int64_t updates_of(double epochs, std::int64_t updates);

/// Throws Error unless 1 <= size <= kMaxSize.
void check_size(const std::string& name, std::int64_t size);

}  // namespace ringtape::planner
