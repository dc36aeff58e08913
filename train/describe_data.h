#pragma once

#include <string>

#include "data/dataset.h"

namespace ringtape {

/// The number of samples and the CRC-32 of their features and targets, to detect other data. Reads all
/// samples.
std::string describe_data(const Dataset& data);

}  // namespace ringtape
