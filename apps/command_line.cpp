#include "apps/command_line.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <thread>

#include "core/error.h"
#include "core/quote.h"
#include "dist/launch.h"

namespace ringtape::apps {

CLI::Validator number_check(double low, double high) {
  return CLI::Validator(
      [low, high](std::string& text) -> std::string {
        double value = 0;
        if (CLI::detail::lexical_cast(text, value) && value >= low && value <= high) return "";
        return fmt::format("expected a number from {} to {}, found {}", low, high, quote(text));
      },
      "");
}

CLI::Validator file_name_check() {
  return CLI::Validator(
      [](std::string& text) -> std::string { return text.empty() ? "the file name is empty" : ""; }, "");
}

namespace {

/// This process's rank as far as the launcher tells; 0 where it does not.
int rank_or_0() {
  try {
    return detect_launch(process_environment()).rank;
  } catch (const Error&) {
    return 0;
  }
}

/// Prints an error on standard error. What is wrong with a command line or a file all ranks find. So rank 0
/// says it at once, and the others after a while in which the launcher, which sees rank 0 end, ends them too:
/// mpirun does it after a second.
void tell(const char* error, const char* help = "") {
  constexpr std::chrono::milliseconds kTimeForRank0{1500};
  std::fflush(stdout);
  if (rank_or_0() > 0) std::this_thread::sleep_for(kTimeForRank0);
  std::fprintf(stderr, "error: %s%s\n", error, help);
}

}  // namespace

int run(CLI::App& app, int argc, char** argv, const std::function<void()>& program) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file too large is an error of the write, not the end of the process
  try {
    app.parse(argc, argv);
    program();
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      throw std::runtime_error("standard output cannot be written");
    }
    return 0;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return rank_or_0() > 0 ? 0 : app.exit(error);  // --help
    tell(error.what(), " (--help lists the flags)");
    return 2;
  } catch (const std::exception& error) {
    tell(error.what());
    return 1;
  }
}

}  // namespace ringtape::apps
