// A program outside of Ringtape's tree that trains its own model on its own data: accumulation, mixed
// precision, checkpoints and resume, several ranks (mpirun -n 2), metrics and a report.
#include <ringtape/ringtape.h>

using namespace ringtape;

int main() try {
  const Tensor x = rand({2000, 3}, DType::f32, {}, -1, 1), y = stack({sum(multiply(x, x), 1)}, 1);
  const TensorDataset all(x, y);
  Task task = regression_task("sum of squares", std::make_shared<TensorDataset>(all.slice(0, 1600)),
                              std::make_shared<TensorDataset>(all.slice(1600, 400)));
  task.make_model = [] {
    return std::make_shared<Sequential>(std::vector<std::shared_ptr<Module>>{
        std::make_shared<Linear>(3, 32), std::make_shared<ReLU>(), std::make_shared<Linear>(32, 1)});
  };
  TrainerOptions options;
  options.data = {.epochs = 10, .batch_size = 64};
  options.optimizer = {.kind = &optimizer_named("adamw"), .learning_rate = 0.01, .clip_norm = 1};
  options.precision.dtype = DType::bf16;
  options.accumulation.micro_batch = 16;
  options.checkpoint = {.folder = "checkpoints", .every = 50, .resume = true};
  options.observation.metrics = "metrics.jsonl";
  options.observation.report = "report.html";
  return Trainer(task, options).train().test.loss < 0.02 ? 0 : 1;
} catch (const Error& error) {
  fmt::print(stderr, "error: {}\n", error.what());
  return 2;
}
