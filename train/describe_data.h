#pragma once

#include <string>

#include "data/dataset.h"

namespace ringtape {

/// The number of samples and the CRC-32 of their features and targets: what tells other data from this,
/// wherever it was read from. Reads all of it.
std::string describe_data(const Dataset& data);

}  // namespace ringtape
