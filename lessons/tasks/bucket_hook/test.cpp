#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "dist/data_parallel.h"
#include "lessons/ranks.h"
#include "lessons/tasks/bucket_hook/task.h"
#include "lessons/tasks/model.h"
#include "lessons/tasks/tests.h"
#include "optim/sgd.h"

namespace ringtape::tasks {
namespace {

using Complete = decltype(::gradient_complete);
using Ended = decltype(::backward_ended);
using Numbers = std::vector<int>;

/// Five parameters in three buckets: 0 and 1, 2 and 3, 4.
struct Example {
  Buckets buckets = {{0, 0, 1, 1, 2}, {2, 2, 1}, 0, nullptr};
  Numbers launched;

  Example() {
    buckets.launch = [this](int bucket) {
      if (std::find(launched.begin(), launched.end(), bucket) != launched.end())
        wrong("bucket {} is launched twice: is `next` the number of the bucket after it?", bucket);
      launched.push_back(bucket);
    };
  }
  void check_launched(const Numbers& expected, const char* when, const char* why) const {
    if (launched != expected) {
      wrong("{}: launched {}, expected {}: {}", when, launched, expected, why);
    }
  }
};

void test_in_order(Complete* complete) {
  Example example;
  complete(example.buckets, 0);
  example.check_launched({}, "gradient 0 of 0 and 1 is complete", "a gradient of bucket 0 is missing");
  complete(example.buckets, 1);
  example.check_launched({0}, "gradients 0 and 1 are complete",
                         "bucket 0 is complete, and backward goes on: launch it now");
  for (const int parameter : {2, 3, 4}) complete(example.buckets, parameter);
  example.check_launched({0, 1, 2}, "all gradients are complete", "each bucket once, when it is complete");
}

void test_another_order(Complete* complete) {
  Example example;
  for (const int parameter : {2, 3}) complete(example.buckets, parameter);
  example.check_launched(
      {}, "bucket 1 is complete, bucket 0 is not",
      "all ranks launch in the order 0, 1, 2, whatever is complete first, so bucket 1 waits");
  for (const int parameter : {0, 1}) complete(example.buckets, parameter);
  example.check_launched({0, 1}, "bucket 1 was complete first, now bucket 0 is too",
                         "launch both, one after the other");
}

void test_unused(Complete* complete, Ended* ended) {
  Example example;
  for (const int parameter : {0, 1, 2, 4}) complete(example.buckets, parameter);
  ended(example.buckets);
  example.check_launched({0, 1, 2}, "backward has ended and gradient 3 was not used",
                         "launch what is left, in order: the other ranks wait for ever for an all_reduce "
                         "that one does not join");
  Example whole;
  for (const int parameter : {0, 1, 2, 3, 4}) complete(whole.buckets, parameter);
  ended(whole.buckets);
  whole.check_launched({0, 1, 2}, "backward has ended and all buckets were launched",
                       "nothing is launched twice");
}

/// The loss of this rank's samples in each step, with the learner's hook on every parameter.
std::vector<double> losses_with_hook(Communicator& comm, Complete* complete, Ended* ended) {
  SmallModel model;
  SGD sgd(model.arena, {.learning_rate = 0.5});
  const auto& entries = model.arena.entries();
  // Two buckets: the last layer's parameters, which come first, and the others.
  const std::size_t middle = entries.size() / 2;
  const std::int64_t ends[] = {0, entries[middle].offset, model.arena.size()};
  Buckets buckets;
  std::vector<Work> works;
  buckets.launch = [&](int bucket) {
    const std::int64_t first = ends[bucket], count = ends[bucket + 1] - first;
    works.push_back(comm.all_reduce(model.arena.gradients().alias({count}, first), ReduceOp::mean));
  };
  for (std::size_t i = 0; i < entries.size(); ++i) {
    buckets.bucket_of.push_back(i < middle ? 0 : 1);
    entries[i].tensor->autograd->post_accumulate_hooks.emplace_back(
        [&, i] { complete(buckets, static_cast<int>(i)); });
  }
  const std::int64_t count = SmallModel::kSamples / comm.size();
  std::vector<double> losses;
  for (int step = 0; step < 40; ++step) {
    buckets.missing = {static_cast<int>(middle), static_cast<int>(entries.size() - middle)};
    buckets.next = 0;
    sgd.zero_grad();
    const Tensor loss =
        cross_entropy(model.logits(comm.rank() * count, count), model.labels(comm.rank() * count, count));
    loss.backward();
    ended(buckets);
    for (const Work& work : works) work.wait();
    works.clear();
    sgd.step();
    losses.push_back(loss.item());
  }
  return losses;
}

std::vector<double> losses_with_library(const std::shared_ptr<Communicator>& comm) {
  SmallModel model;
  SGD sgd(model.arena, {.learning_rate = 0.5});
  DataParallel parallel(*model.model, model.arena, comm);
  const std::int64_t count = SmallModel::kSamples / comm->size();
  std::vector<double> losses;
  for (int step = 0; step < 40; ++step) {
    sgd.zero_grad();
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

void test_bucket_hook(const LearnersFile& file) {
  auto* const complete = file.function<Complete>("gradient_complete");
  test_in_order(complete);
  test_another_order(complete);
  test_unused(complete, file.function<Ended>("backward_ended"));
}

void run_bucket_hook(const LearnersFile& file) {
  const auto comm = lessons::connect_ranks();
  const std::vector<double> by_mine = losses_with_hook(*comm, file.function<Complete>("gradient_complete"),
                                                       file.function<Ended>("backward_ended")),
                            by_library = losses_with_library(comm);
  if (lessons::prints(*comm)) {
    fmt::print("\n{} ranks; the loss on rank 0:", comm->size());
    show_losses("your hook", by_mine, "the library's", by_library);
  }
}

}  // namespace ringtape::tasks
