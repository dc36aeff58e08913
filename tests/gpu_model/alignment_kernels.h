#pragma once

#include "core/stream.h"

/// Kernels of one thread that access vectors as a GPU does.
namespace ringtape::on_cuda {

/// *to = the last of 4 or 2 floats that load_aligned(), or load_vec(), reads at `from`.
void test_load_four(const Stream& stream, const float* from, float* to);
void test_load_two(const Stream& stream, const float* from, float* to);
void test_load_any(const Stream& stream, const float* from, float* to);
/// store_aligned() of 4 floats.
void test_store_four(const Stream& stream, float* to);
/// *to = the first float after AsyncCopies::copy() of the first `bytes` of 16 bytes.
void test_copy_part(const Stream& stream, const float* from, int bytes, float* to);

}  // namespace ringtape::on_cuda
