#include "dist/data_parallel.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "autograd/low_precision.h"
#include "autograd/ops.h"
#include "autograd/tape.h"
#include "core/error.h"
#include "dist/gradient_buckets.h"
#include "dist/verify_same.h"
#include "optim/clip.h"
#include "tests/dist/trainer.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"

using namespace ringtape;
using namespace ringtape::test;

namespace {

/// Element by element to 1e-6 of the largest, for each parameter.
void check_same(const ParameterArena& found, const ParameterArena& expected, bool gradients) {
  for (std::size_t i = 0; i < found.entries().size(); ++i) {
    const Tensor& a = *found.entries()[i].tensor;
    const Tensor& b = *expected.entries()[i].tensor;
    INFO(found.entries()[i].name << (gradients ? ": gradient" : ": value"));
    REQUIRE((!gradients || (a.grad().defined() && b.grad().defined())));
    const std::vector<double> of_b = (gradients ? b.grad() : b).to_doubles();
    check_close((gradients ? a.grad() : a).to_doubles(), of_b, 0, 1e-6 * largest_of(of_b));
  }
}

/// Records events, and reduces like AllReduceHook.
struct RecordingHook : AllReduceHook {
  std::vector<std::string>& log;
  int launches = 0;

  explicit RecordingHook(std::vector<std::string>& events) : log(events) {}
  void launch(Communicator& comm, const Tensor& bucket) override {
    log.push_back("launch at " + std::to_string(bucket.offset()));
    ++launches;
    AllReduceHook::launch(comm, bucket);
  }
};

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

void fill_gradients(const ParameterArena& arena, float value) {
  Tensor gradients = arena.gradients();
  gradients.copy_from(tensor_of(std::vector<double>(static_cast<std::size_t>(arena.size()), value),
                                {arena.size()}, DType::f32, arena.device()));
}

}  // namespace

TEST_CASE("gradient buckets: neighbours in the order of the arena, up to their sizes", "[dist][ddp]") {
  const Trainer trainer(Device{});
  const ParameterArena& arena = trainer.arena;
  for (const auto& [first_bytes, bytes] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 1}, {512, 1024}, {1 << 20, 1 << 20}}) {
    INFO("sizes " << first_bytes << ", " << bytes);
    const std::vector<GradientBucket> buckets =
        make_gradient_buckets(arena, {.first_bytes = first_bytes, .bytes = bytes});
    std::size_t entry = 0;
    std::int64_t offset = 0;
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      CHECK(buckets[b].first_entry == entry);
      CHECK(buckets[b].offset == offset);
      entry += buckets[b].entries;
      offset += buckets[b].elements;
      // Full with its last parameter, not before.
      const std::int64_t limit = b == 0 ? first_bytes : bytes;
      if (b + 1 < buckets.size()) CHECK(4 * buckets[b].elements >= limit);
      CHECK(4 * (arena.entries()[entry - 1].offset - buckets[b].offset) < limit);
    }
    CHECK(entry == arena.entries().size());
    CHECK(offset == arena.size());
    if (bytes == 1) CHECK(buckets.size() == arena.entries().size());
    if (bytes == 1 << 20) CHECK(buckets.size() == 1);
  }
  CHECK_THROWS_WITH(make_gradient_buckets(arena, {.first_bytes = 0, .bytes = 1}),
                    ContainsSubstring("sizes of 0 and 1 bytes"));
  CHECK_THROWS_WITH(make_gradient_buckets(arena, {.first_bytes = 1, .bytes = 0}),
                    ContainsSubstring("sizes of 1 and 0 bytes"));
}

