#include "data/loader.h"

#include <atomic>
#include <chrono>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>

#include "core/error.h"
#include "core/philox.h"
#include "data/sampler.h"
#include "tests/support/catch.h"

using namespace ringtape;

namespace {

/// Sample i has the features [i, i + 0.5] and the target -i.
TensorDataset numbered(std::int64_t samples) {
  std::vector<float> features;
  std::vector<std::int64_t> targets;
  for (std::int64_t i = 0; i < samples; ++i) {
    features.push_back(static_cast<float>(i));
    features.push_back(static_cast<float>(i) + 0.5f);
    targets.push_back(-i);
  }
  return {from_vector(features, {samples, 2}), from_vector(targets, {samples})};
}

/// Throws at sample `bad`, and counts its reads.
class FailingDataset : public Dataset {
 public:
  FailingDataset(std::int64_t samples, std::int64_t bad) : samples_(numbered(samples)), bad_(bad) {}
  std::int64_t size() const override { return samples_.size(); }
  SampleLayout features() const override { return samples_.features(); }
  SampleLayout target() const override { return samples_.target(); }
  void read(std::span<const std::int64_t> indices, void* features, void* targets) const override {
    ++reads;
    for (std::int64_t index : indices) {
      if (index == bad_) throw std::runtime_error(fmt::format("sample {} is unreadable", index));
    }
    samples_.read(indices, features, targets);
  }
  mutable std::atomic<int> reads = 0;

 private:
  TensorDataset samples_;
  std::int64_t bad_;
};

DataLoader make_loader(std::int64_t samples, DataLoaderOptions options, std::uint64_t seed = 5) {
  return {std::make_shared<TensorDataset>(numbered(samples)), std::make_shared<RandomSampler>(samples, seed),
          options};
}

// The samples of the rest of the epoch in order. Checks each batch's layout and contents on the way.
std::vector<std::int64_t> drain(DataLoader& loader, std::int64_t batch_size) {
  std::vector<std::int64_t> samples;
  std::int64_t first = -1;
  while (std::optional<Batch> batch = loader.next()) {
    if (first >= 0) REQUIRE(batch->first() == first);
    first = batch->first() + batch->size();
    REQUIRE(batch->size() <= batch_size);
    REQUIRE(batch->features().shape() == Shape{batch->size(), 2});
    REQUIRE(batch->targets().shape() == Shape{batch->size()});
    const std::vector<float> features = batch->features().to_vector<float>();
    const std::vector<std::int64_t> targets = batch->targets().to_vector<std::int64_t>();
    for (std::size_t row = 0; row < targets.size(); ++row) {
      REQUIRE(features[2 * row] == static_cast<float>(-targets[row]));
      REQUIRE(features[2 * row + 1] == static_cast<float>(-targets[row]) + 0.5f);
      samples.push_back(-targets[row]);
    }
  }
  return samples;
}

std::vector<std::int64_t> without_first(std::vector<std::int64_t> samples, std::int64_t count) {
  samples.erase(samples.begin(), samples.begin() + count);
  return samples;
}

// The permutation of data/sampler.h, written another way: long division in base 2^32 instead of 128-bit
// products.
std::vector<std::int64_t> plain_shuffle(std::int64_t n, std::uint64_t seed, std::uint64_t epoch) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (std::uint64_t i = static_cast<std::uint64_t>(n) - 1; i >= 1; --i) {
    const on_cpu::Philox4 words = on_cpu::philox4x32_10(seed, i, 0x8000000000000000u + epoch);
    const std::uint64_t low = words.x * (i + 1);  // i + 1 < 2^32
    const std::uint64_t j = (words.y * (i + 1) + (low >> 32)) >> 32;
    std::swap(order[i], order[j]);
  }
  return order;
}

}  // namespace

