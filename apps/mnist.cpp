// Trains a multilayer perceptron on MNIST.
#include <filesystem>
#include <optional>

#include "apps/mlp.h"
#include "cli/train_program.h"
#include "data/mnist.h"

namespace {

using namespace ringtape;

Task mnist_task(const std::string& folder, const MlpOptions& mlp) {
  const MnistData data =
      load_mnist(folder.empty() ? std::nullopt : std::optional<std::filesystem::path>(folder));
  Task task = classification_task("MNIST", std::make_shared<TensorDataset>(data.train),
                                  std::make_shared<TensorDataset>(data.test));
  task.prepare = mnist_input;
  if (!folder.empty()) task.input_files = mnist_files(folder);
  mlp.set_model(task, 28 * 28, 10);
  return task;
}

/// Large batches for 784-256-10 in 15 epochs, with the learning rates that scripts/training_runs.py found
/// (docs/large-batch.md has its table).
const std::vector<Recipe> kRecipes = {
    {"lamb-8192",
     {{"--optimizer", "lamb"},
      {"--batch-size", "8192"},
      {"--epochs", "15"},
      {"--lr", "0.06"},
      {"--weight-decay", "0"}}},
    {"lamb-16384",
     {{"--optimizer", "lamb"},
      {"--batch-size", "16384"},
      {"--epochs", "15"},
      {"--lr", "0.1"},
      {"--weight-decay", "0"}}},
};

}  // namespace

int main(int argc, char** argv) {
  TrainProgram program(
      "Trains a multilayer perceptron on MNIST and tests it.\nExample: mnist --epochs 3 --hidden 256,128", {},
      kRecipes);
  MlpOptions mlp;
  mlp.add_flags(program.flags());
  std::string folder;
  program.flags().group("Data");
  program.flags().file("--data", folder, "folder with MNIST's four IDX files [the copy inside this program]",
                       "DIR");
  return program.run(argc, argv, [&] { return mnist_task(folder, mlp); });
}