TEST_CASE("data parallel: ranks learn what one process learns from the whole batch", "[dist][ddp]") {
  struct Way {
    const char* shares;
    bool ignored;
    std::int64_t pieces;
    bool no_sync, overlap;
    std::int64_t bucket_bytes;
  };
  const std::vector<Way> ways = {
      {"equal", false, 1, true, true, 1024},  {"equal", false, 3, true, true, 1024},
      {"equal", true, 3, false, true, 1024},  {"equal", true, 3, true, false, 1},
      {"unequal", true, 1, true, true, 1},    {"unequal", true, 3, true, true, 1 << 20},
      {"unequal", true, 3, false, true, 1},   {"unequal", false, 3, false, false, 1024},
      {"empty", true, 1, true, true, 1024},   {"empty", false, 3, true, true, 1024},
      {"empty", false, 1, true, false, 1024},
  };
  for (const auto& [name, comm] : all_communicators()) {
    for (const Way& way : ways) {
      INFO(name << ", " << way.shares << " shares, ignored " << way.ignored << ", " << way.pieces
                << " pieces, no_sync " << way.no_sync << ", overlap " << way.overlap << ", buckets of "
                << way.bucket_bytes);
      const std::vector<MicroBatch> shares = shares_of(way.shares, comm->size());
      const std::int64_t samples = shares.back().first + shares.back().size;
      if (samples == 0) continue;
      Trainer one(comm->device()), many(comm->device(), comm->rank() + 1);
      DataParallel parallel(*many.model, many.arena, comm,
                            {.bucket_sizes = {way.bucket_bytes, way.bucket_bytes},
                             .overlap = way.overlap,
                             .allow_unused = false,
                             .hook = nullptr});
      AccumulationWindow window(comm->size(), sum_over(comm));
      for (std::uint64_t step = 0; step < 4; ++step) {
        const Data data(samples, step, way.ignored);
        one.whole(data);

        const MicroBatch share = shares[static_cast<std::size_t>(comm->rank())];
        window.begin(data.counting(share));
        const std::vector<MicroBatch> pieces = cut(share, way.pieces);
        for (std::size_t i = 0; i < pieces.size(); ++i) {
          const auto scope = parallel.no_sync(way.no_sync && i + 1 < pieces.size());
          many.backward(data, pieces[i], window.divisor());
        }
        parallel.finish();
        check_same(many.arena, one.arena, true);
        one.step();
        many.step();
        check_same(many.arena, one.arena, false);
      }
    }
  }
}

TEST_CASE("data parallel: all ranks begin with the parameters of rank 0, frozen ones too", "[dist][ddp]") {
  const auto comm = this_run();
  manual_seed(10 + static_cast<std::uint64_t>(comm->rank()));
  const auto model = make_mlp({3, 4, 2});
  model->parameter("0.weight").set_requires_grad(false);
  ParameterArena arena(*model, comm->device(), DType::bf16);
  const DataParallel parallel(*model, arena, comm);
  manual_seed(10);
  const auto expected = make_mlp({3, 4, 2});
  for (const auto& [name, tensor] : expected->named_parameters()) {
    INFO(name);
    check_close(model->parameter(name).to_doubles(), tensor->to_doubles(), 0);
    // The copy for bf16 inputs follows.
    check_close(in_dtype(model->parameter(name), DType::bf16).to_doubles(),
                to(*tensor, DType::bf16).to_doubles(), 0);
  }
  CHECK(arena.entries().size() == 3);
  CHECK(parallel.buckets().size() == 1);
}

