#pragma once

#include <cmath>
#include <limits>

/// The state of a softmax after some of its inputs: their maximum m, and the sum of e^(x - m) over them.
struct Softmax {
  float maximum = -std::numeric_limits<float>::infinity();
  float sum = 0;
};

/// Updates `state` with one more input.
extern "C" void absorb(Softmax& state, float x);

/// Returns the state of all inputs, from the states of two parts of them. A part may be empty.
extern "C" Softmax merge(const Softmax& a, const Softmax& b);
