#pragma once

#include <cmath>
#include <limits>
#include <vector>

/// What is known of a query's attention after some of its keys: the largest score m, the sum of e^(score - m)
/// and, element by element, the sum of e^(score - m) x value.
struct Attention {
  float maximum = -std::numeric_limits<float>::infinity();
  float sum = 0;
  std::vector<float> result;  ///< as many elements as a value, 0 at first
};

/// Takes in a tile of `count` keys and values, each of result.size() elements, row by row. The score of a key
/// is its product with the query over the root of the number of elements. The rows are there for this call
/// only.
extern "C" void attend(Attention& state, const float* query, const float* keys, const float* values,
                       int count);

/// Writes the query's result, the average of the values by their weights, to `out`.
extern "C" void finish(const Attention& state, float* out);