TEST_CASE("data parallel: buckets are launched in order while backward goes on", "[dist][ddp]") {
  const auto comm = this_run();
  for (const bool overlap : {true, false}) {
    std::vector<std::string> log;
    Trainer trainer(comm->device());
    const std::vector<ArenaEntry>& entries = trainer.arena.entries();
    for (const ArenaEntry& entry : entries) {
      entry.tensor->autograd->post_accumulate_hooks.push_back([&log, &entry] { log.push_back(entry.name); });
    }
    const auto hook = std::make_shared<RecordingHook>(log);
    DataParallel parallel(*trainer.model, trainer.arena, comm,
                          {.bucket_sizes = {1, 1}, .overlap = overlap, .allow_unused = false, .hook = hook});
    trainer.whole(Data(6, 1));
    const auto launch = [&](std::size_t entry) {
      return "launch at " + std::to_string(entries[entry].offset);
    };
    // A layer's node completes its weight first, but the bias comes first in the arena.
    const std::vector<std::string> overlapped = {"4.weight", "4.bias", launch(0), launch(1),
                                                 "2.weight", "2.bias", launch(2), launch(3),
                                                 "0.weight", "0.bias", launch(4), launch(5)};
    const std::vector<std::string> afterwards = {"4.weight", "4.bias",  "2.weight", "2.bias",
                                                 "0.weight", "0.bias",  launch(0),  launch(1),
                                                 launch(2),  launch(3), launch(4),  launch(5)};
    CHECK(log == (overlap ? overlapped : afterwards));
    parallel.finish();
    CHECK(hook->launches == 6);
  }
}

TEST_CASE("data parallel: one all-reduce for each bucket and window", "[dist][ddp]") {
  const auto comm = this_run();
  std::vector<std::string> log;
  const auto hook = std::make_shared<RecordingHook>(log);
  Trainer trainer(comm->device());
  DataParallel parallel(*trainer.model, trainer.arena, comm,
                        {.bucket_sizes = {512, 1024}, .overlap = true, .allow_unused = false, .hook = hook});
  const int buckets = static_cast<int>(parallel.buckets().size());
  REQUIRE(buckets > 2);
  const Data data(6, 1);
  for (int window = 1; window <= 3; ++window) {
    for (int i = 0; i < 4; ++i) {
      const auto scope = parallel.no_sync(i < 3);
      trainer.whole(data);
    }
    parallel.finish();
    CHECK(hook->launches == window * buckets);
    trainer.step();
  }
  // If no backward of the window reduces, finish() does.
  {
    const auto scope = parallel.no_sync();
    trainer.whole(data);
  }
  parallel.finish();
  CHECK(hook->launches == 4 * buckets);
  // A second call reduces again, which leaves the means as they are.
  const std::vector<double> before = trainer.arena.gradients().to_doubles();
  parallel.finish();
  CHECK(hook->launches == 5 * buckets);
  check_close(trainer.arena.gradients().to_doubles(), before, 3 * 0x1p-24);
}

TEST_CASE("data parallel: finish() reduces what came after the last reduction", "[dist][ddp]") {
  const auto comm = this_run();
  Trainer one(comm->device()), many(comm->device());
  DataParallel parallel(*many.model, many.arena, comm);
  const auto size = static_cast<std::int64_t>(comm->size());
  const Data data(4 * size, 1);
  one.whole(data);
  const std::int64_t first = 4 * comm->rank();
  many.backward(data, {first, 1}, 4);
  {
    const auto scope = parallel.no_sync();
    many.backward(data, {first + 1, 3}, 4);
  }
  parallel.finish();
  check_same(many.arena, one.arena, true);
}

TEST_CASE("data parallel: ranks complete their gradients in different orders", "[dist][ddp]") {
  const auto comm = this_run();
  manual_seed(1);
  TwoBranches model;
  ParameterArena arena(model, comm->device());
  DataParallel parallel(model, arena, comm,
                        {.bucket_sizes = {1, 1}, .overlap = true, .allow_unused = false, .hook = nullptr});
  const Tensor x = tensor_of({1, 2, 3}, {1, 3}, DType::f32, comm->device());
  const bool swapped = comm->rank() % 2 == 1;
  const Tensor early = swapped ? (*model.second)(x) : (*model.first)(x);
  const Tensor late = swapped ? (*model.first)(x) : (*model.second)(x);
  sum(add(early, scale(late, 3))).backward();
  parallel.finish();
  const int swapping = comm->size() / 2;
  const double of_first = (comm->size() + 2.0 * swapping) / comm->size();
  check_close(model.parameter("first.bias").grad().to_doubles(), {of_first, of_first}, 1e-6);
  check_close(model.parameter("second.bias").grad().to_doubles(), {4 - of_first, 4 - of_first}, 1e-6);
}

