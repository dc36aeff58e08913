#include "dist/compress_hook.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "dist/data_parallel.h"
#include "dist/self_communicator.h"
#include "tests/dist/trainer.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

using namespace ringtape;
using namespace ringtape::test;

/// The sum over the ranks of the magnitudes of their gradients, element by element.
static std::vector<double> sum_of_sizes(const Tensor& gradient, Communicator& comm) {
  std::vector<double> values = gradient.to_doubles();
  for (double& value : values) value = std::abs(value);
  const Tensor sum = tensor_of(values, gradient.shape(), DType::f32, comm.device());
  comm.all_reduce(sum, ReduceOp::sum).wait();
  return sum.to_doubles();
}

TEST_CASE("data parallel: gradients sent in 16 bits are close to the exact ones", "[dist][ddp]") {
  for (const auto& [name, comm] : all_communicators()) {
    for (const DType dtype : {DType::f16, DType::bf16}) {
      for (const double size : {1.0, 1e-8, 1e8}) {  // unscaled f16 ends at 6e-8 and 65504
        for (const std::int64_t bucket_bytes : {1, 1 << 20}) {
          INFO(name << ", " << name_of(dtype) << ", " << size << ", buckets of " << bucket_bytes);
          Trainer one(comm->device()), own(comm->device()), many(comm->device());
          DataParallel parallel(*many.model, many.arena, comm,
                                {.bucket_sizes = {bucket_bytes, bucket_bytes},
                                 .overlap = true,
                                 .allow_unused = false,
                                 .hook = std::make_shared<CompressHook>(many.arena, dtype, false)});
          const Data data(5 * comm->size(), 3);
          const std::int64_t all = 5 * comm->size();
          one.backward(data, {0, all}, static_cast<double>(all) / size);
          for (Trainer* each : {&own, &many}) each->backward(data, {5 * comm->rank(), 5}, 5 / size);
          parallel.finish();
          for (std::size_t i = 0; i < one.arena.entries().size(); ++i) {
            const std::vector<double> exact = one.arena.entries()[i].tensor->grad().to_doubles();
            const std::vector<double> found = many.arena.entries()[i].tensor->grad().to_doubles();
            const std::vector<double> sizes = sum_of_sizes(own.arena.entries()[i].tensor->grad(), *comm);
            REQUIRE((found.size() == exact.size() && sizes.size() == exact.size()));
            // A rank's part and each of n - 1 sums are rounded, and the quotient where n is no power of two
            // (NCCL multiplies by a rounded 1 / n).
            const int n = comm->size(), by_n = (n & (n - 1)) == 0 ? 0 : comm->device().is_cuda() ? 2 : 1;
            const double most = (std::pow(1 + rounding_of(dtype), n + by_n) - 1) / n;
            std::size_t outside = 0;
            for (std::size_t k = 0; k < exact.size(); ++k) {
              const double bound = most * sizes[k] + 1e-6 * largest_of(exact);  // the exact ones are f32
              if (!is_close(found[k], exact[k], 0, bound)) ++outside;
            }
            CHECK(outside == 0);
            CHECK(found != exact);
          }
        }
      }
    }
  }
}

TEST_CASE("data parallel: an infinity in 16 bits reaches all ranks", "[dist][ddp]") {
  const auto comm = this_run();
  for (const DType dtype : {DType::f16, DType::bf16}) {
    INFO(name_of(dtype));
    Trainer trainer(comm->device());
    DataParallel parallel(*trainer.model, trainer.arena, comm,
                          {.bucket_sizes = {},
                           .overlap = true,
                           .allow_unused = false,
                           .hook = std::make_shared<CompressHook>(trainer.arena, dtype, true)});
    const Data data(6, 1);
    {
      const auto scope = parallel.no_sync();
      trainer.whole(data);
    }
    Tensor bias = trainer.model->parameter("0.bias").grad();
    std::vector<double> values = bias.to_doubles();
    if (comm->rank() == 0) values[3] = INFINITY;
    bias.copy_from(tensor_of(values, bias.shape(), DType::f32, comm->device()));
    parallel.finish();
    CHECK(!std::isfinite(bias.to_doubles()[3]));
    CHECK(std::isfinite(bias.to_doubles()[4]));

    // Values that were not finite leave no residual.
    trainer.arena.zero_grad();
    trainer.whole(data);
    parallel.finish();
    CHECK(std::isfinite(bias.to_doubles()[3]));
  }
}

