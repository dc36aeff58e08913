// Trains a multilayer perceptron on MNIST.
#include <filesystem>

#include "apps/training.h"
#include "autograd/ops.h"
#include "core/spans.h"
#include "data/mnist.h"
#include "kernels/elementwise.h"

namespace {

using namespace ringtape;

/// u8 images [n, 28, 28] as normalised rows [n, 784].
Tensor normalise(const Tensor& images, DType dtype) {
  Tensor x = empty({images.size(0), 28 * 28}, dtype, images.device());
  add_work({.flops = 2 * x.elements(), .bytes = x.elements() + static_cast<std::int64_t>(x.bytes())});
  normalize_u8(Stream::current(x.device()), images.data<std::uint8_t>(), x.dtype(), x.raw(), x.elements(),
               kMnistMean, kMnistStd);
  return x;
}

void train_mnist(const apps::TrainOptions& options) {
  const MnistData data =
      load_mnist(options.data.empty() ? std::nullopt : std::optional<std::filesystem::path>(options.data));
  apps::Task task;
  task.name = "MNIST";
  task.train = std::make_shared<TensorDataset>(data.train);
  task.test = std::make_shared<TensorDataset>(data.test);
  task.inputs = 28 * 28;
  task.outputs = 10;
  task.prepare = normalise;
  task.loss = [](Tensor logits, const Tensor& labels, double divisor) {
    return cross_entropy(std::move(logits), labels, {.reduction = Reduction::sum, .divisor = divisor});
  };
  task.correct = [](const Tensor& logits, const Tensor& labels) { return count_correct(logits, labels); };
  apps::train(task, options);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Trains a multilayer perceptron on MNIST and tests it.\nExample: mnist --epochs 3 --hidden 256,128");
  apps::TrainOptions options;
  apps::add_train_options(app, options);
  apps::add_recipe_flag(app, options);
  app.add_option("--data", options.data, "folder with MNIST's four IDX files [the copy inside this program]")
      ->check(apps::file_name_check())
      ->type_name("DIR")
      ->group("Data");
  return apps::run(app, argc, argv, [&options] { train_mnist(options); });
}
