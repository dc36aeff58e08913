#pragma once

#include "kernels/common/launcher.h"
#include "kernels/gemm.h"

/// The gemm() of one row by a transposed B: c[i] = alpha * (a . row i of B) + beta * c[i] + bias[i], as when
/// a model generates one token. Every weight is read once and used once, so the memory's rate is the limit.
/// The arguments have been validated by kernels/gemm.cpp, with the leading dimensions filled in.
RINGTAPE_LAUNCHER(matvec, const GemmArgs& args);
