// Catch2's main program, for version 2 (Debian 12) and version 3 (Ubuntu 24.04).
#define CATCH_CONFIG_RUNNER
#include <cstdio>

#include "core/device.h"
#include "tests/support/catch.h"
#include "tests/support/gpu.h"

namespace {

/// `specs` (patterns of test names and tags, alternatives separated by commas) without the tests that need a
/// GPU.
std::vector<std::string> without_gpu_tests(const std::vector<std::string>& specs) {
  std::vector<std::string> result;
  for (const std::string& spec : specs) {
    std::string narrowed;
    for (const char letter : spec) {
      if (letter == ',' && !narrowed.ends_with('\\')) narrowed += "~[gpu]";
      narrowed += letter;
    }
    result.push_back(narrowed);
  }
  result.push_back("~[gpu]");
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  Catch::Session session;
  const int usage_error = session.applyCommandLine(argc, argv);
  if (usage_error != 0) return usage_error;
  const bool has_gpu = ringtape::cuda_device_count() > 0;
  std::vector<std::string>& specs = session.configData().testsOrTags;
  if (!has_gpu) specs = without_gpu_tests(specs);
  const int result = session.run();

  const auto& gpu_tests = ringtape::test::gpu_test_cases();
  if (!has_gpu && !gpu_tests.empty()) {
    std::printf("skipped %zu test cases that need a GPU; none can be used here:\n", gpu_tests.size());
    for (const std::string& name : gpu_tests) std::printf("  %s\n", name.c_str());
  }
  return result;
}
