#include "data/csv.h"

#include <locale.h>
#include <stdlib.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <vector>

#include "core/error.h"
#include "core/memory.h"
#include "core/numbers.h"
#include "core/quote.h"
#include "data/gzip.h"
#include "io/file.h"

namespace ringtape {
namespace {

std::string_view without_blanks(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// Reads the records of a table's text in order (RFC 4180: a quoted field may hold commas, line breaks and
/// doubled quotes).
class Records {
 public:
  Records(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  /// The number of the line in which the last record began.
  std::int64_t line() const { return line_; }
  /// The fields of the next record, without their quotes and the blanks around them; false at the end.
  bool next(std::vector<std::string_view>& fields) {
    if (text_.empty()) return false;
    line_ = next_line_++;
    fields.clear();
    do fields.push_back(take_field(fields.size() + 1));
    while (take(','));
    take('\r');
    take('\n');
    return true;
  }

 private:
  bool take(char letter) {
    if (!text_.starts_with(letter)) return false;
    text_.remove_prefix(1);
    return true;
  }
  void skip_blanks() { text_.remove_prefix(std::min(text_.find_first_not_of(" \t"), text_.size())); }
  std::string_view take_field(std::size_t column) {
    skip_blanks();
    if (take('"')) return take_quoted(column);
    const std::string_view field = text_.substr(0, text_.find_first_of(",\n"));
    text_.remove_prefix(field.size());
    return without_blanks(field.ends_with('\r') ? field.substr(0, field.size() - 1) : field);
  }
  std::string_view take_quoted(std::size_t column) {
    std::size_t end = text_.find('"');
    while (end < text_.size() && text_.substr(end + 1).starts_with('"')) end = text_.find('"', end + 2);
    check(end < text_.size(), "{}: line {}, column {}: a quote is not closed", name_, line_, column);
    const std::string_view field = text_.substr(0, end);
    next_line_ += std::count(field.begin(), field.end(), '\n');
    text_.remove_prefix(end + 1);
    skip_blanks();
    check(text_.empty() || text_.find_first_of(",\r\n") == 0,
          "{}: line {}, column {}: text follows a quoted field, expected a comma", name_, line_, column);
    return without_blanks(field);
  }

  std::string_view text_;
  const std::string& name_;
  std::int64_t line_ = 0, next_line_ = 1;
};

/// True when all of `field` parses as a number, also as nan or one too large for a double.
bool is_number(std::string_view field, double& value) {
  if (field.starts_with('+') && !field.starts_with("+-")) field.remove_prefix(1);
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error == std::errc::result_out_of_range) {  // too large, or too close to 0
    static const locale_t plain = newlocale(LC_ALL_MASK, "C", nullptr);
    value = strtod_l(std::string(field.data(), end).c_str(), nullptr, plain);
  }
  return error != std::errc::invalid_argument && end == field.data() + field.size();
}

/// Whether no field is a number. Only the first may be empty, as pandas leaves it: a row of numbers that
/// lacks one must not pass for names.
bool is_header(const std::vector<std::string_view>& fields) {
  double ignored;
  return !is_number(fields[0], ignored) &&
         std::none_of(fields.begin() + 1, fields.end(), [&ignored](std::string_view field) {
           return field.empty() || is_number(field, ignored);
         });
}

}  // namespace

TensorDataset parse_csv(std::string_view text, const std::string& name, DType dtype) {
  check(dtype == DType::f32 || dtype == DType::f64, "read_csv: found the dtype {}, expected f32 or f64",
        name_of(dtype));
  std::vector<double> values;
  std::size_t columns = 0;
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // spreadsheets begin a UTF-8 file with it
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const std::size_t last = text.find_last_not_of(" \t\r\n");  // empty lines at the end are no rows
  text = text.substr(0, last == std::string_view::npos ? 0 : last + 1);
  Records records(text, name);
  for (std::vector<std::string_view> fields; records.next(fields);) {
    const std::int64_t line_number = records.line();
    if (line_number == 1) {
      columns = fields.size();
      check(columns >= 2,
            "{}: line 1 has a single column, expected features and a target with commas between", name);
      if (is_header(fields)) continue;
    }
    if (fields.size() != columns) {
      fail("{}: line {} has {}, expected {} as in line 1", name, line_number,
           counted(std::ssize(fields), "field"), columns);
    }
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
      values.push_back(value);
    }
  }
  check(!values.empty(), "{}: has no rows of numbers", name);

  const std::int64_t features_per_row = static_cast<std::int64_t>(columns) - 1;
  const std::int64_t rows = static_cast<std::int64_t>(values.size() / columns);
  const MemoryScope scope(MemoryCategory::data);
  Tensor features = empty({rows, features_per_row}, dtype);
  Tensor targets = empty({rows, 1}, dtype);
  const auto fill = [&]<class T>(T* feature, T* target) {
    const double* value = values.data();
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t i = 0; i < features_per_row; ++i) *feature++ = static_cast<T>(*value++);
      *target++ = static_cast<T>(*value++);
    }
  };
  if (dtype == DType::f64) {
    fill(features.data<double>(), targets.data<double>());
  } else {
    fill(features.data<float>(), targets.data<float>());
  }
  return {std::move(features), std::move(targets)};
}

namespace {

std::vector<std::uint8_t> unpacked(const std::vector<std::uint8_t>& gzip, const std::string& name) {
  GzipReader reader(gzip, name);
  std::vector<std::uint8_t> bytes(4 * gzip.size() + (1 << 16));
  std::size_t size = 0;
  while (const std::size_t count = reader.read(bytes.data() + size, bytes.size() - size)) {
    size += count;
    if (size == bytes.size()) bytes.resize(2 * size);
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace

TensorDataset read_csv(const std::filesystem::path& path, DType dtype) {
  const std::string name = input_name(path);
  std::vector<std::uint8_t> bytes = read_file_or_standard_input(path);
  if (is_gzip(bytes)) bytes = unpacked(bytes, name);
  return parse_csv({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, name, dtype);
}

}  // namespace ringtape
