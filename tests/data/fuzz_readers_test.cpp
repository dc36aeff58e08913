#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <limits>
#include <set>

#include "core/memory.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "nn/hugging_face.h"
#include "optim/checkpoint.h"
#include "tests/fuzz/gpt_readers.h"
#include "tests/fuzz/mutator.h"
#include "tests/fuzz/readers.h"
#include "tests/support/catch.h"
#include "tests/support/gzip_text.h"
#include "tests/support/temporary_folder.h"
#include "text/byte_tokenizer.h"
#include "text/token_file.h"

// Damaged files must give an Error or load; nothing else, and no allocation out of proportion. An ordinary
// run tries a fixed number of inputs, always the same. With RINGTAPE_FUZZ_SECONDS every reader is fuzzed for
// that long, starting from RINGTAPE_FUZZ_SEED. tests/fuzz/libfuzzer.sh fuzzes the same readers guided by
// coverage.
using namespace ringtape;
using std::string_literals::operator""s;

namespace {

using Reader = std::function<std::optional<std::string>(const std::string&)>;

/// Makes allocations fail that exceed the process's current size by 256 MB: more than any correct reader
/// needs for the small inputs here. Sanitizers reserve terabytes of addresses, so under them their own limit
/// (ASAN_OPTIONS=max_allocation_size_mb=256) must do.
class AddressSpaceLimit {
 public:
  AddressSpaceLimit() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    getrlimit(RLIMIT_AS, &old_);
    rlimit limit = old_;
    std::ifstream statm("/proc/self/statm");
    rlim_t pages = 0;
    if (statm >> pages) limit.rlim_cur = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + 256'000'000;
    setrlimit(RLIMIT_AS, &limit);
#endif
  }
  ~AddressSpaceLimit() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    setrlimit(RLIMIT_AS, &old_);
#endif
  }
  AddressSpaceLimit(const AddressSpaceLimit&) = delete;
  AddressSpaceLimit& operator=(const AddressSpaceLimit&) = delete;

 private:
  rlimit old_{};
};

// Gives `read` damaged files made from `seeds`. With `pack` every other input is gzipped after it was
// damaged, so that the damage is not just a wrong checksum.
void fuzz_reader(const char* name, const std::vector<std::string>& seeds, const Reader& read,
                 bool pack = false) {
  const char* const seconds_text = std::getenv("RINGTAPE_FUZZ_SECONDS");
  const char* const seed_text = std::getenv("RINGTAPE_FUZZ_SEED");
  const double seconds = seconds_text ? std::atof(seconds_text) : std::numeric_limits<double>::infinity();
  const std::int64_t most = seconds_text ? INT64_MAX : 20'000;
  fuzz::Mutator mutator(seed_text ? std::strtoull(seed_text, nullptr, 10) : 1);

  for (const std::string& seed : seeds) CHECK(read(seed) == std::nullopt);
  const AddressSpaceLimit limit;
  const auto start = std::chrono::steady_clock::now();
  std::int64_t inputs = 0;
  std::int64_t refused = 0;
  while (inputs < most &&
         std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < seconds) {
    std::string input = mutator.mutate(seeds);
    if (pack && mutator.one_in(2)) input = gzip_text(input);
    ++inputs;
    try {
      refused += read(input).has_value();
    } catch (const std::exception& error) {
      const std::filesystem::path kept = std::filesystem::temp_directory_path() / ("ringtape-fuzz-"s + name);
      write_text(kept, input);
      FAIL(name << ", input " << inputs << ", kept as " << kept << ": " << error.what());
    }
    empty_cache(Device{});
  }
  CHECK(refused > inputs / 2);
  if (seconds_text) WARN(name << ": " << inputs << " inputs, " << refused << " refused");
}

}  // namespace

TEST_CASE("fuzz: IDX", "[fuzz]") {
  const std::string matrix = "\0\0\10\2\0\0\0\2\0\0\0\3"s + "abcdef";
  const std::string cube = "\0\0\10\3\0\0\0\1\0\0\0\2\0\0\0\2"s + "abcd";
  const std::string list = "\0\0\10\1\0\0\1\0"s + std::string(256, '\5');
  fuzz_reader("idx", {matrix, cube, list}, fuzz::read_idx, true);
  fuzz_reader("idx.gz", {gzip_text(list)}, fuzz::read_idx);
}

