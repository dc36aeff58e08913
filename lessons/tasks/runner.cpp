// Tests what a learner has written for a task of the course. ./learn compiles the file and starts this.
#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "cli/command_line.h"
#include "lessons/tasks/tests.h"

namespace {

using namespace ringtape;
using namespace ringtape::tasks;

const Task& task_named(const std::string& name) {
  std::vector<std::string> names;
  for (const Task& task : all_tasks()) {
    if (task.name == name) return task;
    names.emplace_back(task.name);
  }
  fail_unknown_word(name, names);
}

bool learners_code_runs = false;

/// Code that calls exit(0) has not passed.
class NoExit {
 public:
  NoExit() {
    learners_code_runs = true;
    std::atexit([] {
      if (!learners_code_runs) return;
      fmt::print(stderr, "error: your code ended the program: expected it to return\n");
      std::_Exit(1);
    });
  }
  ~NoExit() { learners_code_runs = false; }
};

}  // namespace

int main(int argc, char** argv) {
  std::string name, file;
  bool only_test = false, only_run = false;
  CommandLine app("Tests the code of a task.\nExample: task adam build/learn/adam.so");
  app.option("task", name, "the task's name").required();
  app.file("file", file, "the learner's code, a shared library").required();
  const Flag test = app.option("--only-test", only_test, "leave out the real run");
  app.option("--only-run", only_run, "leave out the test, for ranks that mpirun starts").excludes(test);
  return app.run(argc, argv, [&] {
    const Task& task = task_named(name);
    const LearnersFile learners(file);
    const NoExit no_exit;
    if (!only_run) {
      task.test(learners);
      fmt::print("The test passes.\n");
    }
    if (!only_test) task.run(learners);
  });
}
