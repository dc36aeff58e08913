#pragma once

#include <string>

#include "kernels/analysis/totals.h"

namespace ringtape {

/// The rows that `lens` prints: the total cost of some launches.
void print_lens_header(const std::string& first_column);
/// With `remark` at the end of the line.
void print_lens_row(const std::string& name, const analysis::Totals& totals, const std::string& remark);

}  // namespace ringtape
