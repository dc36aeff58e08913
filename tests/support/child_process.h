#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string>

namespace ringtape::test {

/// How a process ended, and what it wrote to stderr.
struct Ending {
  bool by_signal = false;
  int code = 0;  // exit status or signal number
  std::string text;
};

/// Runs `body`, which may end the process, in a child process.
template <class Body>
Ending run_in_child(const Body& body) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGSEGV, SIG_DFL);  // Catch2's own handler would report a failed test
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    body();
    _exit(0);
  }
  close(ends[1]);
  Ending ending;
  char buffer[4096];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;) {
    ending.text.append(buffer, static_cast<std::size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  ending.by_signal = WIFSIGNALED(status);
  ending.code = ending.by_signal ? WTERMSIG(status) : WEXITSTATUS(status);
  return ending;
}

}  // namespace ringtape::test
