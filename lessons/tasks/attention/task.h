#pragma once

#include <cmath>
#include <limits>
#include <vector>

/// The state of a query's attention after some of its keys: the largest score m, the sum of e^(score - m)
/// and, element by element, the sum of e^(score - m) x value.
struct Attention {
  float maximum = -std::numeric_limits<float>::infinity();
  float sum = 0;
  std::vector<float> result;  ///< as many elements as a value, 0 at first
};

/// Updates `state` with a tile of `count` keys and values, each of result.size() elements, row by row. The
/// score of a key is its product with the query, divided by the square root of the number of elements. The
/// pointers are valid only during the call.
extern "C" void attend(Attention& state, const float* query, const float* keys, const float* values,
                       int count);

/// Writes the query's result, the weighted average of the values, to `out`: as many elements as
/// state.result.
extern "C" void finish(const Attention& state, float* out);
