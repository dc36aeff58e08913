// Catch2's main program for tests that run on several ranks: mpirun -n 4 dist_tests. Only rank 0 prints,
// unless a test fails.
#define CATCH_CONFIG_RUNNER
#include <cstdlib>
#include <iostream>
#include <sstream>

#include "core/device.h"
#include "dist/connect.h"
#ifdef RINGTAPE_WITH_MPI
#include "dist/mpi_communicator.h"
#endif
#include "tests/dist/late_communicator.h"
#include "tests/dist/ranks.h"
#include "tests/support/catch.h"
#include "train/option_value.h"

namespace ringtape::test {

std::vector<NamedCommunicator>& all_communicators() {
  static std::vector<NamedCommunicator> ranks;
  return ranks;
}

std::optional<Device> device_of_run() {
  const char* const text = std::getenv("RINGTAPE_DIST_DEVICE");
  std::optional<Device> device;
  option_value(device).read(text != nullptr ? text : "cpu");
  return device;
}

void connect_ranks(const RankEnvironment& env) {
  const Seconds timeout(120);
  std::shared_ptr<Communicator> ranks =
      connect(env, device_of_rank(env, device_of_run(), cuda_device_count()), timeout);
  if (std::getenv("RINGTAPE_DIST_LATE") != nullptr) ranks = late_communicator(ranks);
  all_communicators().push_back({"ranks of this run", std::move(ranks)});
#ifdef RINGTAPE_WITH_MPI
  if (env.has_mpi)
    all_communicators().push_back({"MPI in small pieces", MpiCommunicator::connect(timeout, 7)});
#endif
}

}  // namespace ringtape::test

int main(int argc, char** argv) {
  Catch::Session session;
  const int usage_error = session.applyCommandLine(argc, argv);
  if (usage_error != 0) return usage_error;
    // mpirun gives its ranks a terminal even if its own output is redirected.
#if __has_include(<catch2/catch_all.hpp>)
  session.configData().defaultColourMode = Catch::ColourMode::None;
#else
  session.configData().useColour = Catch::UseColour::No;
#endif
  try {
    const ringtape::RankEnvironment env = ringtape::detect_rank_environment(ringtape::process_environment());
    ringtape::test::connect_ranks(env);
    std::ostringstream kept;
    std::streambuf* const shown = std::cout.rdbuf();
    if (env.rank != 0) std::cout.rdbuf(kept.rdbuf());
    const int result = session.run();
    std::cout.rdbuf(shown);
    if (env.rank != 0 && result != 0) std::cout << "rank " << env.rank << ":\n" << kept.str();
    ringtape::test::all_communicators().clear();
    return result;
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << "\n";
    return 1;
  }
}
