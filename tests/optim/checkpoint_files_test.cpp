#include <fcntl.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>

#include "core/error.h"
#include "io/checksum.h"
#include "optim/checkpoint_folder.h"
#include "tests/fuzz/readers.h"
#include "tests/support/catch.h"
#include "tests/support/child_process.h"
#include "tests/support/temporary_folder.h"

namespace ringtape::test {
namespace {

/// A state whose tensors and numbers all contain `step`.
CheckpointContents state_at(std::int64_t step) {
  CheckpointContents state;
  state.position = {step, step / 10, step * 64};
  state.random = Generator(0xFFFFFFFFFFFFFFFFu);
  state.random.offset = static_cast<std::uint64_t>(step) << 40;
  state.settings = {{"batch-size", "64"}, {"lr", "0.001"}};
  const auto value = static_cast<float>(step);
  state.tensors = {{"model.0.weight", from_vector<float>({value, -0.0f, 1e-40f, value / 3}, {2, 2})},
                   {"optimizer.step", from_vector<std::int64_t>({step}, {1})}};
  state.history = {{"losses", from_vector(std::vector<double>(static_cast<std::size_t>(step), 0.1), {step})}};
  return state;
}

/// Targets as state_at()'s, with other contents.
std::vector<NamedTensor> targets() {
  return {{"model.0.weight", from_vector<float>({9, 9, 9, 9}, {2, 2})},
          {"optimizer.step", from_vector<std::int64_t>({9}, {1})}};
}

std::string bits(const Tensor& tensor) {
  return {static_cast<const char*>(tensor.raw()), tensor.bytes()};
}

std::string file_of(std::int64_t step, const char* ending) {
  return fmt::format("step-{:012}.{}", step, ending);
}

std::vector<std::string> files_of(const std::vector<std::int64_t>& steps) {
  std::vector<std::string> names = {"lock"};
  for (std::int64_t step : steps) {
    names.push_back(file_of(step, "json"));
    names.push_back(file_of(step, "safetensors"));
  }
  return names;
}

/// The step of the newest complete checkpoint; -1 for none.
std::int64_t newest_step(CheckpointFolder& folder) {
  const std::optional<Checkpoint> checkpoint = folder.newest();
  return checkpoint ? checkpoint->position().step : -1;
}

TEST_CASE("the checksum is the CRC-32 of gzip, whole or in pieces", "[resume]") {
  CHECK(crc32(0, "123456789", 9) == 0xCBF43926);  // the check value in the CRC catalogues
  CHECK(crc32(crc32(0, "1234", 4), "56789", 5) == 0xCBF43926);
  CHECK(crc32(0, "", 0) == 0);
  const TemporaryFolder folder;
  const std::string long_text(3'000'000, 'x');
  CHECK(crc32_of_file(write_text(folder / "a", long_text)) == crc32(0, long_text.data(), long_text.size()));
  CHECK(crc32_of_file(write_text(folder / "b", "")) == 0);
  const std::uint32_t saved =
      save_safetensors(folder / "c", {{"x", from_vector<float>({1, 2, 3}, {3})}}, {{"note", "y"}});
  CHECK(saved == crc32_of_file(folder / "c"));
}

TEST_CASE("a checkpoint gives back every bit", "[resume]") {
  const TemporaryFolder folder;
  const CheckpointContents state = state_at(7);
  save_checkpoint(folder / "a.json", state);
  CHECK(folder.names() == std::vector<std::string>{"a.json", "a.safetensors"});

  const Checkpoint checkpoint(folder / "a.json");
  CHECK(checkpoint.position().step == 7);
  CHECK(checkpoint.position().epoch == 0);
  CHECK(checkpoint.position().samples == 448);
  CHECK(checkpoint.random().seed == 0xFFFFFFFFFFFFFFFFu);
  CHECK(checkpoint.random().offset == std::uint64_t{7} << 40);
  CHECK(checkpoint.settings() == state.settings);
  CHECK(checkpoint.history("losses", DType::f64, {7}).to_doubles() == std::vector<double>(7, 0.1));
  CHECK_THROWS_WITH(checkpoint.history("losses", DType::f64, {8}),
                    ContainsSubstring("'history.losses' is f64[7], expected f64[8]"));
  CHECK_THROWS_WITH(checkpoint.history("losses", DType::f32, {7}), ContainsSubstring("expected f32[7]"));
  CHECK_THROWS_WITH(checkpoint.history("accuracy", DType::f64, {7}),
                    ContainsSubstring("has no tensor 'history.accuracy'"));
  const std::vector<NamedTensor> loaded = targets();
  checkpoint.load_into(loaded);
  for (std::size_t i = 0; i < loaded.size(); ++i) {
    CHECK(bits(loaded[i].tensor) == bits(state.tensors[i].tensor));
  }
}

TEST_CASE("a checkpoint of another model or training is refused, and every difference named", "[resume]") {
  const TemporaryFolder folder;
  save_checkpoint(folder / "a.json", state_at(7));
  const Checkpoint checkpoint(folder / "a.json");

  const std::vector<NamedTensor> other = {{"model.0.weight", from_vector<float>({9, 9}, {1, 2})},
                                          {"model.0.bias", from_vector<float>({9}, {1})}};
  CHECK_THROWS_WITH(
      checkpoint.load_into(other),
      (folder / "a.json").string() +
          ": belongs to another model or optimizer: model.0.weight is f32[2, 2], expected f32[1, 2]; has no "
          "model.0.bias, expected f32[1]; 'optimizer.step' is i64[1], expected none");
  CHECK(other[0].tensor.to_doubles() == std::vector<double>{9, 9});
  std::vector<NamedTensor> other_dtype = targets();
  other_dtype[1].tensor = from_vector<std::int32_t>({9}, {1});
  CHECK_THROWS_WITH(checkpoint.load_into(other_dtype),
                    ContainsSubstring("optimizer.step is i64[1], expected i32[1]"));
  CHECK(other_dtype[0].tensor.to_doubles() == std::vector<double>(4, 9));
  std::vector<NamedTensor> many = targets();
  for (int i = 0; i < 20; ++i) many.push_back({fmt::format("more.{}", i), from_vector<float>({9}, {1})});
  CHECK_THROWS_WITH(checkpoint.load_into(many), ContainsSubstring("; and 12 more"));

  CHECK_NOTHROW(checkpoint.expect_settings(state_at(1).settings));
  CHECK_THROWS_WITH(checkpoint.expect_settings({{"batch-size", "32"}, {"seed", "1"}}),
                    ContainsSubstring("was made by another training: batch-size was 64, found 32; lr was "
                                      "0.001, found not set; seed was not set, found 1"));
}

TEST_CASE("a checkpoint with valid checksums that no run can have written is refused", "[resume]") {
  const TemporaryFolder folder;
  const std::filesystem::path json = folder / "a.json";
  save_checkpoint(json, state_at(7));
  const std::string text = read_text(json);
  const std::string body = text.substr(text.find('\n') + 1);
  const auto read_with = [&](const std::string& old_text, const std::string& new_text) {
    std::string changed = body;
    const std::size_t at = changed.find(old_text);
    REQUIRE(at != std::string::npos);
    changed.replace(at, old_text.size(), new_text);
    write_text(json, fuzz::checkpoint_json(changed));
    Checkpoint{json};
  };
  CHECK_NOTHROW(read_with("\"step\": 7", "\"step\": 8"));
  for (const char* wrong : {"-1", "1.5", "1e1", "1e19", "10000000000000000000", "9223372036854775808",
                            "\"7\"", "null", "true", "[7]", "{}"}) {
    INFO(wrong);
    CHECK_THROWS_WITH(read_with("\"step\": 7", "\"step\": " + std::string(wrong)),
                      ContainsSubstring("a.json: step is '" + std::string(wrong).substr(0, 1)) &&
                          ContainsSubstring("expected a whole number from 0 to 9223372036854775807"));
  }
  CHECK_THROWS_WITH(read_with("\"epoch\": 0", "\"epoch\": 1000000000000000000"),
                    ContainsSubstring("epoch is '1000000000000000000', expected a whole number from 0 to 7"));
  CHECK_THROWS_WITH(read_with("\"samples\": 448", "\"samples\": -448"),
                    ContainsSubstring("samples is '-448'"));
  CHECK_THROWS_WITH(read_with("\"seed\": 18446744073709551615", "\"seed\": 18446744073709551616"),
                    ContainsSubstring("seed is '1.8446744073709552e+19'"));
  CHECK_THROWS_WITH(read_with("\"format\": 2", "\"format\": 1.5"), ContainsSubstring("format is '1.5'"));
  CHECK_THROWS_WITH(read_with("\"format\": 2", "\"format\": 1"),
                    ContainsSubstring("has format 1, expected 2"));
  CHECK_THROWS_WITH(read_with("\"0.001\"", "0.001"), ContainsSubstring("is not a checkpoint"));
  CHECK_THROWS_WITH(read_with("\"0.001\"", "[7]"),
                    ContainsSubstring("is not a checkpoint: JSON: expected a string, found an array"));
  const std::string nested = std::string(2'000'000, '[') + "7" + std::string(2'000'000, ']');
  CHECK_THROWS_WITH(read_with("\"0.001\"", nested),
                    ContainsSubstring("its values are nested more than 64 deep"));
  CHECK_THROWS_WITH(read_with("\"0.001\"", "\"" + std::string(16'000'000, 'x') + "\""),
                    ContainsSubstring("expected at most 16000000"));
}

TEST_CASE("a folder keeps the newest checkpoints", "[resume]") {
  const TemporaryFolder parent;
  const std::filesystem::path path = parent / "run";
  CheckpointFolder folder(path, 2);
  CHECK(folder.is_empty());
  CHECK(newest_step(folder) == -1);
  write_text(path / "notes.txt", "mine");
  write_text(path / "step-by-step.json", "mine");
  for (std::int64_t step : {8, 9, 10, 11}) folder.save(state_at(step));
  CHECK_FALSE(folder.is_empty());
  CHECK(newest_step(folder) == 11);
  std::filesystem::remove(path / "notes.txt");
  std::filesystem::remove(path / "step-by-step.json");
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  CHECK(names == files_of({10, 11}));

  CHECK_THROWS_WITH(CheckpointFolder(parent / "zero", 0), ContainsSubstring("0 to keep"));
  CHECK_THROWS_WITH(CheckpointFolder(parent / "no" / "run", 1), ContainsSubstring("No such file"));
  write_text(parent / "file", "");
  CHECK_THROWS_WITH(CheckpointFolder(parent / "file", 1), ContainsSubstring("is not a folder, expected one"));
}

TEST_CASE("a damaged newest checkpoint is passed over for the one before", "[resume]") {
  const TemporaryFolder folder;
  const std::string json = file_of(20, "json");
  const std::string tensors = file_of(20, "safetensors");
  {
    CheckpointFolder checkpoints(folder.path(), 3);
    checkpoints.save(state_at(10));
    checkpoints.save(state_at(20));
  }
  const std::string good_json = read_text(folder / json);
  const std::string good_tensors = read_text(folder / tensors);
  std::string file, text;  // the damaged file, and its new contents
  SECTION("any byte of the tensors changed") {
    file = tensors;
    text = good_tensors;
    text[GENERATE(std::size_t{0}, std::size_t{9}, std::size_t{200}, std::size_t{400})] ^= 1;
  }
  SECTION("the tensors' last byte changed") {
    file = tensors;
    text = good_tensors;
    text.back() ^= 64;
  }
  SECTION("a byte of the JSON changed") {
    file = json;
    text = good_json;
    text[GENERATE(std::size_t{0}, std::size_t{5}, std::size_t{15}, std::size_t{22}, std::size_t{60})] ^= 1;
  }
  SECTION("a step number changed to another valid one") {
    file = json;
    text = good_json;
    text.replace(text.find("\"step\": 20"), 10, "\"step\": 21");
  }
  SECTION("files cut off") {
    const bool is_json = GENERATE(true, false);
    file = is_json ? json : tensors;
    text = is_json ? good_json : good_tensors;
    text.resize(GENERATE(std::size_t{0}, std::size_t{1}, std::size_t{30}, std::size_t{100}));
  }
  SECTION("files with something after their end") {
    const bool is_json = GENERATE(true, false);
    file = is_json ? json : tensors;
    text = (is_json ? good_json : good_tensors) + "x";
  }
  SECTION("the tensors missing") {
    std::filesystem::remove(folder / tensors);
  }
  if (!file.empty()) write_text(folder / file, text);

  CheckpointFolder checkpoints(folder.path(), 1);
  CHECK(newest_step(checkpoints) == 10);
  REQUIRE(checkpoints.damaged().size() == 1);
  CHECK_THAT(checkpoints.damaged()[0], ContainsSubstring(file_of(20, "")));
  // The run resumed from step 10 keeps its own checkpoints, not the damaged later one.
  checkpoints.save(state_at(15));
  CHECK(folder.names() == files_of({15}));
  CHECK(newest_step(checkpoints) == 15);
  CHECK(checkpoints.damaged().empty());

  std::filesystem::resize_file(folder / file_of(15, "json"), 40);
  CHECK_THROWS_WITH(checkpoints.newest(),
                    ContainsSubstring("found 1 checkpoint damaged and no complete one; the newest: "));
}

TEST_CASE("files that a killed process left half-written are no checkpoint, and the next save removes them",
          "[resume]") {
  const TemporaryFolder folder;
  {
    CheckpointFolder checkpoints(folder.path(), 3);
    checkpoints.save(state_at(10));
    checkpoints.save(state_at(20));
  }
  // Killed after the tensors and before the JSON; killed within a file.
  std::filesystem::remove(folder / file_of(20, "json"));
  write_text(folder / (file_of(20, "json") + ".tmp-77-0"), "{\"crc");
  write_text(folder / (file_of(30, "safetensors") + ".tmp-78-0"), "half");
  CheckpointFolder checkpoints(folder.path(), 3);
  CHECK(newest_step(checkpoints) == 10);
  const std::vector<std::string> fault = {(folder / file_of(20, "safetensors")).string() +
                                          ": found no .json beside it, expected both files"};
  CHECK(checkpoints.damaged() == fault);
  checkpoints.save(state_at(20));
  CHECK(folder.names() == files_of({10, 20}));
  CHECK(newest_step(checkpoints) == 20);
  CHECK(checkpoints.damaged().empty());
}

TEST_CASE("tensors without their JSON are counted and named, and no save removes them", "[resume]") {
  const TemporaryFolder folder;
  const std::string tensors = file_of(10, "safetensors");
  {
    CheckpointFolder checkpoints(folder.path(), 1);
    checkpoints.save(state_at(10));
  }
  std::filesystem::remove(folder / file_of(10, "json"));
  CheckpointFolder checkpoints(folder.path(), 1);
  CHECK_FALSE(checkpoints.is_empty());
  CHECK(newest_step(checkpoints) == -1);
  REQUIRE(checkpoints.damaged().size() == 1);
  CHECK_THAT(checkpoints.damaged()[0], ContainsSubstring(tensors));
  checkpoints.save(state_at(5));
  checkpoints.save(state_at(15));
  const std::vector<std::string> expected = {"lock", tensors, file_of(15, "json"),
                                             file_of(15, "safetensors")};
  CHECK(folder.names() == expected);
}

TEST_CASE("files of other names in a folder of checkpoints are neither removed nor counted", "[resume]") {
  const TemporaryFolder folder;
  const std::vector<std::string> others = {
      "step-000000000010.json.gz",
      "step-000000000010.safetensors.mybackup",
      "step-10.json",
      "step-0000000000010.json",
      "step--00000000001.json",
      "step-99999999999999999999.json",
      "step-000000000010.json.tmp-",
      "step-000000000010.json.tmp-77",
      "step-000000000010.json.tmp-77-",
      "step-000000000010.json.tmp--0",
      "step-000000000010.json.tmp-77-0.bak",
      "step-000000000010.json.tmp-7x-0",
      "step-000000000010.txt",
      "my-step-000000000010.json",
  };
  for (const std::string& name : others) write_text(folder / name, "mine");
  CheckpointFolder checkpoints(folder.path(), 1);
  CHECK(checkpoints.is_empty());
  for (std::int64_t step : {10, 20}) checkpoints.save(state_at(step));
  std::vector<std::string> expected = files_of({20});
  expected.insert(expected.end(), others.begin(), others.end());
  std::sort(expected.begin(), expected.end());
  CHECK(folder.names() == expected);
}

TEST_CASE("an old checkpoint's tensors are removed before the JSON that refers to them", "[resume]") {
  for (std::int64_t step = 1; step <= 8; ++step) {  // folders list their files in any order
    const TemporaryFolder folder;
    CheckpointFolder checkpoints(folder.path(), 1);
    checkpoints.save(state_at(step));
    std::filesystem::remove(folder / file_of(step, "safetensors"));
    std::filesystem::create_directories(folder / file_of(step, "safetensors") / "cannot be removed");
    CHECK_THROWS_WITH(checkpoints.save(state_at(step + 1)), ContainsSubstring("cannot remove the old step-"));
    CHECK(std::filesystem::exists(folder / file_of(step, "json")));
  }
}

TEST_CASE("an old checkpoint that cannot be removed stops neither the save nor the removal of others",
          "[resume]") {
  const TemporaryFolder folder;
  {
    CheckpointFolder checkpoints(folder.path(), 2);
    for (std::int64_t step : {10, 20}) checkpoints.save(state_at(step));
  }
  std::filesystem::remove(folder / file_of(20, "safetensors"));
  std::filesystem::create_directories(folder / file_of(20, "safetensors") / "cannot be removed");
  CheckpointFolder checkpoints(folder.path(), 1);
  CHECK_THROWS_WITH(checkpoints.save(state_at(30)),
                    ContainsSubstring("checkpoint of step 30 was saved, but 1 old checkpoint in "));
  CHECK(folder.names() == files_of({20, 30}));
  CHECK(newest_step(checkpoints) == 30);
}

TEST_CASE("a folder belongs to one process at a time", "[resume]") {
  const TemporaryFolder folder;
  {
    const CheckpointFolder first(folder.path(), 1);
    CHECK_THROWS_WITH(CheckpointFolder(folder.path(), 1),
                      folder.path().string() + ": another process keeps its checkpoints there");
  }
  CHECK_NOTHROW(CheckpointFolder(folder.path(), 1));
}

TEST_CASE("a full disk leaves the older checkpoints and a clear error", "[resume]") {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder.path(), 1);
  checkpoints.save(state_at(10));
  const std::vector<std::string> before = folder.names();
  // No file may pass the limit, as if the disk were full. 4 KiB hold the tensors, but not the longer JSON.
  const rlim_t limit = GENERATE(rlim_t{0}, rlim_t{100}, rlim_t{4096});
  const Ending ending = run_in_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);  // a write past the limit fails instead of ending the process
    const rlimit limits = {limit, limit};
    setrlimit(RLIMIT_FSIZE, &limits);
    CheckpointContents state = state_at(20);
    state.settings["note"] = std::string(10'000, 'x');
    try {
      checkpoints.save(state);
    } catch (const Error& error) {
      std::fprintf(stderr, "%s", error.what());
      _exit(1);
    }
  });
  CHECK(ending.code == 1);
  CHECK_THAT(ending.text,
             ContainsSubstring("checkpoint of step 20 was not saved, older ones are unchanged:"));
  CHECK_THAT(ending.text, ContainsSubstring("File too large"));
  CHECK(folder.names() == before);
  CHECK(newest_step(checkpoints) == 10);
}

TEST_CASE("a position that no run can have is not saved", "[resume]") {
  const TemporaryFolder folder;
  for (const TrainingPosition& position :
       {TrainingPosition{0, 3, 0}, TrainingPosition{5, -1, 0}, TrainingPosition{5, 1, -1}}) {
    CheckpointContents state = state_at(10);
    state.position = position;
    CHECK_THROWS_WITH(save_checkpoint(folder / "x.json", state),
                      ContainsSubstring("expected at least a step for each epoch"));
    CHECK_FALSE(std::filesystem::exists(folder / "x.safetensors"));
  }
}

}  // namespace
}  // namespace ringtape::test
