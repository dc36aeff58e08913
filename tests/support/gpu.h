#pragma once

#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace ringtape::test {

/// Names of the test cases that need a GPU. Without a GPU they are not run, so that they do not count as
/// passed, and main() lists them after Catch2's totals.
inline std::vector<std::string>& gpu_test_cases() {
  static std::vector<std::string> names;
  return names;
}

struct GpuTestCase {
  explicit GpuTestCase(const char* name) { gpu_test_cases().push_back(name); }
};

}  // namespace ringtape::test

/// TEST_CASE for a test that needs a GPU. `tags` is a literal such as "[ops]"; the tag [gpu] is added.
#define RINGTAPE_JOIN_(a, b) a##b
#define RINGTAPE_JOIN(a, b) RINGTAPE_JOIN_(a, b)
#define GPU_TEST_CASE(name, tags)                                                                 \
  static const ringtape::test::GpuTestCase RINGTAPE_JOIN(gpu_test_case_on_line_, __LINE__)(name); \
  TEST_CASE(name, tags "[gpu]")
