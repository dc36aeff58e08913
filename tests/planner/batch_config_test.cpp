#include "planner/batch_config.h"

#include <nlohmann/json.hpp>

#include "tests/support/catch.h"

namespace ringtape::planner::test {
namespace {

/// The file as it is completed for these ranks.
nlohmann::json completed(const std::string& text, std::optional<std::int64_t> ranks) {
  const BatchConfig config(text, "ds.json");
  return nlohmann::json::parse(config.complete(plan_batch(config.add_to({.ranks = ranks}))));
}

}  // namespace

TEST_CASE("two numbers of a DeepSpeed file give the third", "[planner]") {
  const std::string files[] = {
      R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2})",
      R"({"train_batch_size": 64, "gradient_accumulation_steps": 4})",
      R"({"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4, "train_batch_size": "auto"})",
  };
  for (const std::string& file : files) {
    const nlohmann::json json = completed(file, 8);
    CHECK(json["train_batch_size"] == 64);
    CHECK(json["train_micro_batch_size_per_gpu"] == 2);
    CHECK(json["gradient_accumulation_steps"] == 4);
  }
  const std::string with_all =
      R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4})";
  CHECK(BatchConfig(with_all, "ds.json").add_to({}).ranks == 8);
  CHECK(completed(with_all, 8)["train_batch_size"] == 64);
}

TEST_CASE("other keys of a DeepSpeed file are kept, in their order", "[planner]") {
  const BatchConfig config(
      R"({"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": 2, "b": 1})", "ds.json");
  CHECK(config.complete(plan_batch(config.add_to({.accumulation = 3, .ranks = 4}))) ==
        "{\n  \"zero_optimization\": {\n    \"stage\": 2\n  },\n  \"train_micro_batch_size_per_gpu\": 2,\n"
        "  \"b\": 1,\n  \"train_batch_size\": 24,\n  \"gradient_accumulation_steps\": 3\n}\n");
}

TEST_CASE("contradictions of a DeepSpeed file are refused", "[planner]") {
  const std::string all =
      R"({"train_batch_size": 9, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 3})";
  CHECK_THROWS_WITH(completed(all, 1),
                    ContainsSubstring("a contradiction: micro-batch 1 x accumulation 3 x"));
  const std::string uneven =
      R"({"train_batch_size": 9, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 3})";
  CHECK_THROWS_WITH(completed(uneven, std::nullopt),
                    ContainsSubstring("train_batch_size 9 is not a multiple"));
  const std::string two = R"({"train_batch_size": 1000, "train_micro_batch_size_per_gpu": 2})";
  CHECK_THROWS_WITH(completed(two, std::nullopt), ContainsSubstring("add --ranks"));
  CHECK_THROWS_WITH(completed(two, 128),
                    ContainsSubstring("no whole numbers make train_batch_size of 1000 with 128 ranks"));
  CHECK_THROWS_WITH(completed(two, 128), ContainsSubstring("2 x 4 x 125 = 1000"));
  CHECK_THROWS_WITH(completed(two, 1000), ContainsSubstring("with 1000 ranks"));
  CHECK_THROWS_WITH(BatchConfig(two, "ds.json").add_to({.micro_batch = 4, .ranks = 1}),
                    ContainsSubstring("train_micro_batch_size_per_gpu is 2, but the command line says 4"));
}

TEST_CASE("invalid DeepSpeed files are refused", "[planner]") {
  const auto refused = [](const std::string& text, const char* why) {
    CHECK_THROWS_WITH(BatchConfig(text, "ds.json"), ContainsSubstring(why));
  };
  refused("", "ds.json: is not valid JSON: parse error at line 1, column 1");
  refused("{\n\"train_batch_size\": 8,", "line 2, column");
  refused("[1]", "expected a JSON object, found an array");
  refused("7", "expected a JSON object, found a number");
  refused("{\"a\": \"\xff\"}", "UTF-8 byte");
  refused("{\"a\": 1e999}", "number overflow");
  refused(R"({"train_batch_size": 8, "b": {"c": 1}, "d": {"c": 1}, "train_batch_size": 4})",
          "the name 'train_batch_size' occurs twice");
  refused("{\"a\": " + std::string(200'000, '['), "nested more than 64 deep");
  for (const std::string value :
       {"0", "-4", "2.5", "\"two\"", "null", "1e3", "99999999999999999999", "[8]"}) {
    CHECK_THROWS_WITH(BatchConfig(R"({"train_batch_size": )" + value + "}", "ds.json"),
                      ContainsSubstring("train_batch_size must be a whole number from 1"));
  }
}

}  // namespace ringtape::planner::test
