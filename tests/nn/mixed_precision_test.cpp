#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "autograd/tape.h"
#include "core/error.h"
#include "core/half.h"
#include "core/random.h"
#include "core/stream.h"
#include "data/loader.h"
#include "data/mnist.h"
#include "kernels/elementwise.h"
#include "nn/arena.h"
#include "nn/compute_dtype.h"
#include "nn/layers.h"
#include "optim/adam.h"
#include "optim/clip.h"
#include "optim/loss_scaler.h"
#include "optim/registry.h"
#include "optim/schedule.h"
#include "optim/sgd.h"
#include "tests/support/catch.h"
#include "tests/support/gpu.h"
#include "tests/support/tensors.h"

// A model that computes in 16 bits with f32 parameters.
namespace ringtape::test {
namespace {

using Values = std::vector<double>;

std::vector<Device> devices() {
  std::vector<Device> all = {Device{}};
  if (cuda_device_count() > 0) all.push_back({DeviceType::cuda, 0});
  return all;
}

/// Calls body(device, dtype) for both 16-bit formats on each device.
template <class Body>
void for_each_half(const Body& body) {
  for (const Device device : devices()) {
    for (const DType dtype : {DType::bf16, DType::f16}) {
      INFO(name_of(dtype) << " on " << to_string(device));
      body(device, dtype);
    }
  }
}

/// `values` rounded to `dtype`, to nearest even.
Values rounded(const Values& values, DType dtype) {
  Values result;
  for (double value : values) {
    const auto single = static_cast<float>(value);
    result.push_back(dtype == DType::bf16 ? on_cpu::to_float(on_cpu::to_bfloat16(single))
                                          : on_cpu::to_float(on_cpu::to_float16(single)));
  }
  return result;
}

/// Every copy must equal the rounded parameter, and be used for inputs of its dtype.
void check_copies(Module& model, DType dtype) {
  for (const NamedParameter& parameter : model.named_parameters()) {
    INFO(parameter.name);
    const Tensor& copy = parameter.tensor->autograd->low_precision;
    CHECK(copy.dtype() == dtype);
    CHECK(copy.to_doubles() == rounded(parameter.tensor->to_doubles(), dtype));
  }
}

/// Multiples of `unit` in [-limit, limit].
Values grid_values(std::int64_t n, std::uint64_t seed, double unit, double limit) {
  Values values = random_doubles(n, seed, -limit / unit, limit / unit);
  for (double& value : values) value = std::nearbyint(value) * unit;
  return values;
}

// ---- the copy ----

TEST_CASE("the 16-bit copy is the rounded values when the arena is made, frozen parameters included",
          "[mixed]") {
  for_each_half([](Device device, DType dtype) {
    const auto model = make_mlp({33, 20, 7});
    model->parameter("0.bias").set_requires_grad(false);
    const ParameterArena arena(*model, device, dtype);
    CHECK(arena.compute_dtype() == dtype);
    CHECK(arena.low_precision().elements() == arena.size());
    check_copies(*model, dtype);
  });
}

TEST_CASE("an arena without a compute dtype keeps no copy, and discards an older one", "[mixed]") {
  const auto model = make_mlp({3, 2});
  ParameterArena(*model, Device{}, DType::bf16);
  const ParameterArena arena(*model, Device{});
  CHECK(arena.compute_dtype() == DType::f32);
  CHECK_FALSE(arena.low_precision().defined());
  CHECK_THROWS_WITH((*model)(ones({1, 3}, DType::bf16)),
                    "linear: expected one dtype and device, found bf16[1, 3] on cpu and f32[2, 3] on cpu");
  CHECK_THROWS_WITH(ParameterArena(*model, Device{}, DType::f64),
                    "parameter arena: a model computes in f32, bf16 or f16, not in f64");
}

TEST_CASE("every optimizer's step writes the copy with the values", "[mixed]") {
  using Make = std::function<std::unique_ptr<Optimizer>(ParameterArena&)>;
  std::map<std::string, Make> makers = {
      {"sgd, nothing else", [](ParameterArena& a) { return std::make_unique<SGD>(a); }},
      {"sgd, Nesterov", [](ParameterArena& a) {
         return std::make_unique<SGD>(a, SGDOptions{.momentum = 0.9, .weight_decay = 0.1, .nesterov = true});
       }}};
  for (const OptimizerKind& kind : optimizers()) {
    makers[kind.name] = [&kind](ParameterArena& a) { return kind.make(a, kind.defaults, {}); };
  }
  for_each_half([&](Device device, DType dtype) {
    for (const auto& [name, make] : makers) {
      INFO(name);
      const auto model = make_mlp({130, 70, 3});  // a parameter of more than one tile
      ParameterArena arena(*model, device, dtype);
      const auto optimizer = make(arena);
      const Tensor x = tensor_of(random_doubles(5 * 130, 1), {5, 130}, dtype, device);
      for (int step = 0; step < 3; ++step) {
        const Values before = model->parameter("0.weight").to_doubles();
        optimizer->zero_grad();
        sum((*model)(x)).backward();
        optimizer->step();
        CHECK(model->parameter("0.weight").to_doubles() != before);
        check_copies(*model, dtype);
      }
    }
  });
}

TEST_CASE("values that anything but an optimizer changed are rounded again before they are used", "[mixed]") {
  for_each_half([](Device device, DType dtype) {
    const auto model = make_mlp({2, 2});
    ParameterArena arena(*model, device, dtype);
    SGD optimizer(arena);
    Tensor& weight = model->parameter("0.weight");
    model->parameter("0.bias").copy_from(tensor_of({0, 0}, {2}));
    const Tensor x = tensor_of({1, 0}, {1, 2}, dtype, device);
    // 1 + 2^-12 is not a tie in rounding: it shows that the copy was rounded, and not only the product.
    weight.copy_from(tensor_of({1 + 0x1p-12, 0, -3, 0}, {2, 2}));
    CHECK((*model)(x).to_doubles() == Values{1, -3});
    Tape::current().clear();

    // A step that leaves the parameter out must not mark its old copy as current.
    weight.copy_from(tensor_of({5, 0, 7, 0}, {2, 2}));
    optimizer.step();
    CHECK((*model)(x).to_doubles() == Values{5, 7});
    Tape::current().clear();

    // Written without the tensor, as by a broadcast over the whole arena, and then marked as changed.
    Tensor flat = arena.values().alias({arena.size()});
    flat.copy_from(full({arena.size()}, 0.5, DType::f32, device));
    arena.bump_versions();
    CHECK((*model)(x).to_doubles() == Values{1, 1});
    Tape::current().clear();
  });
}

TEST_CASE("a step between forward and backward is an error in 16 bits too", "[mixed]") {
  const auto model = make_mlp({2, 3, 2});
  ParameterArena arena(*model, Device{}, DType::bf16);
  SGD optimizer(arena);
  const Tensor y = sum((*model)(ones({1, 2}, DType::bf16)));
  optimizer.step();
  CHECK_THROWS_WITH(y.backward(), ContainsSubstring("backward of linear: 2.weight (bf16[2, 3] on cpu) was "
                                                    "changed in place after the forward"));
}

TEST_CASE("the copies do not count as memory kept for backward", "[mixed]") {
  const auto model = make_mlp({4, 3, 2});
  const ParameterArena arena(*model, Device{}, DType::bf16);
  const TapeScope scope;
  const Tensor y = (*model)(ones({8, 4}, DType::bf16));
  // the input and the ReLU's output
  CHECK(Tape::current().saved_bytes() == 2 * (8 * 4 + 8 * 3));
}

// ---- linear ----

/// x w^T + b and its gradients for a gradient g of the result, from values rounded to `dtype`, in double.
struct LinearReference {
  Values y, dx, dw, db;
};

LinearReference linear_reference(std::int64_t rows, std::int64_t in, std::int64_t out, const Values& x,
                                 const Values& w, const Values& b, const Values& g) {
  LinearReference r{Values(rows * out), Values(rows * in), Values(out * in), Values(out)};
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t o = 0; o < out; ++o) {
      r.y[i * out + o] += b[o];
      r.db[o] += g[i * out + o];
      for (std::int64_t j = 0; j < in; ++j) {
        r.y[i * out + o] += x[i * in + j] * w[o * in + j];
        r.dx[i * in + j] += g[i * out + o] * w[o * in + j];
        r.dw[o * in + j] += g[i * out + o] * x[i * in + j];
      }
    }
  }
  return r;
}