TEST_CASE("data parallel: no_sync() restores the previous state, also after an exception", "[dist][ddp]") {
  const auto comm = this_run();
  std::vector<std::string> log;
  const auto hook = std::make_shared<RecordingHook>(log);
  Trainer trainer(comm->device());
  DataParallel parallel(*trainer.model, trainer.arena, comm,
                        {.bucket_sizes = {}, .overlap = true, .allow_unused = false, .hook = hook});
  const Data data(6, 1);
  {
    const auto outer = parallel.no_sync();
    try {
      const auto inner = parallel.no_sync();
      fail("out of it");
    } catch (const Error&) {
    }
    trainer.whole(data);
    CHECK(hook->launches == 0);
    CHECK_THROWS_WITH(parallel.finish(), ContainsSubstring("finish() inside no_sync()"));
  }
  trainer.whole(data);
  CHECK(hook->launches == 1);
  parallel.finish();
}

TEST_CASE("data parallel: a parameter that some ranks did not use counts as 0 there", "[dist][ddp]") {
  for (const auto& [name, comm] : all_communicators()) {
    for (const auto& [no_sync, equal_ranks] :
         std::vector<std::pair<bool, bool>>{{true, false}, {false, false}, {true, true}}) {
      INFO(name << ", no_sync " << no_sync << ", equal ranks " << equal_ranks);
      manual_seed(1);
      TwoBranches model;
      ParameterArena arena(model, comm->device());
      DataParallel parallel(
          model, arena, comm,
          {.bucket_sizes = {1, 1}, .overlap = true, .allow_unused = false, .hook = nullptr});
      parallel.promise_equal_ranks(equal_ranks);
      for (int window = 0; window < 3; ++window) {
        arena.zero_grad();
        fill_gradients(arena, kNaN);  // absent gradients are stale memory
        // "first" is used only on rank 0, and only in the first of two micro-batches.
        for (const bool last : {false, true}) {
          const auto scope = parallel.no_sync(no_sync && !last);
          model.with_first = comm->rank() == 0 && !last;
          model.backward(comm->device());
        }
        parallel.finish();
        const double share = 1.0 / comm->size();
        REQUIRE(model.parameter("first.weight").grad().defined());
        check_close(model.parameter("first.weight").grad().to_doubles(),
                    {share, 2 * share, 3 * share, share, 2 * share, 3 * share}, 1e-6);
        check_close(model.parameter("first.bias").grad().to_doubles(), {share, share}, 1e-6);
        check_close(model.parameter("second.weight").grad().to_doubles(), {2, 4, 6, 2, 4, 6}, 1e-6);
      }
    }
  }
}

TEST_CASE("data parallel: a parameter that no rank used is an error, or left out", "[dist][ddp]") {
  const auto comm = this_run();
  for (const auto& [no_sync, equal_ranks] :
       std::vector<std::pair<bool, bool>>{{true, false}, {false, false}, {true, true}}) {
    for (const bool allow_unused : {false, true}) {
      INFO("no_sync " << no_sync << ", allowed " << allow_unused << ", equal ranks " << equal_ranks);
      TwoBranches model;
      ParameterArena arena(model, comm->device());
      SGD optimizer(arena, {.learning_rate = 0.1, .weight_decay = 0.5});
      DataParallel parallel(
          model, arena, comm,
          {.bucket_sizes = {1, 1}, .overlap = true, .allow_unused = allow_unused, .hook = nullptr});
      parallel.promise_equal_ranks(equal_ranks);
      model.backward(comm->device());  // a window in which all take part
      parallel.finish();
      arena.zero_grad();

      model.with_first = false;
      for (const bool last : {false, true}) {
        const auto scope = parallel.no_sync(no_sync && !last);
        model.backward(comm->device());
      }
      const std::string error = error_of([&] { parallel.finish(); });
      if (allow_unused) {
        CHECK(error.empty());
      } else {
        CHECK(error.find("first.bias, first.weight") != std::string::npos);
        CHECK(error.find("second") == std::string::npos);
      }
      CHECK(!model.parameter("first.weight").grad().defined());
      check_close(model.parameter("second.bias").grad().to_doubles(), {2, 2}, 1e-6);
      const std::vector<double> before = model.parameter("first.weight").to_doubles();
      optimizer.step();
      check_close(model.parameter("first.weight").to_doubles(), before, 0);

      // The next window is like any other.
      arena.zero_grad();
      model.with_first = true;
      model.backward(comm->device());
      parallel.finish();
      check_close(model.parameter("first.bias").grad().to_doubles(), {1, 1}, 1e-6);
    }
  }
}

