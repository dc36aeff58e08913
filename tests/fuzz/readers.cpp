#include "tests/fuzz/readers.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include "data/csv.h"
#include "data/gzip.h"
#include "data/idx.h"
#include "io/checksum.h"
#include "io/safetensors.h"
#include "optim/checkpoint.h"
#include "tests/fuzz/error_of.h"
#include "text/bpe_tokenizer.h"
#include "text/byte_tokenizer.h"
#include "text/character_tokenizer.h"
#include "text/streaming_decoder.h"
#include "text/token_file.h"

namespace ringtape::fuzz {
namespace {

// The text that a tokenizer gives back, token by token.
std::string through(const Tokenizer& tokenizer, const std::string& text) {
  StreamingDecoder decoder(tokenizer);
  std::string result;
  for (const std::int32_t id : tokenizer.encode(text)) result += decoder.push(id);
  return result + decoder.finish();
}

}  // namespace

std::optional<std::string> read_idx(const std::string& input) {
  return error_of([&input] {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(input.data());
    const std::span<const std::uint8_t> file(bytes, input.size());
    const int dims = input.size() > 3 && bytes[3] >= 1 && bytes[3] <= 4 ? bytes[3] : 1;
    const Tensor values = parse_idx(file, dims, "FILE");
    const std::size_t header = 4 + 4 * static_cast<std::size_t>(dims);
    expect(is_gzip(file) || input.size() == header + values.bytes(),
           "an IDX file of another length was accepted");
  });
}

std::optional<std::string> read_csv(const std::string& input) {
  return error_of([&input] {
    const TensorDataset table = parse_csv(input, "FILE");
    for (const Tensor& part : {table.all_features(), table.all_targets()}) {
      for (float value : part.to_vector<float>()) expect(std::isfinite(value), "a number that is not finite");
    }
  });
}

std::optional<std::string> read_safetensors(const std::string& input, const std::filesystem::path& path) {
  std::ofstream(path, std::ios::binary) << input;
  return error_of([&input, &path] {
    const SafetensorsFile file(path);
    std::size_t bytes = 0;
    for (const SafetensorsFile::Entry& entry : file.entries()) {
      if (!entry.dtype) continue;
      const Tensor tensor = file.load(entry.name, *entry.dtype, entry.shape);
      const std::string_view loaded(static_cast<const char*>(tensor.raw()), tensor.bytes());
      expect(loaded == input.substr(entry.offset, entry.bytes), "a tensor has other bytes than the file");
      bytes += tensor.bytes();
    }
    expect(bytes <= input.size() - 8, "more data than the file holds");
  });
}

std::string checkpoint_json(const std::string& body) {
  return fmt::format("{{\"crc32\": \"{:08x}\",\n", crc32(0, body.data(), body.size())) + body;
}

std::optional<std::string> read_checkpoint(const std::string& input, const std::filesystem::path& json) {
  std::ofstream(json, std::ios::binary) << checkpoint_json(input);
  return error_of([&json] {
    const Checkpoint checkpoint(json);
    const TrainingPosition& position = checkpoint.position();
    expect(position.step >= 0 && position.samples >= 0, "a position before the start");
    expect(position.epoch >= 0 && position.epoch <= position.step, "more epochs than updates");
  });
}

std::optional<std::string> read_merges(const std::string& input) {
  return error_of([&input] {
    const auto lines = std::count(input.begin(), input.end(), '\n');
    const BpeTokenizer tokenizer(
        parse_bpe_merges(input, "FILE", std::clamp<std::int64_t>(lines - 1, 0, 100)));
    expect(tokenizer.vocabulary_size() == 256 + lines,
           "a token for each byte, for each merge and for the end");
    expect(through(tokenizer, "the cat sat on the mat") == "the cat sat on the mat", "other text");
  });
}

std::optional<std::string> read_tokens(const std::string& input, const std::filesystem::path& path) {
  std::ofstream(path, std::ios::binary) << input;
  return error_of([&input, &path] {
    const Tokens tokens = open_tokens(path);
    std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens.size()));
    expect(2 * ids.size() <= input.size(), "more tokens than the file holds");
    tokens.read(0, tokens.size(), ids.data());
    for (const std::int32_t id : ids) {
      expect(id >= 0 && id < tokens.vocabulary_size(), "a token outside of the vocabulary");
    }
  });
}

std::optional<std::string> encode_text(const std::string& input) {
  static const BpeTokenizer bpe(parse_bpe_merges("#version: 0.2\nt h\nth e\na a\naa aa\n", "merges", 4));
  const auto by = [&input](const Tokenizer& tokenizer) {
    return error_of([&] { expect(through(tokenizer, input) == input, "the tokens decode to another text"); });
  };
  const std::optional<std::string> error = by(ByteTokenizer());
  expect(by(bpe) == error, "two tokenizers differ about a text");
  if (!input.empty()) {
    expect(
        error_of([&] { expect(by(CharacterTokenizer(input)) == std::nullopt, "not its own text"); }) == error,
        "two tokenizers differ about a text");
  }
  return error;
}

}  // namespace ringtape::fuzz