TEST_CASE("linear with a 16-bit input and f32 parameters: forward and gradients", "[mixed]") {
  const std::int64_t shapes[][3] = {{1, 1, 1}, {31, 33, 7}, {64, 257, 130}, {5, 10, 300}};
  for_each_half([&](Device device, DType dtype) {
    for (const GemmBackend backend : {GemmBackend::own, GemmBackend::vendor}) {
      if (backend == GemmBackend::vendor && vendor_gemm_name(device) == "none") continue;
      const GemmBackend before = gemm_backend(device);
      set_gemm_backend(backend, device);
      for (const auto& [rows, in, out] : shapes) {
        INFO((backend == GemmBackend::own ? "own" : "vendor") << ", " << rows << " x " << in << " x " << out);
        Linear layer(in, out);
        layer.parameter("weight").copy_from(tensor_of(random_doubles(out * in, 1), {out, in}));
        layer.parameter("bias").copy_from(tensor_of(random_doubles(out, 2), {out}));
        ParameterArena arena(layer, device, dtype);
        const Values xs = rounded(random_doubles(rows * in, 3), dtype);
        const Values gs = rounded(random_doubles(rows * out, 4), dtype);
        const Tensor leaf = tensor_of(xs, {rows, in}, DType::f32, device).set_requires_grad(true);
        const Tensor y = layer(to(leaf, dtype));
        CHECK(y.dtype() == dtype);
        Tape::current().backward(y, tensor_of(gs, {rows, out}, dtype, device));

        const LinearReference expected =
            linear_reference(rows, in, out, xs, rounded(layer.parameter("weight").to_doubles(), dtype),
                             rounded(layer.parameter("bias").to_doubles(), dtype), gs);
        // Sums of k terms of at most 1 in f32, (k + 1) 2^-24 in the worst case; y and dx are then rounded.
        const double half = rounding_of(dtype), single = rounding_of(DType::f32);
        const auto sum_of = [&](std::int64_t k) { return single * static_cast<double>((k + 1) * k); };
        check_close(y.to_doubles(), expected.y, half, (1 + half) * sum_of(in + 1));
        check_close(leaf.grad().to_doubles(), expected.dx, half, (1 + half) * sum_of(out));
        // The parameters' gradients are f32 and have not been through 16 bits.
        const Tensor& dw = layer.parameter("weight").grad();
        CHECK(dw.dtype() == DType::f32);
        CHECK(dw.raw() == static_cast<float*>(arena.gradients().raw()) + arena.entries()[1].offset);
        check_close(dw.to_doubles(), expected.dw, 0, sum_of(rows));
        check_close(layer.parameter("bias").grad().to_doubles(), expected.db, 0, sum_of(rows));
      }
      set_gemm_backend(before, device);
    }
  });
}

