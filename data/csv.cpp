#include "data/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/quote.h"

namespace ringtape {
namespace {

std::string_view without_blanks(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// Takes the part of `text` before the first `separator`, which is removed as well.
std::string_view take_until(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

std::vector<std::string_view> split_fields(std::string_view line) {
  std::vector<std::string_view> fields;
  const std::size_t count = static_cast<std::size_t>(std::count(line.begin(), line.end(), ',')) + 1;
  for (std::size_t i = 0; i < count; ++i) fields.push_back(without_blanks(take_until(line, ',')));
  return fields;
}

// True when all of `field` reads as a number, also as nan or one too large for a double.
bool is_number(std::string_view field, double& value) {
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error == std::errc::result_out_of_range) value = std::numeric_limits<double>::infinity();
  return error != std::errc::invalid_argument && end == field.data() + field.size();
}

bool is_header(const std::vector<std::string_view>& fields) {
  double ignored;
  return std::none_of(fields.begin(), fields.end(), [&ignored](std::string_view field) {
    return field.empty() || is_number(field, ignored);
  });
}

}  // namespace

TensorDataset parse_csv(std::string_view text, const std::string& name) {
  std::vector<float> values;
  std::size_t columns = 0;
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // spreadsheets begin a UTF-8 file with it
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const std::size_t last = text.find_last_not_of(" \t\r\n");  // empty lines at the end are no rows
  text = text.substr(0, last == std::string_view::npos ? 0 : last + 1);
  for (std::int64_t line_number = 1; !text.empty(); ++line_number) {
    std::string_view line = take_until(text, '\n');
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::vector<std::string_view> fields = split_fields(line);
    if (line_number == 1) {
      columns = fields.size();
      check(columns >= 2, "{}: line 1 has a single column, expected features and a target", name);
      if (is_header(fields)) continue;
    }
    check(fields.size() == columns, "{}: line {} has {} fields, expected {} as in line 1", name, line_number,
          fields.size(), columns);
    for (std::size_t column = 0; column < columns; ++column) {
      double value;
      if (!is_number(fields[column], value)) {
        fail("{}: line {}, column {}: {} is not a number", name, line_number, column + 1,
             quote(fields[column]));
      }
      if (!(std::abs(value) <= std::numeric_limits<float>::max())) {
        fail("{}: line {}, column {}: {} is not a finite number in the range of f32", name, line_number,
             column + 1, quote(fields[column]));
      }
      values.push_back(static_cast<float>(value));
    }
  }
  check(!values.empty(), "{}: has no rows of numbers", name);

  const std::int64_t features_per_row = static_cast<std::int64_t>(columns) - 1;
  const std::int64_t rows = static_cast<std::int64_t>(values.size() / columns);
  const MemoryScope scope(MemoryCategory::data);
  Tensor features = empty({rows, features_per_row});
  Tensor targets = empty({rows, 1});
  const float* from = values.data();
  for (std::int64_t row = 0; row < rows; ++row, from += columns) {
    std::copy_n(from, features_per_row, features.data<float>() + row * features_per_row);
    targets.data<float>()[row] = from[features_per_row];
  }
  return {std::move(features), std::move(targets)};
}

TensorDataset read_csv(const std::filesystem::path& path) {
  const std::vector<std::uint8_t> bytes = read_file(path);
  return parse_csv({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path.string());
}

}  // namespace ringtape
