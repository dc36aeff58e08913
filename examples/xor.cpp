// Learns XOR, a minimal training program: forward, backward, step.
#include <ringtape/ringtape.h>

using namespace ringtape;

int main() {
  manual_seed(0);
  const Device device = Device::parse("auto");
  const auto model = make_mlp({2, 16, 1});
  ParameterArena parameters(*model, device);  // all parameters in one flat buffer
  Adam optimizer(parameters, {.learning_rate = 0.05});

  const Tensor x = from_vector<float>({0, 0, 0, 1, 1, 0, 1, 1}, {4, 2}, device);
  const Tensor y = from_vector<float>({0, 1, 1, 0}, {4, 1}, device);
  for (int step = 1; step <= 200; ++step) {
    const Tensor loss = mse_loss((*model)(x), y);  // each operation is recorded on the tape
    optimizer.zero_grad();
    loss.backward();  // the tape in reverse
    optimizer.step();
    if (step % 50 == 0) fmt::print("step {}: loss {:.6f}\n", step, loss.item());
  }
  const NoGrad no_grad;
  fmt::print("{}\n", to_string((*model)(x)));
}
