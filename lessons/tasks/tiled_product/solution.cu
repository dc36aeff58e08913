#include "lessons/tasks/tiled_product/task.h"

using namespace ringtape::RINGTAPE_TARGET;

__global__ void tiled_product(const float* a, const float* b, float* c, int n, int k) {
  __shared__ float a_tile[16][16];
  __shared__ float b_tile[16][16];
  const int x = threadIdx.x, y = threadIdx.y;
  const int row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
  float sum = 0;
  for (int first = 0; first < k; first += 16) {
    a_tile[y][x] = read_global(a + row * k + first + x);
    b_tile[y][x] = read_global(b + (first + y) * n + column);
    __syncthreads();  // the tiles are full
    for (int i = 0; i < 16; ++i) sum += a_tile[y][i] * b_tile[i][x];
    __syncthreads();  // the tiles are used up
  }
  c[row * n + column] = sum;
}