TEST_CASE("data parallel: with equal ranks a failed backward is an error on its own rank", "[dist][ddp]") {
  const auto comm = this_run();
  TwoBranches model;
  ParameterArena arena(model, comm->device());
  DataParallel parallel(model, arena, comm,
                        {.bucket_sizes = {1, 1}, .overlap = true, .allow_unused = false, .hook = nullptr});
  parallel.promise_equal_ranks(true);
  const int last = comm->size() - 1;
  const bool fails = comm->rank() == last;
  if (fails) {
    CHECK_THROWS_WITH(model.backward_half_way(comm->device(), true), ContainsSubstring("half-way"));
  } else {
    model.backward_half_way(comm->device(), false);
  }
  const std::string error = error_of([&] { parallel.finish(); });
  const std::string expected = "ended with an exception on rank " + std::to_string(last);
  if (fails) {
    CHECK_THAT(error, ContainsSubstring(expected));
  } else {
    CHECK(error == "");
  }
}

TEST_CASE("data parallel: parameters frozen early have no bucket, frozen later no gradient", "[dist][ddp]") {
  const auto comm = this_run();
  TwoBranches model;
  model.first->requires_grad(false);
  ParameterArena arena(model, comm->device());
  DataParallel parallel(model, arena, comm,
                        {.bucket_sizes = {1, 1}, .overlap = true, .allow_unused = false, .hook = nullptr});
  CHECK(parallel.buckets().size() == 2);
  model.backward(comm->device());
  parallel.finish();
  CHECK(!model.parameter("first.bias").grad().defined());

  arena.zero_grad();
  fill_gradients(arena, kNaN);
  model.parameter("second.bias").set_requires_grad(false);
  model.backward(comm->device());
  parallel.finish();
  CHECK(!model.parameter("second.bias").grad().defined());
  check_close(model.parameter("second.weight").grad().to_doubles(), {1, 2, 3, 1, 2, 3}, 1e-6);
}

TEST_CASE("data parallel: models that differ are named on every rank", "[dist][ddp]") {
  const auto comm = this_run();
  if (comm->size() == 1) return;
  const int odd = comm->size() - 1;
  const auto error_for = [&](const std::vector<std::int64_t>& sizes, bool frozen) {
    const auto model = make_mlp(sizes);
    if (frozen) model->parameter("2.bias").set_requires_grad(false);
    ParameterArena arena(*model, comm->device());
    return error_of([&] { const DataParallel parallel(*model, arena, comm); });
  };
  const auto of_odd = [&](auto value, auto other) { return comm->rank() == odd ? value : other; };
  using Sizes = std::vector<std::int64_t>;
  const std::string on_rank = fmt::format(" on rank {}", odd);
  CHECK(
      error_for(of_odd(Sizes{3, 5, 2}, Sizes{3, 4, 2}), false) ==
      "data parallel: the ranks' models differ: parameter 0 is 0.weight f32[4, 3] with a gradient on rank 0, "
      "but 0.weight f32[5, 3] with a gradient" +
          on_rank);
  CHECK(
      error_for(of_odd(Sizes{3, 4}, Sizes{3, 4, 2}), false) ==
      "data parallel: the ranks' models differ: parameter 2 is 2.weight f32[2, 4] with a gradient on rank 0, "
      "but missing" +
          on_rank);
  CHECK(
      error_for({3, 4, 2}, of_odd(true, false)) ==
      "data parallel: the ranks' models differ: parameter 3 is 2.bias f32[2] with a gradient on rank 0, but "
      "2.bias f32[2] frozen" +
          on_rank);
  CHECK(error_for({3, 4, 2}, false) == "");
  CHECK(error_of([&] { verify_same(*comm, "texts", "line", of_odd("a\nb", "a\nb\n")); }) ==
        fmt::format("texts differ: on rank 0 and on rank {} by a line end", odd));
}

