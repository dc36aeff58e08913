// Tests what a learner has written for a task of the course. ./learn compiles the file and starts this.
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <new>
#include <string>
#include <string_view>

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

constexpr rlim_t kCpuSeconds = 10;
constexpr rlim_t kBytes = rlim_t{4} << 30;

/// Ends a loop that never ends, by its CPU time, which no other program lengthens; and refuses memory before
/// a loop that allocates has taken all of the machine's. (AddressSanitizer reserves more than any limit.)
void limit_learners_code() {
  struct sigaction action {};
  action.sa_handler = [](int) {
    constexpr std::string_view said =
        "error: your code has computed for 10 seconds: is there a loop that never ends?\n";
    static_cast<void>(write(STDERR_FILENO, said.data(), said.size()));
    _exit(1);
  };
  sigaction(SIGXCPU, &action, nullptr);
  const rlimit cpu{kCpuSeconds, RLIM_INFINITY};
  setrlimit(RLIMIT_CPU, &cpu);
#if !defined(__SANITIZE_ADDRESS__)
  const rlimit data{kBytes, RLIM_INFINITY};
  setrlimit(RLIMIT_DATA, &data);
#endif
}

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
    limit_learners_code();  // before the file is loaded, which may run code of its own
    const LearnersFile learners(file);
    const NoExit no_exit;
    try {
      if (!only_run) {
        task.test(learners);
        fmt::print("The test passes.\n");
      }
      if (!only_test) task.run(learners);
    } catch (const std::bad_alloc&) {
      fail("your code needs more than 4 GiB of memory: is there a loop that allocates?");
    }
  });
}
