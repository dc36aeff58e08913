// Trains on MNIST with several ranks, twice: first one all-reduce after backward averages the gradients, then
// DataParallel, whose all-reduces begin during backward. mpirun -n 2 build/release/bin/example_mnist_ddp
#include <ringtape/data/mnist.h>
#include <ringtape/ringtape.h>

using namespace ringtape;

namespace {

constexpr std::int64_t kBatchSize = 32;  // of each rank
constexpr int kSeed = 0;

/// Trains `model` for an epoch on this rank's part of the samples.
void train(Module& model, const TensorDataset& samples, const std::shared_ptr<Communicator>& comm,
           bool by_hand) {
  ParameterArena parameters(model, comm->device());  // all gradients are in one flat buffer
  Adam optimizer(parameters);
  std::optional<DataParallel> parallel;
  if (by_hand) {
    comm->broadcast(parameters.values(), 0).wait();  // all ranks begin with rank 0's values
  } else {
    parallel.emplace(model, parameters, comm);  // does the same, and adds hooks to backward
  }

  const auto whole = std::make_shared<RandomSampler>(samples.size(), kSeed);
  const auto own = std::make_shared<DistributedSampler>(whole, comm->rank(), comm->size());
  DataLoader loader(std::make_shared<TensorDataset>(samples), own,
                    {.batch_size = kBatchSize, .device = comm->device()});
  const std::int64_t steps = samples.size() / comm->size() / kBatchSize;  // the same on all ranks
  loader.start_epoch(0);
  for (std::int64_t step = 0; step < steps; ++step) {
    const auto [images, labels] = loader.next()->to(comm->device());
    const Tensor loss = cross_entropy(model(mnist_input(images)), labels);
    optimizer.zero_grad();
    loss.backward();
    if (by_hand) {
      comm->all_reduce(parameters.gradients(), ReduceOp::mean).wait();  // no computation meanwhile
    } else {
      parallel->finish();  // the all-reduces began when the gradients of a bucket were complete
    }
    optimizer.step();  // the same on all ranks
  }
}

/// The fraction of the samples whose class the model predicts.
double accuracy(Module& model, const TensorDataset& samples, Device device) {
  const NoGrad no_grad;
  const Tensor images = mnist_input(copy_to(samples.all_features(), device));
  const Tensor labels = copy_to(samples.all_targets(), device);
  return count_correct(model(images), labels).item() / static_cast<double>(samples.size());
}

}  // namespace

int main() try {
  const RankEnvironment env = detect_rank_environment(process_environment());  // set by mpirun or torchrun
  const Device device = device_of_rank(env, {}, cuda_device_count());  // a GPU for each rank, or the CPU
  const auto comm = connect(env, device);                              // by NCCL, or by MPI
  const MnistData data = load_mnist();

  std::vector<std::vector<float>> weights;
  for (const bool by_hand : {true, false}) {
    manual_seed(kSeed);
    const auto model = make_mlp({784, 256, 10});
    train(*model, data.train, comm, by_hand);
    weights.push_back(model->parameter("0.weight").to_vector<float>());
    if (comm->rank() != 0) continue;
    fmt::print("{}: test accuracy {:.2f}%\n", by_hand ? "all-reduce by hand" : "DataParallel",
               100 * accuracy(*model, data.test, device));
  }
  if (comm->rank() == 0)
    fmt::print("the weights are {}\n", weights[0] == weights[1] ? "the same" : "different");
} catch (const Error& error) {
  fmt::print(stderr, "error: {}\n", error.what());
  return 1;
}