TEST_CASE("data parallel: error feedback loses nothing over many reductions", "[dist][ddp]") {
  const auto comm = this_run();
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const bool feedback : {true, false}) {
      INFO(name_of(dtype) << ", feedback " << feedback);
      TwoBranches model;
      ParameterArena arena(model, comm->device());
      DataParallel parallel(model, arena, comm,
                            {.bucket_sizes = {1, 1},
                             .overlap = true,
                             .allow_unused = false,
                             .hook = std::make_shared<CompressHook>(arena, dtype, feedback)});
      // The same gradient again and again: 1.001 is between two values of bf16, and 1.0001 of f16.
      const double value = dtype == DType::bf16 ? 1.001 : 1.0001;
      constexpr int kReductions = 100;
      double sum_of_all = 0;
      for (int i = 0; i < kReductions; ++i) {
        arena.zero_grad();
        sum(scale(model(tensor_of({1, 2, 3}, {1, 3}, DType::f32, comm->device())), value)).backward();
        parallel.finish();
        sum_of_all += model.parameter("first.bias").grad().to_doubles()[0];
      }
      // With feedback at most one rounding error is missing; without it a hundred are lost.
      const double lost = std::abs(sum_of_all - kReductions * static_cast<float>(value));
      INFO("lost " << lost);
      if (comm->size() <= 2 || comm->size() == 4) {  // where a sum of equal values is not rounded
        CHECK((lost <= rounding_of(dtype)) == feedback);
      }
    }
  }
}

TEST_CASE("data parallel: f16 is scaled by the largest gradient of all ranks, not by their sum",
          "[dist][ddp]") {
  for (const auto& [name, comm] : all_communicators()) {
    const int n = comm->size();
    // NCCL's mean divides by n before it adds, which may round.
    if ((n != 2 && n != 4) || comm->device().is_cuda()) continue;
    INFO(name);
    const Trainer trainer(comm->device());
    CompressHook hook(trainer.arena, DType::f16, false);
    // The largest of n ranks, 1, allows a factor of 2^14 / n. It makes the second 2^-14 (1 + 2^-10): f16's
    // smallest normal value, and its last bit, which any smaller factor loses.
    const std::vector<double> gradients = {1, n * 0x1p-28 * (1 + 0x1p-10)};
    const Tensor bucket = tensor_of(gradients, {2}, DType::f32, comm->device());
    hook.launch(*comm, bucket);
    hook.wait(*comm);
    CHECK(bucket.to_doubles() == gradients);
  }
}

TEST_CASE("data parallel: f16 holds a residual of much larger gradients", "[dist][ddp]") {
  for (const auto& [name, comm] : all_communicators()) {
    INFO(name);
    const Trainer trainer(comm->device());
    CompressHook hook(trainer.arena, DType::f16, true);
    const auto reduced = [&, &comm = comm](double gradient) {
      const Tensor bucket = tensor_of({gradient, 0}, {2}, DType::f32, comm->device());
      hook.launch(*comm, bucket);
      hook.wait(*comm);
      return bucket.to_doubles();
    };
    // The sums of up to 8 ranks are exact: 1 and 2^-12 (1 + 2^-8) have few bits.
    CHECK(reduced(1 + 0x1p-12) == std::vector<double>{1, 0});
    const std::vector<double> next = reduced(0x1p-20);
    if ((comm->size() & (comm->size() - 1)) == 0) {
      CHECK(next == std::vector<double>{0x1p-12 + 0x1p-20, 0});
    } else {
      CHECK(std::abs(next[0] - (0x1p-12 + 0x1p-20)) < 0x1p-12 * 0x1p-9);
    }
  }
}

TEST_CASE("data parallel: compression to anything but 16-bit floats is refused", "[dist][ddp]") {
  const Trainer trainer(Device{});
  for (const DType dtype : {DType::f32, DType::i32}) {
    CHECK_THROWS_WITH(CompressHook(trainer.arena, dtype, false),
                      ContainsSubstring(std::string("to ") + name_of(dtype) + ", expected bf16 or f16"));
  }
}

TEST_CASE("data parallel: compression of anything but f32 is refused", "[dist][ddp]") {
  for (const auto& [name, comm] : all_communicators()) {
    INFO(name);
    const Trainer trainer(comm->device());
    CompressHook hook(trainer.arena, DType::bf16, false);
    const Tensor ints = from_vector(std::vector<std::int32_t>{1, 2, 3, 4}, {4}, comm->device());
    CHECK_THROWS_WITH(hook.launch(*comm, ints), ContainsSubstring("i32"));
  }
}

