// Finds the first values in which two training runs differ, from their files of --record-values:
//
//   compare_runs a.jsonl b.jsonl --tolerance 1e-5
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "cli/command_line.h"
#include "core/error.h"
#include "core/numbers.h"
#include "train/value_row.h"

namespace {

using namespace ringtape;

/// Reads the rows of a file, one step at a time.
class StepReader {
 public:
  explicit StepReader(const std::string& name) : name_(name), file_(name) {
    check(file_.is_open(), "{} cannot be read: {}", name, std::strerror(errno));
    read_row();
    check(next_.has_value(), "{} is empty, expected the rows of --record-values", name);
  }

  /// The rows of the next step; empty at the end of the file.
  std::vector<ValueRow> next() {
    std::vector<ValueRow> rows;
    while (next_ && (rows.empty() || next_->step == rows.front().step)) {
      rows.push_back(std::move(*next_));
      read_row();
    }
    return rows;
  }

 private:
  void read_row() {
    next_.reset();
    std::string line;
    std::getline(file_, line);
    check(!file_.bad(), "{} cannot be read: {}", name_, std::strerror(errno));  // such as a folder
    if (!file_) return;
    ++line_;
    try {
      next_ = ValueRow::from_json(Json::parse(line));
    } catch (const Error& error) {
      fail("{}: line {} is no row of --record-values: {}", name_, line_, error.what());
    }
  }

  std::string name_;
  std::ifstream file_;
  std::int64_t line_ = 0;
  std::optional<ValueRow> next_;
};

std::string describe(const ValueRow& row) {
  if (row.micro_batch < 0) {
    return fmt::format("step {}, {} of the parameter {} {} {}", row.step, row.kind, row.operation,
                       to_string(row.shape), row.dtype);
  }
  const std::string layer = row.layer.empty() ? "" : " in layer " + row.layer;
  return fmt::format("step {}, micro-batch {}, operation {} on the tape, {}{}: {} {} {}", row.step,
                     row.micro_batch, row.place, row.operation, layer, row.kind, to_string(row.shape),
                     row.dtype);
}

struct Counts {
  std::int64_t compared = 0, left_out = 0;

  std::string text() const {
    const std::string others =
        left_out == 0
            ? ""
            : fmt::format(", {} left out: not in both runs, or of other shapes or batches", left_out);
    return counted(compared, "tensor") + " compared" + others;
  }
};

using ValueKey = std::tuple<std::int64_t, std::int64_t, std::string>;

ValueKey key_of(const ValueRow& row) {
  return {row.micro_batch, row.place, row.kind};
}

/// Whether the operations of a step had the same shapes in both runs. If accumulation or several ranks
/// divided the batch differently, only parameters can be compared.
bool have_equal_batches(const std::vector<ValueRow>& step_a, const std::vector<ValueRow>& step_b) {
  std::map<ValueKey, Shape> of_a, of_b;
  for (const ValueRow& row : step_a) {
    if (row.micro_batch >= 0) of_a.emplace(key_of(row), row.shape);
  }
  for (const ValueRow& row : step_b) {
    if (row.micro_batch >= 0) of_b.emplace(key_of(row), row.shape);
  }
  return of_a == of_b;
}

/// A text about the first difference in a step; empty if there is none.
std::string first_difference(const std::vector<ValueRow>& step_a, const std::vector<ValueRow>& step_b,
                             double tolerance, Counts& counts) {
  std::map<ValueKey, const ValueRow*> rows_b;
  for (const ValueRow& row : step_b) rows_b[key_of(row)] = &row;
  const bool compares_operations = have_equal_batches(step_a, step_b);
  const auto is_in_b = [&](const ValueRow& row) { return rows_b.count(key_of(row)) > 0; };
  counts.left_out += std::ssize(step_b) - std::count_if(step_a.begin(), step_a.end(), is_in_b);
  for (const ValueRow& a : step_a) {
    const auto found = rows_b.find(key_of(a));
    if (found != rows_b.end() && found->second->operation != a.operation) {
      return fmt::format("{}\nthe second run has {} there: the runs are of different models\n", describe(a),
                         found->second->operation);
    }
    const bool is_comparable = a.micro_batch < 0 || compares_operations;
    if (!is_comparable || found == rows_b.end() || found->second->shape != a.shape) {
      ++counts.left_out;
      continue;
    }
    const ValueRow& b = *found->second;
    ++counts.compared;
    const ValueDifference difference = difference_of(a, b, tolerance);
    if (!difference.differs) continue;
    const std::string dtypes = a.dtype == b.dtype ? "" : fmt::format(" ({} in the second run)", b.dtype);
    return fmt::format(
        "{}{}\n"
        "largest difference {:.3g}, among {} of its {} values and their minimum, maximum and mean\n"
        "first run:  {:.9g} to {:.9g}, mean {:.9g}, {} not finite\n"
        "second run: {:.9g} to {:.9g}, mean {:.9g}, {} not finite\n",
        describe(a), dtypes, difference.largest, a.samples.size(), a.shape.elements(), a.min, a.max, a.mean,
        a.non_finite, b.min, b.max, b.mean, b.non_finite);
  }
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  std::string first, second;
  double tolerance = 0;
  bool differ = false;
  CommandLine line(
      "Finds the first values in which two training runs differ, from their files of --record-values. The "
      "exit status is 0 if they agree, else 1, also if one of them has fewer steps.\n"
      "Example: compare_runs a.jsonl b.jsonl --tolerance 1e-5");
  line.file("first", first, "the file of the first run").required();
  line.file("second", second, "the file of the second run").required();
  line.option("--tolerance", between(tolerance, 0, 1e6),
              "allowed difference, as a multiple of a tensor's largest magnitude; 0: all bits must be equal");
  const int status = line.run(argc, argv, [&] {
    StepReader a(first), b(second);
    Counts counts;
    std::int64_t steps = 0;
    while (true) {
      const std::vector<ValueRow> step_a = a.next(), step_b = b.next();
      if (step_a.empty() || step_b.empty()) {
        if (step_a.empty() != step_b.empty()) {
          fmt::print("{} ends after {}; {} continues\n", step_a.empty() ? first : second,
                     counted(steps, "step"), step_a.empty() ? second : first);
          differ = true;
        }
        break;
      }
      check(step_a.front().step == step_b.front().step, "{} has step {} where {} has step {}", first,
            step_a.front().step, second, step_b.front().step);
      ++steps;
      if (const std::string text = first_difference(step_a, step_b, tolerance, counts); !text.empty()) {
        fmt::print("first difference: {}{} in all\n", text, counts.text());
        differ = true;
        return;
      }
    }
    check(counts.compared > 0, "the runs have no tensor of equal shape in common");
    fmt::print("no difference in {}: {}\n", counted(steps, "step"), counts.text());
  });
  return status != 0 ? status : differ ? 1 : 0;
}
