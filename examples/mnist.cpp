// Trains a multilayer perceptron on MNIST, with the whole loop visible. `mnist` in apps/ does the same with a
// Trainer, which adds accumulation, mixed precision, checkpoints and several ranks.
#include <ringtape/data/mnist.h>
#include <ringtape/ringtape.h>

using namespace ringtape;

namespace {

/// The fraction of the samples whose class the model predicts.
double accuracy(Module& model, const TensorDataset& samples, Device device) {
  const NoGrad no_grad;  // nothing is recorded
  const auto order = std::make_shared<SequentialSampler>(samples.size());
  DataLoader loader(std::make_shared<TensorDataset>(samples), order, {.batch_size = 1000, .device = device});
  double correct = 0;
  loader.start_epoch(0);
  while (const std::optional<Batch> batch = loader.next()) {
    const auto [images, labels] = batch->to(device);
    correct += count_correct(model(mnist_input(images)), labels).item();
  }
  return correct / static_cast<double>(samples.size());
}

}  // namespace

int main() {
  constexpr int kEpochs = 3, kSeed = 0;
  constexpr std::int64_t kBatchSize = 64;
  manual_seed(kSeed);
  const Device device = Device::parse("auto");  // the first GPU if there is one, else the CPU
  const MnistData data = load_mnist();          // 60,000 and 10,000 images, part of this program

  const auto model = make_mlp({784, 256, 10});
  ParameterArena parameters(*model, device);  // all parameters in one flat buffer, on the device
  Adam optimizer(parameters);
  const std::int64_t steps_per_epoch = (data.train.size() + kBatchSize - 1) / kBatchSize;
  const Schedule learning_rate = schedule::linear_decay(1e-3, kEpochs * steps_per_epoch);

  const auto order = std::make_shared<RandomSampler>(data.train.size(), kSeed);
  DataLoader loader(std::make_shared<TensorDataset>(data.train), order,
                    {.batch_size = kBatchSize, .device = device});
  std::int64_t step = 0;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    double loss_sum = 0;
    loader.start_epoch(epoch);
    while (const std::optional<Batch> batch = loader.next()) {
      const auto [images, labels] = batch->to(device);
      const Tensor loss = cross_entropy((*model)(mnist_input(images)), labels);  // recorded on the tape
      optimizer.zero_grad();
      loss.backward();                  // the tape in reverse: gradients, in the arena's second buffer
      clip_grad_norm(parameters, 1.0);  // leaves a factor on the device for the step
      optimizer.set_learning_rate(learning_rate(step++));
      optimizer.step();         // one launch for all parameters
      loss_sum += loss.item();  // waits for the device; a Trainer reads many losses at a time
    }
    fmt::print("epoch {}: training loss {:.4f}, test accuracy {:.2f}%\n", epoch + 1,
               loss_sum / static_cast<double>(steps_per_epoch), 100 * accuracy(*model, data.test, device));
  }
}
