#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "autograd/ops.h"
#include "dist/data_parallel.h"
#include "lessons/ranks.h"
#include "lessons/tasks/model.h"
#include "lessons/tasks/ranks_in_threads.h"
#include "lessons/tasks/ring/task.h"
#include "lessons/tasks/tests.h"
#include "optim/sgd.h"

namespace ringtape::tasks {
namespace {

using Half = void(const Ring&, std::span<float>);
constexpr int kRanks = 4, kPerChunk = 3, kAll = (1 << kRanks) - 1;

/// Names the ranks whose values 2^rank a sum contains.
std::string ranks_in(float sum) {
  const int bits = static_cast<int>(sum);
  if (bits < 0 || bits > kAll || static_cast<float>(bits) != sum)
    return fmt::format("a sum of {:g}, some rank twice or more", sum);
  std::vector<int> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    if ((bits >> rank & 1) != 0) ranks.push_back(rank);
  }
  if (ranks.empty()) return "no rank's values";
  return fmt::format("the values of {} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, " + "));
}

/// What each rank holds after `half`.
std::vector<std::vector<float>> after(Half* half, std::vector<std::vector<float>> values, const char* name) {
  RanksInThreads ranks(kRanks);
  ranks.run([&](int rank) {
    const Ring ring = {rank, kRanks, [&, rank](std::span<const float> out, std::span<float> in) {
                         ranks.exchange(rank, out, in);
                       }};
    half(ring, values[static_cast<std::size_t>(rank)]);
  });
  for (int rank = 0; rank < kRanks; ++rank) {
    if (ranks.exchanges(rank) != kRanks - 1) {
      wrong("{}: rank {} of {} called exchange {} times, expected {}", name, rank, kRanks,
            ranks.exchanges(rank), kRanks - 1);
    }
  }
  return values;
}

void test_reduce_scatter(Half* reduce_scatter) {
  std::vector<std::vector<float>> values;
  for (int rank = 0; rank < kRanks; ++rank) {
    values.emplace_back(kRanks * kPerChunk, static_cast<float>(1 << rank));
  }
  const auto found = after(reduce_scatter, values, "reduce_scatter");
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    const std::size_t chunk = (rank + 1) % kRanks;
    for (std::size_t i = 0; i < kPerChunk; ++i) {
      const float sum = found[rank][chunk * kPerChunk + i];
      if (sum == kAll) continue;
      const auto held = static_cast<int>(sum);
      if (held > 0 && (held & (held - 1)) == 0) {
        wrong(
            "reduce_scatter: rank {} ends with {} in chunk {}: add what is received to the chunk, do not "
            "replace it",
            rank, ranks_in(sum), chunk);
      }
      wrong(
          "reduce_scatter: rank {} ends with {} in chunk {}, expected the values of all ranks; after step 0 "
          "a "
          "rank passes on the chunk to which it has just added: is it chunk r - s that you send at step s?",
          rank, ranks_in(sum), chunk);
    }
  }
}

void test_all_gather(Half* all_gather) {
  std::vector<std::vector<float>> values;
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    values.emplace_back(kRanks * kPerChunk, -1.0F);  // must be replaced
    const std::size_t complete = (rank + 1) % kRanks;
    for (std::size_t i = 0; i < kPerChunk; ++i) {
      values[rank][complete * kPerChunk + i] = static_cast<float>(100 * complete + i);
    }
  }
  const auto found = after(all_gather, values, "all_gather");
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    for (std::size_t i = 0; i < found[rank].size(); ++i) {
      const std::size_t chunk = i / kPerChunk;
      const float expected = static_cast<float>(100 * chunk + i % kPerChunk), value = found[rank][i];
      if (value == expected) continue;
      if (value == -1) {
        wrong(
            "all_gather: rank {} ends with its old values in chunk {}: at the beginning a rank's complete "
            "chunk is rank + 1; "
            "is that what you send first?",
            rank, chunk);
      }
      wrong("all_gather: element {} of chunk {} on rank {} is {:g}, expected {:g}", i % kPerChunk, chunk,
            rank, value, expected);
    }
  }
}

/// Averages buckets by the learner's two functions.
class LearnersRing : public CommHook {
 public:
  LearnersRing(Half* reduce_scatter, Half* all_gather)
      : reduce_scatter_(reduce_scatter), all_gather_(all_gather) {}

  void launch(Communicator& comm, const Tensor& bucket) override {
    const int n = comm.size(), next = (comm.rank() + 1) % n, previous = (comm.rank() + n - 1) % n;
    const Ring ring = {comm.rank(), n, [&](std::span<const float> out, std::span<float> in) {
                         const auto length = static_cast<std::int64_t>(in.size());
                         const Tensor sent =
                             from_vector(std::vector<float>(out.begin(), out.end()), {length});
                         const Tensor received = empty({length});
                         comm.exchange({{sent, next}}, {{received, previous}}).wait();
                         std::copy_n(received.data<float>(), in.size(), in.begin());
                       }};
    const std::span<float> values(bucket.data<float>(), static_cast<std::size_t>(bucket.elements()));
    check(values.size() % static_cast<std::size_t>(n) == 0, "{} elements cannot be divided among {} ranks",
          values.size(), n);
    reduce_scatter_(ring, values);
    all_gather_(ring, values);
    for (float& value : values) value /= static_cast<float>(n);
  }
  void wait(Communicator&) override {}

 private:
  Half* reduce_scatter_;
  Half* all_gather_;
};

/// The losses of a training run in which the ranks divide the 60 samples, with `hook`; null: the library's.
std::vector<double> losses_with(const std::shared_ptr<Communicator>& comm,
                                const std::shared_ptr<CommHook>& hook) {
  SmallModel model;
  SGD sgd(model.arena, {.learning_rate = 0.5});
  DataParallel parallel(*model.model, model.arena, comm,
                        {.bucket_sizes = {}, .overlap = true, .allow_unused = false, .hook = hook});
  const std::int64_t count = SmallModel::kSamples / comm->size();
  std::vector<double> losses;
  for (int step = 0; step < 40; ++step) {
    model.arena.zero_grad();
    const Tensor loss =
        cross_entropy(model.logits(comm->rank() * count, count), model.labels(comm->rank() * count, count));
    loss.backward();
    parallel.finish();
    sgd.step();
    losses.push_back(loss.item());
  }
  return losses;
}

}  // namespace

void test_ring(const LearnersFile& file) {
  test_reduce_scatter(file.function<Half>("reduce_scatter"));
  test_all_gather(file.function<Half>("all_gather"));
}

void run_ring(const LearnersFile& file) {
  const auto comm = lessons::connect_ranks();
  const auto mine = std::make_shared<LearnersRing>(file.function<Half>("reduce_scatter"),
                                                   file.function<Half>("all_gather"));
  const std::vector<double> by_mine = losses_with(comm, mine), by_library = losses_with(comm, nullptr);
  if (lessons::prints(*comm)) {
    fmt::print("\n{} ranks; the loss on rank 0:", comm->size());
    show_losses("your ring", by_mine, "the library's", by_library);
  }
}

}  // namespace ringtape::tasks