TEST_CASE("data parallel: a backward that fails half-way is reported to all ranks", "[dist][ddp]") {
  const auto comm = this_run();
  const bool fails = comm->rank() == comm->size() - 1;
  for (const bool overlap : {true, false}) {
    INFO("overlap " << overlap);
    TwoBranches model;
    ParameterArena arena(model, comm->device());
    DataParallel parallel(
        model, arena, comm,
        {.bucket_sizes = {1, 1}, .overlap = overlap, .allow_unused = false, .hook = nullptr});
    if (fails) {
      CHECK_THROWS_WITH(model.backward_half_way(comm->device(), true), ContainsSubstring("half-way"));
      // It runs the branch whose bucket is not in flight: buckets in flight must not be written.
      const std::string again = error_of([&] {
        const TapeScope scope;
        sum((*model.first)(TwoBranches::input(comm->device()))).backward();
      });
      CHECK(again.find("a backward has ended with an exception") != std::string::npos);
    } else {
      model.backward_half_way(comm->device(), false);
    }
    CHECK(error_of([&] {
            parallel.finish();
          }).find(fmt::format("ended with an exception on rank {}", comm->size() - 1)) != std::string::npos);

    arena.zero_grad();
    model.backward(comm->device());
    parallel.finish();
    check_close(model.parameter("first.weight").grad().to_doubles(), {1, 2, 3, 1, 2, 3}, 1e-6);
  }
}

TEST_CASE("data parallel: gradients are clipped by the norm of the whole batch", "[dist][ddp]") {
  const auto comm = this_run();
  Trainer one(comm->device()), many(comm->device());
  DataParallel parallel(*many.model, many.arena, comm);
  AccumulationWindow window(comm->size(), sum_over(comm));
  const std::vector<MicroBatch> shares = shares_of("unequal", comm->size());
  const Data data(shares.back().first + shares.back().size, 1);
  one.whole(data);
  const MicroBatch share = shares[static_cast<std::size_t>(comm->rank())];
  window.begin(share.size);
  many.backward(data, share, window.divisor());
  parallel.finish();
  const double norm = clip_grad_norm(one.arena, 0.01).item();
  CHECK(norm > 0.02);
  check_close({clip_grad_norm(many.arena, 0.01).item()}, {norm}, 1e-6);
  one.step();
  many.step();
  check_same(many.arena, one.arena, false);
}

TEST_CASE("data parallel: its hooks are removed with it", "[dist][ddp]") {
  const auto comm = this_run();
  std::vector<std::string> log;
  const auto hook = std::make_shared<RecordingHook>(log);
  Trainer trainer(comm->device());
  {
    const DataParallel parallel(*trainer.model, trainer.arena, comm,
                                {.bucket_sizes = {}, .overlap = true, .allow_unused = false, .hook = hook});
    // A hook that is added later stays.
    for (const ArenaEntry& entry : trainer.arena.entries()) {
      entry.tensor->autograd->post_accumulate_hooks.push_back([&log, &entry] { log.push_back(entry.name); });
    }
  }
  trainer.whole(Data(6, 1));
  CHECK(hook->launches == 0);
  CHECK(log.size() == 6);
  for (const ArenaEntry& entry : trainer.arena.entries()) {
    CHECK(entry.tensor->autograd->post_accumulate_hooks.size() == 1);
  }
}