TEST_CASE("sampler: the documented shuffle", "[loader]") {
  for (std::int64_t n : {1, 2, 3, 10, 1000, 60000}) {
    for (std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
      const RandomSampler sampler(n, seed);
      // In double parentheses, so that a failure does not print 60,000 numbers.
      CHECK((sampler.order(0) == plain_shuffle(n, seed, 0)));
      CHECK((sampler.order(17) == plain_shuffle(n, seed, 17)));
    }
  }
  CHECK(RandomSampler(1000, 1).order(0) != RandomSampler(1000, 1).order(1));
  CHECK(RandomSampler(1000, 1).order(0) != RandomSampler(1000, 2).order(0));
  CHECK(SequentialSampler(4).order(9) == std::vector<std::int64_t>{0, 1, 2, 3});
}

TEST_CASE("sampler: all permutations are equally likely", "[loader]") {
  std::map<std::vector<std::int64_t>, int> counts;
  constexpr int kEpochs = 24'000;
  for (int epoch = 0; epoch < kEpochs; ++epoch) ++counts[RandomSampler(4, 11).order(epoch)];
  CHECK(counts.size() == 24);
  double chi_squared = 0;
  for (const auto& [order, count] : counts) chi_squared += (count - 1000.0) * (count - 1000.0) / 1000.0;
  CHECK(chi_squared < 49.73);  // 23 degrees of freedom: exceeded with probability 0.001
}

