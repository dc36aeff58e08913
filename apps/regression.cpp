// Fits a multilayer perceptron to a table of numbers.
#include <cmath>

#include "apps/mlp.h"
#include "autograd/ops.h"
#include "cli/train_program.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/numbers.h"
#include "data/csv.h"
#include "data/regression.h"
#include "data/sampler.h"
#include "io/file.h"

namespace {

using namespace ringtape;

constexpr std::int64_t kGeneratedSamples = 20000;

struct Split {
  TensorDataset train, test;
};

/// Takes a random fifth of the rows, f64, as the test set. Throws Error for fewer than 5 rows.
Split split(const TensorDataset& table, const std::string& name, std::uint64_t seed) {
  const std::int64_t rows = table.size();
  check(rows >= 5, "{}: has {}, expected at least 5, as a fifth is the test set", name, counted(rows, "row"));
  const std::vector<std::int64_t> order = RandomSampler(rows, seed).order(0);
  const std::int64_t columns = table.all_features().size(1);
  Tensor features = empty({rows, columns}, DType::f64);
  Tensor targets = empty({rows, 1}, DType::f64);
  table.read(order, features.raw(), targets.raw());
  const TensorDataset shuffled(features, targets);
  const std::int64_t test_rows = rows / 5;
  return {shuffled.slice(test_rows, rows - test_rows), shuffled.slice(0, test_rows)};
}

/// Shifts and scales every feature, f64, to mean 0 and variance 1 over the training rows; a constant feature
/// becomes 0.
void standardise(const Split& data) {
  const Tensor& train = data.train.all_features();
  const Tensor& test = data.test.all_features();
  const std::int64_t columns = train.size(1);
  for (std::int64_t column = 0; column < columns; ++column) {
    double sum = 0, squares = 0;
    bool is_constant = true;  // whose squares may be above 0 by rounding
    for (std::int64_t i = column; i < train.elements(); i += columns) {
      sum += train.data<double>()[i];
      is_constant = is_constant && train.data<double>()[i] == train.data<double>()[column];
    }
    const auto rows = static_cast<double>(train.size(0));
    const double mean = sum / rows;
    for (std::int64_t i = column; i < train.elements(); i += columns) {
      squares += (train.data<double>()[i] - mean) * (train.data<double>()[i] - mean);
    }
    const double factor = !is_constant && squares > 0 ? 1.0 / std::sqrt(squares / rows) : 0.0;
    for (const Tensor& table : {train, test}) {
      for (std::int64_t i = column; i < table.elements(); i += columns) {
        double& value = table.data<double>()[i];
        value = (value - mean) * factor;
      }
    }
  }
}

/// The samples converted to `dtype`.
std::shared_ptr<TensorDataset> to(const TensorDataset& samples, DType dtype) {
  const MemoryScope scope(MemoryCategory::data);
  return std::make_shared<TensorDataset>(ringtape::to(samples.all_features(), dtype),
                                         ringtape::to(samples.all_targets(), dtype));
}

Task regression_of_table(const std::string& file, std::uint64_t seed, const MlpOptions& mlp) {
  check_ranks_can_read("--data", file);
  // f64, so that large numbers with small differences are standardised before they are rounded.
  const TensorDataset table =
      file.empty() ? *to(make_friedman1(kGeneratedSamples, seed), DType::f64) : read_csv(file, DType::f64);
  const std::string name = file.empty() ? "Friedman #1 (noise variance 1)" : input_name(file);
  const Split data = split(table, name, seed);
  standardise(data);
  Task task = regression_task(name, to(data.train, DType::f32), to(data.test, DType::f32));
  if (!file.empty() && file != "-") task.input_files = {file};
  mlp.set_model(task, table.all_features().size(1), 1);
  return task;
}

}  // namespace

int main(int argc, char** argv) {
  TrainerOptions defaults;
  defaults.data.epochs = 20;
  TrainProgram program(
      "Fits a multilayer perceptron to a table of numbers and tests it on a fifth of the rows.\n"
      "Example: regression --epochs 20 --hidden 64,64",
      defaults);
  MlpOptions mlp{.hidden = {64, 64}};
  mlp.add_flags(program.flags());
  std::string file;
  program.flags().group("Data");
  program.flags().option(
      "--data", file_or_dash_value(file, "FILE.csv"),
      "table of numbers, plain or gzip-compressed, with the target in the last column; -: standard "
      "input [generated: Friedman's first function]");
  return program.run(argc, argv, [&] { return regression_of_table(file, program.options().data.seed, mlp); });
}
