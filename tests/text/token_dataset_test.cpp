#include "text/token_dataset.h"

#include <map>
#include <memory>
#include <numeric>

#include "core/error.h"
#include "data/loader.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "text/byte_tokenizer.h"
#include "text/character_tokenizer.h"

namespace ringtape::test {
namespace {

using Ids = std::vector<std::int32_t>;
using Windows = TokenDataset::Windows;

/// 0, 1, 2, ...
Tokens counting(std::int32_t count) {
  Ids ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), 0);
  return Tokens(ids, ByteTokenizer());
}

struct Sample {
  Ids features, targets;
};

Sample sample_of(const Dataset& data, std::int64_t index) {
  const auto length = static_cast<std::size_t>(data.features().shape.elements());
  Sample sample{Ids(length, -1), Ids(length, -1)};
  data.read(std::vector<std::int64_t>{index}, sample.features.data(), sample.targets.data());
  return sample;
}

TEST_CASE("tokens: parts and errors", "[text]") {
  const CharacterTokenizer tokenizer("abcd");
  const Tokens tokens(tokenizer.encode("abcdabc"), tokenizer);
  CHECK(tokens.size() == 7);
  CHECK(tokens.vocabulary_size() == 4);
  const Tokens middle = tokens.slice(1, 5).slice(1, 3);
  Ids ids(3);
  middle.read(0, 3, ids.data());
  CHECK(ids == Ids{2, 3, 0});
  CHECK(error_of([&] { middle.read(1, 3, ids.data()); }) ==
        "memory: 3 tokens from 1 on, expected a part of 3");
  CHECK_THROWS_AS(middle.read(-1, 1, ids.data()), Error);
  CHECK_THROWS_AS(middle.read(INT64_MAX, 2, ids.data()), Error);
  CHECK_THROWS_AS(tokens.slice(3, 5), Error);
  CHECK_THROWS_AS(tokens.slice(-1, 2), Error);
  CHECK_THROWS_AS(Tokens(Ids{0, 4}, tokenizer), Error);

  CHECK(error_of([&] { tokens.expect(tokenizer); }) == "");
  const CharacterTokenizer other("abce");
  CHECK(error_of([&] { tokens.expect(other); }) ==
        "memory: holds tokens of the tokenizer " + tokenizer.name() + ", expected those of " + other.name());
  CHECK(tokens.checksum() != tokens.slice(0, 6).checksum());
  CHECK(tokens.slice(0, 6).checksum() != tokens.slice(1, 6).checksum());
  CHECK(tokens.checksum() == Tokens(tokenizer.encode("abcdabc"), tokenizer).checksum());
}

TEST_CASE("all windows: a sample for each position", "[text]") {
  const TokenDataset data(counting(10), 4, Windows::all);
  CHECK(data.size() == 6);
  for (std::int32_t i = 0; i < 6; ++i) {
    const Sample sample = sample_of(data, i);
    CHECK(sample.features == Ids{i, i + 1, i + 2, i + 3});
    CHECK(sample.targets == Ids{i + 1, i + 2, i + 3, i + 4});
  }
  CHECK_THROWS_AS(sample_of(data, 6), Error);
  CHECK_THROWS_AS(sample_of(data, -1), Error);
  CHECK(data.targets_per_sample() == 4);
  CHECK(TokenDataset(counting(5), 4, Windows::all).size() == 1);
}

TEST_CASE("consecutive windows: each token but the first is a target exactly once", "[text]") {
  for (std::int32_t count = 2; count <= 40; ++count) {
    for (std::int64_t length = 1; length < count; ++length) {
      const TokenDataset data(counting(count), length, Windows::consecutive);
      Ids targets;
      for (std::int64_t i = 0; i < data.size(); ++i) {
        const Sample sample = sample_of(data, i);
        for (std::size_t t = 0; t < sample.targets.size(); ++t) {
          if (sample.targets[t] == -100) {
            if (i + 1 < data.size() || sample.features[t] != 0) FAIL("a hole in window " << i);
          } else {
            if (sample.features[t] != sample.targets[t] - 1) FAIL("not the token before");
            targets.push_back(sample.targets[t]);
          }
        }
      }
      Ids expected(static_cast<std::size_t>(count) - 1);
      std::iota(expected.begin(), expected.end(), 1);
      if (targets != expected) FAIL(count << " tokens in windows of " << length);
    }
  }
  CHECK(TokenDataset(counting(11), 5, Windows::consecutive).targets_per_sample() == 5);
  const TokenDataset data(counting(8), 5, Windows::consecutive);
  CHECK_FALSE(data.targets_per_sample());
  CHECK(sample_of(data, 1).features == Ids{5, 6, 0, 0, 0});
  CHECK(sample_of(data, 1).targets == Ids{6, 7, -100, -100, -100});
}