namespace {

/// A model whose gradients are sent as bf16, with error feedback.
struct Compressed {
  TwoBranches model;
  ParameterArena arena;
  std::shared_ptr<CompressHook> hook;
  DataParallel parallel;

  explicit Compressed(const std::shared_ptr<Communicator>& comm)
      : arena(model, comm->device()),
        hook(std::make_shared<CompressHook>(arena, DType::bf16, true)),
        parallel(model, arena, comm,
                 {.bucket_sizes = {1, 1}, .overlap = true, .allow_unused = false, .hook = hook}) {}

  /// One reduction of gradients that differ between ranks, and are between two values of bf16.
  std::vector<double> reduce(int rank) {
    arena.zero_grad();
    const Tensor x = tensor_of({1, 2, 3}, {1, 3}, DType::f32, arena.device());
    sum(scale(model(x), 1.001 + 0.01 * rank)).backward();
    parallel.finish();
    return model.parameter("first.weight").grad().to_doubles();
  }
};

}  // namespace

TEST_CASE("data parallel: residuals go through a file, and their mean to other ranks", "[dist][ddp]") {
  const auto comm = this_run();
  Compressed uninterrupted(comm), stopped(comm), resumed(comm), without(comm);
  for (int i = 0; i < 5; ++i) {
    uninterrupted.reduce(comm->rank());
    stopped.reduce(comm->rank());
  }
  const TemporaryFolder folder;
  const std::vector<NamedTensor> gathered = stopped.hook->gather_residuals(*comm);
  std::vector<NamedTensor> saved;
  if (comm->rank() == 0) {
    save_safetensors(folder / "residuals.safetensors", gathered, {});
    const SafetensorsFile file(folder / "residuals.safetensors");
    for (const auto& entry : file.entries()) saved.push_back({entry.name, file.load(entry.name)});
    REQUIRE(saved.size() == 4);
  } else {
    CHECK(gathered.empty());
  }
  resumed.hook->scatter_residuals(*comm, saved);
  bool differs = false;
  for (int i = 0; i < 5; ++i) {
    const std::vector<double> found =
        resumed.reduce(comm->rank());  // first, as it needs the residuals at once
    const std::vector<double> expected = uninterrupted.reduce(comm->rank());
    CHECK(found == expected);
    differs = without.reduce(comm->rank()) != expected || differs;
  }
  CHECK(differs);

  for (int fewer = 1; fewer < comm->size(); ++fewer) {
    const auto some = comm->split(comm->rank() < fewer ? 0 : -1, 0);
    if (some == nullptr) continue;
    Compressed other(some);
    other.hook->scatter_residuals(*some, saved);
    const std::vector<NamedTensor> found = other.hook->gather_residuals(*some);
    for (const NamedTensor& residual : found) {
      INFO(residual.name << " on " << fewer << " ranks");
      const auto before = std::find_if(saved.begin(), saved.end(),
                                       [&](const NamedTensor& each) { return each.name == residual.name; });
      const std::vector<double> of_all = before->tensor.to_doubles(), now = residual.tensor.to_doubles();
      const std::size_t elements = now.size() / static_cast<std::size_t>(fewer);
      for (std::size_t i = 0; i < now.size(); ++i) {
        double mean = 0;
        for (std::size_t k = i % elements; k < of_all.size(); k += elements) mean += of_all[k] / comm->size();
        CHECK(now[i] == Approx(mean).epsilon(1e-6));
      }
    }
  }
}

TEST_CASE("data parallel: residuals of another model are an error", "[dist][ddp]") {
  const auto alone = std::make_shared<SelfCommunicator>(Device{}, Seconds(60));
  Compressed compressed(alone);
  std::vector<NamedTensor> residuals = compressed.hook->gather_residuals(*alone);
  residuals.back().tensor = zeros({1, 5});
  CHECK_THAT(error_of([&] { compressed.hook->scatter_residuals(*alone, residuals); }),
             ContainsSubstring("residual.first.weight is f32[1, 5] on cpu, expected f32[ranks, 6]"));
  residuals.pop_back();
  CHECK_THAT(error_of([&] { compressed.hook->scatter_residuals(*alone, residuals); }),
             ContainsSubstring("found no residual.first.weight"));
  CompressHook forgetful(compressed.arena, DType::bf16, false);
  CHECK(forgetful.gather_residuals(*alone).empty());
  CHECK_THROWS_WITH(forgetful.scatter_residuals(*alone, residuals),
                    ContainsSubstring("a hook without error feedback"));
}
