// Coverage-guided fuzzing of one reader with libFuzzer; tests/fuzz/libfuzzer.sh builds and runs it. The macro
// RINGTAPE_FUZZ_READER names the reader.
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/memory.h"
#include "tests/fuzz/readers.h"

namespace ringtape::fuzz {
namespace {

[[maybe_unused]] std::optional<std::string> idx(const std::string& input) {
  return read_idx(input);
}
[[maybe_unused]] std::optional<std::string> csv(const std::string& input) {
  return read_csv(input);
}

[[maybe_unused]] std::optional<std::string> merges(const std::string& input) {
  return read_merges(input);
}
[[maybe_unused]] std::optional<std::string> text(const std::string& input) {
  return encode_text(input);
}

std::filesystem::path memory_file() {
  return "/dev/shm/ringtape-fuzz-" + std::to_string(getpid());
}
[[maybe_unused]] std::optional<std::string> safetensors(const std::string& input) {
  static const std::filesystem::path file = memory_file();
  return read_safetensors(input, file);
}
[[maybe_unused]] std::optional<std::string> tokens(const std::string& input) {
  static const std::filesystem::path file = memory_file();
  return read_tokens(input, file);
}

}  // namespace
}  // namespace ringtape::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ringtape::fuzz::RINGTAPE_FUZZ_READER(std::string(reinterpret_cast<const char*>(data), size));
  ringtape::empty_cache(ringtape::Device{});
  return 0;
}
