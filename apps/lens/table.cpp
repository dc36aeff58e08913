#include "apps/lens/table.h"

#include <fmt/format.h>

namespace ringtape {
namespace {

constexpr const char* kRow =
    "{:<25} | {:>9} {:>8} {:>9} {:>7} | {:>9} {:>9} {:>9} {:>8} | {:>8} {:>9} {:>8} | {}\n";

}  // namespace

void print_lens_header(const std::string& first_column) {
  fmt::print(kRow, "", "global", "sectors", "moved", "moved /", "shared", "bank", "", "while", "",
             "divergent", "", "");
  fmt::print(kRow, first_column, "requests", "each", "MB", "needed", "requests", "cycles", "conflicts",
             "copying", "barriers", "branches", "findings", "verdict");
}

void print_lens_row(const std::string& name, const analysis::Totals& totals, const std::string& remark) {
  const double copying = totals.shared.requests == 0
                             ? 0
                             : 100 * static_cast<double>(totals.shared.while_copying) /
                                   static_cast<double>(totals.shared.requests);
  fmt::print(kRow, name, totals.global.requests,
             fmt::format("{:.2f}", totals.global.transactions_per_request()),
             fmt::format("{:.2f}", static_cast<double>(totals.moved()) / 1e6),
             fmt::format("{:.1f}", totals.moved_per_needed()), totals.shared.requests,
             totals.shared.transactions, totals.shared.conflicts(), fmt::format("{:.0f}%", copying),
             totals.barriers, totals.divergent_branches, totals.findings(), remark);
}

}  // namespace ringtape
