#pragma once

#include <string>

#include "kernels/analysis/totals.h"

namespace ringtape {

/// Prints the header of the table of `lens`.
void print_lens_header(const std::string& first_column);
/// Prints a row: the total counters of a kernel's launches, and `remark` at the end of the line.
void print_lens_row(const std::string& name, const analysis::Totals& totals, const std::string& remark);

}  // namespace ringtape