TEST_CASE("data parallel: an arena has one DataParallel at a time", "[dist][ddp][zero]") {
  const auto comm = this_run();
  for (const int stage : {0, 1, 2}) {
    INFO("stage " << stage);
    TwoBranches model;
    ParameterArena arena(
        model, comm->device(), DType::f32,
        {.zero_stage = stage, .rank = comm->rank(), .world_size = comm->size(), .bucket_sizes = {}});
    SGD optimizer(arena, {.learning_rate = 1});
    CHECK(error_of([&] { DataParallel(model, arena, nullptr); }) ==
          "data parallel: the communicator is null");
    auto parallel = std::make_unique<DataParallel>(model, arena, comm);
    CHECK(error_of([&] { parallel = std::make_unique<DataParallel>(model, arena, comm); }) ==
          "data parallel: the arena has a DataParallel already; destroy it before making another");
    // The first continues to work, and so does its replacement.
    for (int i = 0; i < 2; ++i) {
      const std::vector<double> before = model.parameter("first.weight").to_doubles();
      optimizer.zero_grad();
      model.backward(comm->device());
      parallel->finish();
      optimizer.step();
      std::vector<double> expected = before;
      for (std::size_t k = 0; k < 6; ++k) expected[k] -= static_cast<double>(1 + k % 3);
      check_close(model.parameter("first.weight").to_doubles(), expected, 1e-6);
      parallel.reset();
      parallel = std::make_unique<DataParallel>(model, arena, comm);
    }
  }
}

TEST_CASE("data parallel: a parameter that was replaced is an error, after which the objects end in order",
          "[dist][ddp][zero]") {
  const auto comm = this_run();
  for (const int stage : {0, 1, 2, 3}) {
    INFO("stage " << stage);
    const auto train = [&] {
      TwoBranches model;
      ParameterArena arena(
          model, comm->device(), DType::f32,
          {.zero_stage = stage, .rank = comm->rank(), .world_size = comm->size(), .bucket_sizes = {}});
      SGD optimizer(arena, {.learning_rate = 1});
      DataParallel parallel(model, arena, comm);
      model.parameter("first.bias") = Tensor();
      optimizer.zero_grad();
    };
    CHECK(error_of(train) ==
          "parameter arena: another tensor was assigned to first.bias after the arena was made, which would "
          "not be trained: expected copy_from()");
  }
}

TEST_CASE("data parallel: a second one of a 16-bit arena begins with what the first has trained",
          "[dist][ddp][zero]") {
  const auto comm = this_run();
  for (const int stage : {1, 2}) {
    INFO("stage " << stage);
    TwoBranches model;
    ParameterArena arena(
        model, comm->device(), DType::bf16,
        {.zero_stage = stage, .rank = comm->rank(), .world_size = comm->size(), .bucket_sizes = {}});
    SGD optimizer(arena, {.learning_rate = 1});
    std::vector<double> expected;
    {
      DataParallel parallel(model, arena, comm);
      expected = model.parameter("first.weight").to_doubles();
      sum(model(to(TwoBranches::input(comm->device()), DType::bf16))).backward();
      parallel.finish();
      optimizer.step();  // gathers the copies alone: of the f32 values, each rank has its slice
    }
    const DataParallel second(model, arena, comm);
    for (std::size_t k = 0; k < 6; ++k) expected[k] -= static_cast<double>(1 + k % 3);
    const Tensor& weight = model.parameter("first.weight");
    check_close(weight.to_doubles(), expected, 1e-6);
    check_close(in_dtype(weight, DType::bf16).to_doubles(), expected, 2 * rounding_of(DType::bf16));
  }
}
