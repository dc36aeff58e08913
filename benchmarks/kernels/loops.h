#pragma once

#include <cstdint>

/// Plain vectorised OpenMP loops, for comparison with the kernels on the CPU.
namespace ringtape::kernel_cases {

void loop_relu(const float* x, float* y, std::int64_t n);
void loop_sum(const float* x, std::int64_t n, float* sum);
void loop_mse(const float* p, const float* t, std::int64_t n, float* loss);
void loop_norm(const float* x, std::int64_t n, float* norm);
void loop_adamw(float* w, const float* g, float* m, float* v, std::int64_t n);

/// The mean loss of the rows and, for backward, stats [rows, 2]: each row's largest logit and sum of
/// exponentials.
void loop_cross_entropy(const float* x, const std::int64_t* targets, std::int64_t rows, std::int64_t classes,
                        float* stats, float* loss);
void loop_cross_entropy_backward(const float* x, const std::int64_t* targets, std::int64_t rows,
                                 std::int64_t classes, const float* stats, float* dx);

}  // namespace ringtape::kernel_cases
