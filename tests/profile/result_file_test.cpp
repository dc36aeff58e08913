#include "profile/result_file.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "profile/machine.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace ringtape::test {
namespace {

TEST_CASE("a result file has the machine, the settings and the rows with their rates", "[benchmarks]") {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "result.json").string();
  Results results("bench_test", Device{}, path);
  CHECK(std::filesystem::is_empty(folder.path()));  // not before it is saved
  results.setting("dtype", "f32");
  results.add({.name = "a", .size = "8", .seconds = 0.5, .flops = 1e9, .bytes = 4e9, .limit_seconds = 0.25});
  results.add({.name = "a", .size = "16", .more = {{"peak_bytes", 7}}});
  using Read = nlohmann::ordered_json;
  const Read json = Read::parse(results.to_json().dump());
  CHECK(json["program"] == "bench_test");
  for (const Fact& fact : describe_machine({})) CHECK(json["machine"][fact.name] == fact.value);
  CHECK(json["settings"] == Read{{"dtype", "f32"}});
  CHECK(json["rows"][0] == Read{{"name", "a"},
                                {"size", "8"},
                                {"seconds", 0.5},
                                {"flops", 1e9},
                                {"bytes", 4e9},
                                {"gflop_per_s", 2.0},
                                {"gb_per_s", 8.0},
                                {"limit_seconds", 0.25}});
  CHECK(json["rows"][1] == Read{{"name", "a"}, {"size", "16"}, {"peak_bytes", 7}});

  results.save();
  std::ifstream file(path);
  CHECK(Read::parse(file)["rows"] == json["rows"]);
}

TEST_CASE("two rows of one name and size, and a file that cannot be written, are refused", "[benchmarks]") {
  Results results("bench_test", Device{}, "");
  results.add({.name = "a", .size = "8"});
  CHECK_THROWS_WITH(results.add({.name = "a", .size = "8"}),
                    ContainsSubstring("two rows have the name 'a' and size '8'"));
  results.save();  // no file was asked for
  CHECK_THROWS_WITH(Results("bench_test", Device{}, "/nowhere/result.json"),
                    ContainsSubstring("/nowhere/result.json: cannot write"));
}

}  // namespace
}  // namespace ringtape::test