/// The model of make_mlp({in, hidden, out}) in f32, with every tensor that is 16 bits wide in mixed precision
/// rounded where it comes into being, and its gradient likewise.
Tensor rounded_mlp(Module& model, const Tensor& x, DType dtype) {
  const auto round = [dtype](const Tensor& t) { return to(to(t, dtype), t.dtype()); };
  // The gradients of parameters are not rounded: the parameter's rounding happens outside of the tape.
  const auto layer = [&](const Tensor& input, const char* name) {
    const Tensor& weight = model.parameter(std::string(name) + ".weight");
    const Tensor& bias = model.parameter(std::string(name) + ".bias");
    return round(linear(input, weight, bias));
  };
  return layer(relu(layer(round(x), "0")), "2");
}

TEST_CASE("gradients equal those of an f32 model whose weights and activations are rounded alike",
          "[mixed]") {
  for_each_half([](Device device, DType dtype) {
    // On these grids every sum is exact in f32 whatever its order, so that the two must agree in every bit,
    // while sums are too long for 16 bits: rounding takes place.
    const double unit = dtype == DType::bf16 ? 0x1p-3 : 0x1p-4, weight_unit = unit / 2;
    const std::int64_t rows = 20, in = 33, hidden = 16, out = 10;
    const auto mixed = make_mlp({in, hidden, out}), reference = make_mlp({in, hidden, out});
    std::uint64_t seed = 1;
    for (const NamedParameter& p : mixed->named_parameters()) {
      Values values = grid_values(p.tensor->elements(), seed++, weight_unit, 1);
      reference->parameter(p.name).copy_from(tensor_of(values, p.tensor->shape()));
      for (double& value : values) value *= 1 + 0x1p-14;  // rounds to what the reference has
      p.tensor->copy_from(tensor_of(values, p.tensor->shape()));
    }
    const ParameterArena arena(*mixed, device, dtype), reference_arena(*reference, device);
    const Tensor x = tensor_of(grid_values(rows * in, 9, unit, 2), {rows, in}, DType::f32, device);
    const Tensor g = tensor_of(grid_values(rows * out, 10, unit, 2), {rows, out}, DType::f32, device);

    const Tensor expected = rounded_mlp(*reference, x, dtype);
    Tape::current().backward(expected, g);
    const Tensor y = (*mixed)(to(x, dtype));
    Tape::current().backward(y, to(g, dtype));
    CHECK(y.to_doubles() == expected.to_doubles());
    for (const NamedParameter& p : mixed->named_parameters()) {
      INFO(p.name);
      CHECK(p.tensor->grad().to_doubles() == reference->parameter(p.name).grad().to_doubles());
    }

    // Without rounding the gradients differ.
    const Values with_rounding = reference->parameter("0.weight").grad().to_doubles();
    reference->parameter("0.weight").autograd->grad_written = false;
    const Tensor plain = (*reference)(x);
    Tape::current().backward(plain, g);
    CHECK(reference->parameter("0.weight").grad().to_doubles() != with_rounding);
  });
}

