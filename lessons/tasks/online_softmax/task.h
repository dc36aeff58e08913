#pragma once

#include <cmath>
#include <limits>

/// What is known of a softmax after some of its inputs: their maximum m, and the sum of e^(x - m) over them.
struct Softmax {
  float maximum = -std::numeric_limits<float>::infinity();
  float sum = 0;
};

/// Takes in one more input.
extern "C" void absorb(Softmax& state, float x);

/// Two parts of the inputs, each known by its state: the state of both together. A part may be empty.
extern "C" Softmax merge(const Softmax& a, const Softmax& b);
