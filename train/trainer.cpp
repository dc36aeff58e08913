#include "train/trainer.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "core/numbers.h"
#include "dist/connect.h"
#include "dist/rank_environment.h"
#include "dist/verify_same.h"
#include "io/checksum.h"
#include "train/make.h"
#include "train/option_list.h"
#include "train/training_run.h"

namespace ringtape {
namespace {

/// A line for this program's file and one for each setting that must be the same on all ranks.
std::string describe_program(const Task& task, const TrainerOptions& options) {
  std::string text = fmt::format("a program with the CRC-32 {:08x}\n", crc32_of_file("/proc/self/exe"));
  for (const auto& [name, value] : values_of(options, {Effect::result, Effect::execution, Effect::output})) {
    text += fmt::format("--{} {}\n", name, value.empty() ? "(default)" : value);
  }
  for (const auto* const settings : {&task.settings, &task.execution_settings}) {
    for (const auto& [name, value] : *settings) text += fmt::format("{} {}\n", name, value);
  }
  if (std::filesystem::is_regular_file(options.model.load)) {
    text += fmt::format("the weights of --load with the CRC-32 {:08x}\n", crc32_of_file(options.model.load));
  }
  for (const auto& [name, samples] : {std::pair("training", task.train), {"test", task.test}}) {
    text += fmt::format("the {} data of {} with the CRC-32 {:08x}\n", name,
                        counted(samples->size(), "sample"), samples->checksum());
  }
  return text;
}

std::shared_ptr<Communicator> connect_ranks(const Task& task, const TrainerOptions& options) {
  const RankEnvironment env = detect_rank_environment(process_environment());
  const Device device = device_of_rank(env, options.device, options.device ? 0 : cuda_device_count());
  std::shared_ptr<Communicator> comm =
      connect(env, device, Seconds(options.distribution.comm_timeout), options.distribution.slow_link);
  if (comm->size() > 1) {
    verify_same(*comm, "the ranks' programs, options or data", "", describe_program(task, options));
  }
  return comm;
}

}  // namespace

Trainer::Trainer(Task task, TrainerOptions options) {
  check_options(options);
  task = checked_task(std::move(task));
  std::shared_ptr<Communicator> comm = connect_ranks(task, options);
  const MeshSizes sizes = mesh_of(comm->size(), mesh_sizes(options.distribution));
  run_ = std::make_unique<Run>(std::move(task), std::move(options), Mesh(std::move(comm), sizes));
}
Trainer::~Trainer() = default;

void Trainer::before_step(Hook hook) {
  check(hook != nullptr, "trainer: before_step() needs a function, found none");
  run_->check_not_trained("before_step()");
  run_->before_step.push_back(std::move(hook));
}
void Trainer::after_step(Hook hook) {
  check(hook != nullptr, "trainer: after_step() needs a function, found none");
  run_->check_not_trained("after_step()");
  run_->after_step.push_back(std::move(hook));
}
void Trainer::text_every(std::int64_t steps, std::string title, std::function<std::string()> make) {
  check(steps >= 1, "trainer: text_every() needs at least 1 step, found {}", steps);
  check(make != nullptr, "trainer: text_every() needs a function, found none");
  run_->check_not_trained("text_every()");
  run_->texts.push_back({steps, std::move(title), std::move(make)});
}
TrainingResult Trainer::train() {
  return run_->train();
}
EvaluationResult Trainer::evaluate() {
  return run_->evaluate();
}
std::shared_ptr<Module> Trainer::whole_model() {
  return run_->whole_model();
}

void Trainer::barrier(double seconds) {
  run_->barrier(seconds);
}
std::string Trainer::schedule_text() const {
  return run_->schedule_text();
}
std::string Trainer::mesh_text() const {
  return run_->mesh_text();
}
std::string Trainer::pipeline_text() const {
  return run_->pipeline_text();
}
std::string Trainer::pipeline_text_of_one_rank(Task task, const TrainerOptions& options) {
  return Run::pipeline_text_of_one_rank(std::move(task), options);
}
Module& Trainer::model() const {
  return run_->model();
}
ParameterArena& Trainer::arena() const {
  return run_->arena();
}
Optimizer& Trainer::optimizer() const {
  return run_->optimizer();
}
Communicator& Trainer::comm() const {
  return run_->comm();
}

}  // namespace ringtape