TEST_CASE("micro-batches in 16 bits add up in f32", "[mixed]") {
  for_each_half([](Device device, DType dtype) {
    // Each micro-batch adds 1 to every gradient. A 16-bit sum stops at 2^8 or 2^11, where the next number is
    // 2 away and a half is rounded to even.
    const int steps = dtype == DType::bf16 ? 300 : 2100;
    Values sixteen_bits = {0};
    for (int i = 0; i < steps; ++i) sixteen_bits = rounded({sixteen_bits[0] + 1}, dtype);
    CHECK(sixteen_bits[0] == (dtype == DType::bf16 ? 256 : 2048));

    Linear layer(3, 2);
    const ParameterArena arena(layer, device, dtype);
    const Tensor x = ones({1, 3}, dtype, device);
    for (int i = 0; i < steps; ++i) sum(layer(x)).backward();
    CHECK(layer.parameter("weight").grad().to_doubles() == Values(6, steps));
    CHECK(layer.parameter("bias").grad().to_doubles() == Values(2, steps));
  });
}

TEST_CASE("recomputed segments leave 16-bit results and gradients as they are", "[mixed]") {
  for_each_half([](Device device, DType dtype) {
    const auto model = make_mlp({20, 30, 30, 30, 4});
    const ParameterArena arena(*model, device, dtype);
    const Tensor x = tensor_of(random_doubles(9 * 20, 1), {9, 20}, dtype, device);
    std::vector<Values> results[2];
    for (const int recompute : {0, 2}) {
      model->set_recompute(recompute);
      for (const ArenaEntry& entry : arena.entries()) entry.tensor->autograd->grad_written = false;
      const Tensor y = sum((*model)(x));
      y.backward();
      results[recompute / 2] = {y.to_doubles(), arena.gradients().to_doubles()};
    }
    CHECK(results[0] == results[1]);
  });
}

TEST_CASE("a frozen 16-bit layer passes gradients on and gets none", "[mixed]") {
  for_each_half([](Device device, DType dtype) {
    const auto model = make_mlp({2, 2, 1});
    model->parameter("2.weight").copy_from(tensor_of({2, 3}, {1, 2}));
    model->parameter("2.weight").set_requires_grad(false);
    model->parameter("0.bias").copy_from(tensor_of({9, 9}, {2}));  // the ReLU lets everything pass
    const ParameterArena arena(*model, device, dtype);
    sum((*model)(ones({1, 2}, dtype, device))).backward();
    CHECK(model->parameter("0.bias").grad().to_doubles() == Values{2, 3});
    CHECK_FALSE(model->parameter("2.weight").grad().defined());
  });
}

TEST_CASE("the loss of 16-bit logits is computed in f32", "[mixed]") {
  for_each_half([](Device device, DType dtype) {
    // 1000 rows of loss log 2: a 16-bit sum would be off by far more than 1e-6 of it.
    const std::int64_t rows = 1000;
    const Tensor logits = zeros({rows, 2}, dtype, device);
    const Tensor targets = zeros({rows}, DType::i64, device);
    const Tensor loss = cross_entropy(logits, targets, {.reduction = Reduction::sum});
    CHECK(loss.dtype() == DType::f32);
    CHECK(is_close(loss.item(), 1000 * std::log(2.0), 1e-6));
  });
}

// ---- training ----

