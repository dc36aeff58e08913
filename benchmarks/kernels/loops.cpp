#include "benchmarks/kernels/loops.h"

#include <cmath>

#include "kernels/common/math.h"

namespace ringtape::kernel_cases {

void loop_relu(const float* x, float* y, std::int64_t n) {
#pragma omp parallel for simd schedule(static)
  for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] <= 0 ? 0 : x[i];
}

void loop_sum(const float* x, std::int64_t n, float* sum) {
  float total = 0;
#pragma omp parallel for simd schedule(static) reduction(+ : total)
  for (std::int64_t i = 0; i < n; ++i) total += x[i];
  *sum = total;
}

void loop_mse(const float* p, const float* t, std::int64_t n, float* loss) {
  float sum = 0;
#pragma omp parallel for simd schedule(static) reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += (p[i] - t[i]) * (p[i] - t[i]);
  *loss = sum / static_cast<float>(n);
}

void loop_norm(const float* x, std::int64_t n, float* norm) {
  float sum = 0;
#pragma omp parallel for simd schedule(static) reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += x[i] * x[i];
  *norm = std::sqrt(sum);
}

void loop_adamw(float* w, const float* g, float* m, float* v, std::int64_t n) {
#pragma omp parallel for simd schedule(static)
  for (std::int64_t i = 0; i < n; ++i) {
    m[i] += 0.1f * (g[i] - m[i]);
    v[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];
    w[i] = 0.99999f * w[i] - 1e-3f * m[i] / (std::sqrt(v[i]) + 1e-8f);
  }
}

void loop_cross_entropy(const float* x, const std::int64_t* targets, std::int64_t rows, std::int64_t classes,
                        float* stats, float* loss) {
  float total = 0;
#pragma omp parallel for schedule(static) reduction(+ : total)
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* row = x + r * classes;
    float max = row[0], sum = 0;
#pragma omp simd reduction(max : max)
    for (std::int64_t j = 0; j < classes; ++j) max = row[j] > max ? row[j] : max;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t j = 0; j < classes; ++j) sum += on_cpu::softmax_exp(row[j] - max);
    stats[2 * r] = max;
    stats[2 * r + 1] = sum;
    total += std::log(sum) - (row[targets[r]] - max);
  }
  *loss = total / static_cast<float>(rows);
}

void loop_cross_entropy_backward(const float* x, const std::int64_t* targets, std::int64_t rows,
                                 std::int64_t classes, const float* stats, float* dx) {
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < rows; ++r) {
    const float scale_of_row = 1 / (stats[2 * r + 1] * static_cast<float>(rows));
#pragma omp simd
    for (std::int64_t j = 0; j < classes; ++j) {
      dx[r * classes + j] = scale_of_row * on_cpu::softmax_exp(x[r * classes + j] - stats[2 * r]);
    }
    dx[r * classes + targets[r]] -= 1 / static_cast<float>(rows);
  }
}

}  // namespace ringtape::kernel_cases
