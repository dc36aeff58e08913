#pragma once

#include <cstdint>
#include <random>

namespace ringtape::planner {

/// Random factors of the computing time, with mean 1, drawn for each rank and micro-batch.
struct JitterRequest {
  enum class Shape {
    lognormal,
    /// A constant share and an exponential delay: the expected maximum over n ranks is
    /// 1 - v + v (1 + 1/2 + ... + 1/n).
    exponential,
  };
  double variation = 0;  ///< v, standard deviation over mean: 0 to 1
  Shape shape = Shape::lognormal;
  std::uint64_t seed = 0;
};

/// Draws factors; equal seeds draw equal factors with every standard library.
class Jitter {
 public:
  /// Throws Error for a variation outside 0 to 1.
  explicit Jitter(const JitterRequest& request);

  /// The next factor.
  double next();

 private:
  double uniform();

  JitterRequest request_;
  std::mt19937_64 random_;
  double sigma_ = 0;  // of the normal distribution whose exponential is drawn
};

}  // namespace ringtape::planner
