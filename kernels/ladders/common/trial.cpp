#include "kernels/ladders/common/trial.h"

#include <cmath>

#include "core/memory.h"

namespace ringtape::ladders {

double error_of(const Trial& trial, const RungFunction& compute, const Stream& stream, int version) {
  for (const TrialBuffer& buffer : trial.memory) {
    if (buffer.written) continue;
    const std::vector<float> unwritten(buffer.bytes / sizeof(float), NAN);
    copy_bytes(buffer.data, stream.device(), unwritten.data(), Device{}, buffer.bytes);
  }
  compute(stream, version);
  const double error = trial.error();
  return std::isnan(error) ? INFINITY : error;
}

}  // namespace ringtape::ladders