TEST_CASE("loader: batches in the sampler's order, whatever the threads", "[loader]") {
  const std::vector<std::int64_t> order = RandomSampler(1003, 5).order(2);
  for (int threads : {0, 1, 2, 5}) {
    for (std::int64_t ahead : {1, 2, 3, 16, 1'000'000'000}) {
      INFO(threads << " threads, " << ahead << " batches ahead");
      DataLoader loader =
          make_loader(1003, {.batch_size = 10, .prefetch_threads = threads, .prefetch_batches = ahead});
      CHECK(loader.batches_per_epoch() == 101);
      loader.start_epoch(2);
      CHECK(drain(loader, 10) == order);
      CHECK_FALSE(loader.next());
    }
  }
}

TEST_CASE("loader: drop_last", "[loader]") {
  for (int threads : {0, 2}) {
    DataLoader loader = make_loader(1003, {.batch_size = 10, .drop_last = true, .prefetch_threads = threads});
    CHECK(loader.batches_per_epoch() == 100);
    CHECK(loader.samples_per_epoch() == 1000);
    loader.start_epoch(0);
    std::vector<std::int64_t> order = RandomSampler(1003, 5).order(0);
    order.resize(1000);
    CHECK(drain(loader, 10) == order);
  }
  DataLoader exact = make_loader(20, {.batch_size = 10, .drop_last = true});
  CHECK(exact.batches_per_epoch() == 2);
}

TEST_CASE("loader: a batch larger than the dataset", "[loader]") {
  DataLoader loader = make_loader(3, {.batch_size = INT64_MAX});
  loader.start_epoch(0, 1);
  CHECK(drain(loader, 2).size() == 2);
}

TEST_CASE("loader: epochs begin again, and in the middle", "[loader]") {
  for (int threads : {0, 1, 3}) {
    INFO(threads << " threads");
    DataLoader loader =
        make_loader(1003, {.batch_size = 10, .prefetch_threads = threads, .prefetch_batches = 4});
    const auto order = [](std::int64_t epoch) { return RandomSampler(1003, 5).order(epoch); };
    loader.start_epoch(0);
    for (int i = 0; i < 7; ++i) loader.next();
    loader.start_epoch(0);  // with batches still waiting
    CHECK(drain(loader, 10) == order(0));
    loader.start_epoch(1, 990);
    CHECK(drain(loader, 10) == without_first(order(1), 990));
    loader.start_epoch(1, 1003);
    CHECK(drain(loader, 10).empty());

    loader.seek(3 * 1003 + 70);
    CHECK(loader.epoch() == 3);
    CHECK(loader.next()->first() == 70);
    CHECK(drain(loader, 10) == without_first(order(3), 80));
    loader.seek(2 * 1003);
    CHECK(loader.epoch() == 2);
    CHECK(drain(loader, 10) == order(2));
  }
}

TEST_CASE("loader: a user may hold more batches than are prefetched", "[loader]") {
  DataLoader loader = make_loader(1000, {.batch_size = 10, .prefetch_threads = 2, .prefetch_batches = 2});
  loader.start_epoch(0);
  std::vector<Batch> held;
  while (std::optional<Batch> batch = loader.next()) held.push_back(*batch);
  REQUIRE(held.size() == 100);
  std::vector<std::int64_t> samples;
  for (const Batch& batch : held) {
    for (std::int64_t target : batch.targets().to_vector<std::int64_t>()) samples.push_back(-target);
  }
  CHECK(samples == RandomSampler(1000, 5).order(0));
}

TEST_CASE("loader: memory is reused once nothing holds it, and not before", "[loader]") {
  DataLoader loader = make_loader(1000, {.batch_size = 10, .prefetch_threads = 0});
  loader.start_epoch(0);
  std::set<const void*> addresses;
  Tensor kept;  // a tensor made from a batch keeps the memory
  std::vector<float> values;
  for (int i = 0; i < 50; ++i) {
    const std::optional<Batch> batch = loader.next();
    addresses.insert(batch->features().raw());
    if (i == 20) {
      kept = batch->features();
      values = kept.to_vector<float>();
    }
  }
  CHECK(addresses.size() <= 3);
  CHECK(kept.to_vector<float>() == values);
}

TEST_CASE("loader: batches outlive the loader", "[loader]") {
  std::optional<Batch> batch;
  {
    DataLoader loader = make_loader(100, {.batch_size = 10});
    loader.start_epoch(0);
    batch = loader.next();
  }
  CHECK(batch->targets().to_vector<std::int64_t>().size() == 10);
}

TEST_CASE("loader: an exception of the dataset reaches the user at its place", "[loader]") {
  for (int threads : {0, 1, 3}) {
    INFO(threads << " threads");
    const auto dataset = std::make_shared<FailingDataset>(100, 37);
    DataLoader loader(dataset, std::make_shared<SequentialSampler>(100),
                      {.batch_size = 10, .prefetch_threads = threads, .prefetch_batches = 4});
    loader.start_epoch(0);
    for (int i = 0; i < 3; ++i) CHECK(loader.next()->first() == 10 * i);
    CHECK_THROWS_WITH(loader.next(), "sample 37 is unreadable");
    CHECK_FALSE(loader.next());
    loader.start_epoch(0, 40);
    CHECK(drain(loader, 10).size() == 60);
  }
}

TEST_CASE("loader: as many batches are read ahead as asked for, and no more", "[loader]") {
  const auto dataset = std::make_shared<FailingDataset>(1000, -1);
  DataLoader loader(dataset, std::make_shared<SequentialSampler>(1000),
                    {.batch_size = 1, .prefetch_threads = 3, .prefetch_batches = 8});
  loader.start_epoch(0);
  for (int i = 0; i < 10'000 && dataset->reads < 8; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(dataset->reads == 8);
  for (int taken = 1; taken <= 50; ++taken) {
    loader.next();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CHECK(dataset->reads <= taken + 8);
  }
}

TEST_CASE("loader: after an exception nothing more is read ahead", "[loader]") {
  const auto dataset = std::make_shared<FailingDataset>(100'000, 0);
  DataLoader loader(dataset, std::make_shared<SequentialSampler>(100'000),
                    {.batch_size = 1, .prefetch_threads = 3, .prefetch_batches = 8});
  loader.start_epoch(0);
  CHECK_THROWS_WITH(loader.next(), "sample 0 is unreadable");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(dataset->reads <= 8);
}

TEST_CASE("loader: destroyed early, at any moment", "[loader]") {
  for (int i = 0; i < 200; ++i) {
    DataLoader loader =
        make_loader(1000, {.batch_size = 7, .prefetch_threads = 1 + i % 3, .prefetch_batches = 1 + i % 9});
    if (i % 4 == 0) continue;  // not even started
    loader.start_epoch(i);
    for (int taken = 0; taken < i % 20; ++taken) loader.next();
  }
}

TEST_CASE("loader: copies to other tensors", "[loader]") {
  DataLoader loader = make_loader(10, {.batch_size = 4});
  loader.start_epoch(0);
  const std::optional<Batch> batch = loader.next();
  const Tensor features = empty({4, 2});
  const Tensor targets = empty({4}, DType::i64);
  batch->copy_to(features, targets);
  CHECK(features.to_vector<float>() == batch->features().to_vector<float>());
  CHECK(targets.to_vector<std::int64_t>() == batch->targets().to_vector<std::int64_t>());
  CHECK_THROWS_AS(batch->copy_to(empty({5, 2}), targets), Error);
  CHECK(batch->to(Device{}).first.raw() == batch->features().raw());
}

TEST_CASE("loader: arguments that make no sense", "[loader]") {
  CHECK_THROWS_WITH(make_loader(10, {.batch_size = 0}),
                    ContainsSubstring("batch size 0, expected at least 1"));
  CHECK_THROWS_WITH(make_loader(10, {.prefetch_threads = -1}), ContainsSubstring("-1 prefetch threads"));
  CHECK_THROWS_WITH(make_loader(10, {.prefetch_batches = 0}), ContainsSubstring("0 batches to prefetch"));
  CHECK_THROWS_WITH(make_loader(10, {.batch_size = 11, .drop_last = true}),
                    ContainsSubstring("10 samples make no batch of 11"));
  const auto dataset = std::make_shared<TensorDataset>(numbered(5));
  CHECK_THROWS_WITH(DataLoader(dataset, nullptr, {}), ContainsSubstring("the sampler is null"));
  CHECK_THROWS_WITH(DataLoader(nullptr, std::make_shared<SequentialSampler>(5), {}),
                    ContainsSubstring("the dataset is null"));
  CHECK_THROWS_WITH(SequentialSampler(-1), ContainsSubstring("-1 samples, expected at least 0"));
  CHECK_THROWS_WITH(RandomSampler(-1, 0), ContainsSubstring("-1 samples, expected at least 0"));
  DataLoader loader = make_loader(10, {});
  CHECK_THROWS_WITH(loader.next(), ContainsSubstring("next() before start_epoch()"));
  CHECK_THROWS_WITH(loader.start_epoch(0, 11),
                    ContainsSubstring("sample 11: expected epoch 0 or later, sample 0 to 10"));
  CHECK_THROWS_WITH(loader.start_epoch(-1), ContainsSubstring("epoch -1"));
  CHECK_THROWS_WITH(loader.seek(-1), ContainsSubstring("seek to sample -1"));

  DataLoader beyond(dataset, std::make_shared<SequentialSampler>(6), {});
  beyond.start_epoch(0);
  CHECK_THROWS_WITH(beyond.next(), ContainsSubstring("there is no sample 5 among 5"));
}

TEST_CASE("dataset: slices and bad tables", "[loader]") {
  const TensorDataset all = numbered(10);
  const TensorDataset part = all.slice(3, 4);
  CHECK(part.all_features().to_vector<float>() == std::vector<float>{3, 3.5, 4, 4.5, 5, 5.5, 6, 6.5});
  CHECK(part.all_targets().to_vector<std::int64_t>() == std::vector<std::int64_t>{-3, -4, -5, -6});
  CHECK_THROWS_WITH(all.slice(3, 8), ContainsSubstring("8 samples from 3 on, expected a part of 10"));
  CHECK_THROWS_WITH(TensorDataset(empty({3, 2}), empty({4})),
                    ContainsSubstring("3 rows of features and 4 of targets"));
  CHECK_THROWS_WITH(TensorDataset(empty({3, 2}), Tensor()), ContainsSubstring("an undefined tensor"));
  CHECK_THROWS_WITH(TensorDataset(empty({0, 2}), empty({0})), ContainsSubstring("at least one row"));
}