// Check builds are slow, so only other builds test the accuracy.
#if !defined(RINGTAPE_CHECK)

/// Share of MNIST's test images that a model recognises after one epoch in `dtype`, f16 with a loss scale.
double mnist_accuracy(const MnistData& data, Device device, DType dtype) {
  manual_seed(1);
  const auto model = make_mlp({784, 64, 10});
  ParameterArena arena(*model, device, dtype);
  Adam optimizer(arena);
  std::optional<LossScaler> scaler;
  if (dtype == DType::f16) scaler.emplace(arena);
  const auto prepare = [&](const Tensor& images) {
    Tensor x = empty({images.size(0), 784}, dtype, device);
    normalize_u8(Stream::current(device), copy_to(images, device).data<std::uint8_t>(), dtype, x.raw(),
                 x.elements(), kMnistMean, kMnistStd);
    return x;
  };
  const auto train = std::make_shared<TensorDataset>(data.train);
  DataLoader loader(train, std::make_shared<RandomSampler>(train->size(), 1), {.batch_size = 128});
  const Schedule rate = schedule::linear_decay(2e-3, loader.batches_per_epoch());
  loader.start_epoch(0);
  for (std::int64_t step = 0; std::optional<Batch> batch = loader.next(); ++step) {
    optimizer.set_learning_rate(rate(step));
    optimizer.zero_grad();
    const auto [images, labels] = batch->to(device);
    const Tensor loss = cross_entropy((*model)(prepare(images)), labels);
    scaler ? scaler->backward(loss) : loss.backward();
    clip_grad_norm(arena, INFINITY, {.skip_nonfinite = true});
    optimizer.step();
    if (scaler) scaler->update();
  }
  const NoGrad no_grad;
  const Tensor logits = (*model)(prepare(data.test.all_features()));
  const Tensor correct = count_correct(logits, copy_to(data.test.all_targets(), device));
  return correct.item() / static_cast<double>(data.test.size());
}

TEST_CASE("bf16 and f16 train MNIST to within 0.3% of f32's accuracy", "[mixed]") {
  const MnistData data = load_mnist();
  for (const Device device : devices()) {
    const double f32 = mnist_accuracy(data, device, DType::f32);
    const double bf16 = mnist_accuracy(data, device, DType::bf16);
    const double f16 = mnist_accuracy(data, device, DType::f16);
    INFO(to_string(device) << ": f32 " << f32 << ", bf16 " << bf16 << ", f16 " << f16);
    CHECK(f32 > 0.94);
    CHECK(bf16 > f32 - 0.003);
    CHECK(f16 > f32 - 0.003);
  }
}

#endif

// ---- choosing the dtype ----

TEST_CASE("the 16-bit dtype is bf16 where there are instructions for it", "[mixed]") {
  for (const Device device : devices()) {
    CHECK(half_dtype(device) == (has_bf16_instructions(device) ? DType::bf16 : DType::f16));
    CHECK(describe_compute_dtype(DType::f32, device) == "f32");
  }
  CHECK(describe_compute_dtype(DType::f16, Device{}) == "f16 (multiplied in f32 on a CPU)");
}

TEST_CASE("TF32 is refused on the CPU", "[mixed]") {
  CHECK_FALSE(tf32(Device{}));
  set_tf32(false, Device{});
  CHECK_THROWS_WITH(set_tf32(true, Device{}),
                    "TF32 is a mode of a GPU's tensor cores: cpu multiplies f32 as f32");
}

GPU_TEST_CASE("TF32 rounds the operands of f32 products to 10 bits of mantissa, when it is on", "[mixed]") {
  const Device gpu{DeviceType::cuda, 0};
  if (!has_bf16_instructions(gpu)) {
    CHECK_THROWS_WITH(set_tf32(true, gpu), ContainsSubstring("TF32 needs a GPU of compute capability 8.0"));
    return;
  }
  const Tensor a = full({256, 256}, 1 + 0x1p-12, DType::f32, gpu), b = ones({256, 256}, DType::f32, gpu);
  CHECK(matmul(a, b).to_doubles()[0] == 256 * (1 + 0x1p-12));
  set_tf32(true, gpu);
  CHECK(tf32(gpu));
  CHECK(matmul(a, b).to_doubles()[0] == 256);
  set_tf32(false, gpu);
  CHECK(matmul(a, b).to_doubles()[0] == 256 * (1 + 0x1p-12));
}

}  // namespace
}  // namespace ringtape::test
