#include "profile/machine.h"

#include <omp.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "kernels/gemm.h"
#include "tests/support/catch.h"
#include "tests/support/gpu.h"

namespace ringtape::test {
namespace {

std::string value_of(const std::vector<Fact>& facts, const std::string& name) {
  const auto found =
      std::find_if(facts.begin(), facts.end(), [&](const Fact& fact) { return fact.name == name; });
  return found == facts.end() ? "" : found->value;
}

void check_facts(const std::vector<Fact>& facts) {
  std::set<std::string> names;
  for (const Fact& fact : facts) {
    INFO(fact.name);
    CHECK_FALSE(fact.value.empty());
    CHECK(fact.value.find('\n') == std::string::npos);
    CHECK(names.insert(fact.name).second);
  }
}

TEST_CASE("the machine is described by distinct names and one-line values", "[core]") {
  const std::vector<Fact> facts = describe_machine({});
  check_facts(facts);
  CHECK(facts.front().name == "device");
  CHECK(value_of(facts, "device") == "cpu");
  CHECK(value_of(facts, "gpu").empty());
  CHECK(value_of(facts, "threads") == std::to_string(omp_get_max_threads()));
  CHECK_THAT(value_of(facts, "compiler"), ContainsSubstring("++ "));
  CHECK_THAT(value_of(facts, "system"), ContainsSubstring("Linux"));
  CHECK_THAT(value_of(facts, "memory"), ContainsSubstring(" GiB"));
  CHECK_THAT(value_of(facts, "kernel flags"), ContainsSubstring("-fno-math-errno"));
  CHECK_THAT(describe(Device{}), ContainsSubstring(" thread") && ContainsSubstring("GiB"));

  // The listed library is the one used for products.
  const std::string vendor = vendor_gemm_name();
  for (const char* library : {"oneDNN", "OpenBLAS"}) {
    CHECK(vendor.starts_with(library) == !value_of(facts, library).empty());
    if (vendor.starts_with("oneDNN ")) {
      CHECK_THAT("oneDNN " + value_of(facts, "oneDNN"), ContainsSubstring(vendor + "."));
    }
  }
}

TEST_CASE("the number of threads is the current one", "[core]") {
  const int before = omp_get_max_threads();
  omp_set_num_threads(3);
  CHECK(value_of(describe_machine({}), "threads") == "3");
  CHECK_THAT(describe(Device{}), ContainsSubstring(", 3 threads, "));
  omp_set_num_threads(before);
}

GPU_TEST_CASE("a GPU is described with its driver", "[core]") {
  const Device gpu{DeviceType::cuda, 0};
  const std::vector<Fact> facts = describe_machine(gpu);
  check_facts(facts);
  CHECK(value_of(facts, "device") == "cuda:0");
  CHECK(value_of(facts, "gpu") == describe(gpu));
  CHECK_THAT(value_of(facts, "gpu"), ContainsSubstring("sm_"));
  CHECK_THAT(value_of(facts, "CUDA"), ContainsSubstring("driver for "));
  CHECK(value_of(facts, "driver").empty() !=
        std::filesystem::exists("/sys/module/nvidia/version"));  // WSL has none
  CHECK_FALSE(value_of(facts, "cuBLAS").empty());
}

}  // namespace
}  // namespace ringtape::test