TEST_CASE("windows longer than the text, and windows of an empty text, are refused", "[text]") {
  CHECK(error_of([] { TokenDataset(counting(4), 4, Windows::all); }) ==
        "memory: has 4 tokens, expected more than 4 for a window of 4 and the token that follows it");
  CHECK(error_of([] { TokenDataset(counting(4), 9, Windows::consecutive); }) ==
        "memory: has 4 tokens, expected more than 9 for a window of 9 and the token that follows it");
  CHECK(error_of([] { TokenDataset(counting(0), 1, Windows::all); }) ==
        "memory: has 0 tokens, expected more than 1 for a window of 1 and the token that follows it");
  CHECK(error_of([] { TokenDataset(counting(4), 0, Windows::all); }) ==
        "TokenDataset: windows of 0 tokens, expected at least 1");
  CHECK_THROWS_AS(TokenDataset(counting(4), INT64_MAX, Windows::all), Error);
}

TEST_CASE("sequences of different lengths are padded", "[text]") {
  const SequenceDataset data({{1, 2, 3}, {4, 5}, {6, 7, 8, 9}}, 10, 3);
  CHECK(data.size() == 3);
  CHECK(sample_of(data, 0).features == Ids{1, 2, 0});
  CHECK(sample_of(data, 0).targets == Ids{2, 3, -100});
  CHECK(sample_of(data, 1).features == Ids{4, 0, 0});
  CHECK(sample_of(data, 1).targets == Ids{5, -100, -100});
  CHECK(sample_of(data, 2).features == Ids{6, 7, 8});
  CHECK(sample_of(data, 2).targets == Ids{7, 8, 9});
  CHECK_THROWS_AS(sample_of(data, 3), Error);
  CHECK(error_of([] {
          SequenceDataset({{1, 2}, {1, 2}}, 10, 0);
        }) == "SequenceDataset: samples of 0 tokens, expected at least 1");
  CHECK(error_of([] { SequenceDataset({}, 10, 3); }) ==
        "SequenceDataset: found no sequences, expected at least one");
  CHECK(error_of([] {
          SequenceDataset({{1, 2}, {3}}, 10, 3);
        }) ==
        "SequenceDataset: sequence 1 has 1 token, expected 2 or more tokens, and at most 3 before the last");
  CHECK(error_of([] {
          SequenceDataset({{1, 2, 3, 4, 5}}, 10, 3);
        }) ==
        "SequenceDataset: sequence 0 has 5 tokens, expected 2 or more tokens, and at most 3 before the last");
  CHECK(error_of([] {
          SequenceDataset({{1, 10}}, 10, 3);
        }) == "SequenceDataset: sequence 0 has the token 10, expected 0 to 9");
}

std::vector<std::int64_t> starts_of(const Batch& batch) {
  std::vector<std::int64_t> starts;
  const Ids features = batch.features().to_vector<std::int32_t>();
  const auto length = static_cast<std::size_t>(batch.features().size(1));
  for (std::size_t i = 0; i < features.size(); i += length) starts.push_back(features[i]);
  return starts;
}

// The global batch is the same with any number of ranks, also after a resumption.
TEST_CASE("random windows do not depend on the number of ranks, and continue where a run stopped", "[text]") {
  constexpr std::int64_t kBatch = 12, kDraws = 120;
  const auto data = std::make_shared<TokenDataset>(counting(250), 8, Windows::all);
  const auto order = std::make_shared<ReplacementSampler>(data->size(), kDraws, 7);
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    const std::vector<std::int64_t> expected = order->order(epoch);
    for (int ranks = 1; ranks <= 4; ++ranks) {
      for (const std::int64_t consumed : {std::int64_t{0}, 3 * kBatch}) {
        std::map<std::int64_t, std::int64_t> found;  // by place in the order
        for (int rank = 0; rank < ranks; ++rank) {
          const auto own = std::make_shared<DistributedSampler>(order, rank, ranks);
          DataLoader loader(data, own, {.batch_size = kBatch / ranks});
          loader.start_epoch(epoch, own->own_of(consumed));
          std::int64_t place = consumed + rank;
          while (const std::optional<Batch> batch = loader.next()) {
            for (const std::int64_t start : starts_of(*batch)) {
              found[place] = start;
              place += ranks;
            }
          }
        }
        CHECK(static_cast<std::int64_t>(found.size()) == kDraws - consumed);
        for (const auto& [place, start] : found) {
          if (start != expected[static_cast<std::size_t>(place)])
            FAIL("draw " << place << " on " << ranks << " ranks");
        }
      }
    }
  }
}

}  // namespace
}  // namespace ringtape::test