TEST_CASE("fuzz: safetensors", "[fuzz]") {
  const bool has_memory_disk = std::filesystem::is_directory("/dev/shm");
  const TemporaryFolder folder(has_memory_disk ? "/dev/shm" : std::filesystem::temp_directory_path());
  const std::string header = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                             R"("b":{"dtype":"U8","shape":[1,2],"data_offsets":[8,10]}} )";
  const std::string small =
      std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') + header + "0123456789";
  fuzz_reader("safetensors", {small, read_text(RINGTAPE_TEST_DATA "/python.safetensors")},
              [&folder](const std::string& input) { return fuzz::read_safetensors(input, folder / "x"); });
}

TEST_CASE("fuzz: checkpoints", "[fuzz]") {
  const bool has_memory_disk = std::filesystem::is_directory("/dev/shm");
  const TemporaryFolder folder(has_memory_disk ? "/dev/shm" : std::filesystem::temp_directory_path());
  CheckpointContents state;
  state.position = {.step = 7, .epoch = 1, .samples = 64};
  state.settings = {{"--lr", "0.1"}, {"--seed", "0"}};
  state.tensors = {{"x", from_vector<float>({1, 2}, {2})}};
  save_checkpoint(folder / "x.json", state);
  const std::string text = read_text(folder / "x.json");
  fuzz_reader("checkpoint", {text.substr(text.find('\n') + 1)}, [&folder](const std::string& input) {
    return fuzz::read_checkpoint(input, folder / "x.json");
  });
}

TEST_CASE("fuzz: merges of a tokenizer", "[fuzz]") {
  fuzz_reader("merges", {"#version: 0.2\nt h\nth e\n\u0120 the\n", "#version: 0.2\na a\naa aa\naaaa a\n"},
              fuzz::read_merges);
}

TEST_CASE("fuzz: files of tokens", "[fuzz]") {
  const bool has_memory_disk = std::filesystem::is_directory("/dev/shm");
  const TemporaryFolder folder(has_memory_disk ? "/dev/shm" : std::filesystem::temp_directory_path());
  const ByteTokenizer tokenizer;
  save_tokens(folder / "x", Tokens(tokenizer.encode("to be or not to be"), tokenizer));
  fuzz_reader("tokens", {read_text(folder / "x")},
              [&folder](const std::string& input) { return fuzz::read_tokens(input, folder / "x"); });
}

TEST_CASE("fuzz: texts", "[fuzz]") {
  fuzz_reader(
      "text",
      {"\u00e4\u20ac\U00010348\u4e2d\u6587", "the \u03b1\u03b2\u03b3 aaaaaaa\u00a0\u3000 it's 12\u00bd"},
      fuzz::encode_text);
}

TEST_CASE("fuzz: folders of transformers", "[fuzz]") {
  const bool has_memory_disk = std::filesystem::is_directory("/dev/shm");
  const TemporaryFolder folder(has_memory_disk ? "/dev/shm" : std::filesystem::temp_directory_path());
  const TransformerOptions sizes{.vocabulary = 5, .context = 4, .layers = 1, .heads = 2, .width = 4};
  GPT gpt2(sizes), llama(llama_options(sizes));

  save_gpt(llama, folder / "llama");
  save_gpt(gpt2, folder / "gpt2");
  const std::string config = read_text(folder / "gpt2" / "config.json");
  fuzz_reader("config.json", {config, read_text(folder / "llama" / "config.json")},
              [&](const std::string& input) { return fuzz::read_gpt_config(input, folder / "llama"); });

  const std::string weights = read_text(folder / "gpt2" / "model.safetensors");
  fuzz_reader("model.safetensors", {weights}, [&](const std::string& input) {
    return fuzz::read_gpt(input, folder / "gpt2", "model.safetensors");
  });

  std::filesystem::remove(folder / "gpt2" / "model.safetensors");  // else the index is not read
  write_text(folder / "gpt2" / "shard.safetensors", weights);
  Json::Object map;
  const SafetensorsFile file(folder / "gpt2" / "shard.safetensors");
  for (const auto& entry : file.entries()) {
    map.push_back({entry.name, "shard.safetensors"});
  }
  const std::string index = Json(Json::Object{{"metadata", Json::Object{}}, {"weight_map", map}}).dump(2);
  fuzz_reader("index.json", {index}, [&](const std::string& input) {
    return fuzz::read_gpt(input, folder / "gpt2", "model.safetensors.index.json");
  });
}

TEST_CASE("fuzz: CSV", "[fuzz]") {
  fuzz_reader("csv",
              {"1,2,3\n4,5,6\n7,8,9\n", "a,b\r\n-1.5,2e3\r\n1e-5,0\r\n", "1 ,\t2\n",
               "\"a, \"\"b\"\"\",\"c\nd\"\n\"+1\" ,\"2\"\r\n3,\" 4\"\n"},
              fuzz::read_csv);
}
