#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "benchmarks/kernels/table.h"
#include "core/dtype.h"

/// The families of kernels that bench_kernels measures, a file each.
namespace ringtape::benchmarks {

/// Element by element: n floats, or n pixels.
void measure_elementwise(Table& table, std::int64_t n);
void measure_random(Table& table, std::int64_t n);
/// Gradients in 16 bits for sending.
void measure_compression(Table& table, std::int64_t n);

/// Sums, and what spreads their gradients; biases, which are the same along rows.
void measure_reductions(Table& table, std::int64_t n);
void measure_biases(Table& table, std::int64_t rows, std::int64_t columns);

void measure_mse(Table& table, std::int64_t n);
void measure_cross_entropy(Table& table, std::int64_t rows, std::int64_t classes, DType dtype);

/// Norms, clipping and optimizer steps over parameters of these lengths in one arena.
void measure_arena(Table& table, const std::string& size, const std::vector<std::int64_t>& lengths);

}  // namespace ringtape::benchmarks
