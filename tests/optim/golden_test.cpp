#include <zlib.h>

#include <functional>

#include "autograd/tape.h"
#include "core/half.h"
#include "io/safetensors.h"
#include "kernels/gemm.h"
#include "nn/arena.h"
#include "nn/layers.h"
#include "optim/adam.h"
#include "optim/clip.h"
#include "optim/sgd.h"
#include "tests/support/catch.h"
#include "tests/support/gpu.h"
#include "tests/support/tensors.h"

// PyTorch's results, from the files of tests/golden/make_golden.py. They were computed in f64 from f32
// inputs.
namespace ringtape::test {
namespace {

SafetensorsFile golden(const std::string& name) {
  return SafetensorsFile(std::string(RINGTAPE_TEST_DATA) + "/" + name + ".safetensors");
}

bool has(const SafetensorsFile& file, const std::string& name) {
  for (const auto& entry : file.entries()) {
    if (entry.name == name) return true;
  }
  return false;
}

// ---- operations and losses ----

struct GoldenCase {
  const char* name;
  std::function<Tensor(const std::vector<Tensor>&)> run;
};

/// Runs one case in f64 and in f32 and compares the result and all gradients.
void check_case(const SafetensorsFile& file, const GoldenCase& test) {
  const std::string prefix = std::string(test.name) + ".";
  for (const DType dtype : {DType::f64, DType::f32}) {
    INFO(test.name << " in " << name_of(dtype));
    std::vector<Tensor> inputs;
    for (int i = 0; has(file, prefix + "in" + std::to_string(i)); ++i) {
      Tensor input = file.load(prefix + "in" + std::to_string(i));
      if (is_floating(input.dtype())) input = to(input, dtype).set_requires_grad(true);
      inputs.push_back(input);
    }
    // f64: a few of its roundings. f32: sums of at most 60 terms of size 4, each rounded at 2^-24, half an
    // ulp: 60 * 4 * 2^-24 = 1.4e-5 in the worst case, where they all go one way; a tenth of it is required.
    const double relative = dtype == DType::f64 ? 1e-13 : 1e-6;
    const double absolute = dtype == DType::f64 ? 1e-13 : 1.5e-6;
    const Tensor y = test.run(inputs);
    CHECK(y.shape() == file.entry(prefix + "out").shape);
    check_close(y.to_doubles(), file.load(prefix + "out").to_doubles(), relative, absolute);
    Tape::current().backward(y, to(file.load(prefix + "dout"), y.dtype()));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!is_floating(inputs[i].dtype())) continue;
      INFO("gradient of input " << i);
      REQUIRE(inputs[i].grad().defined());
      check_close(inputs[i].grad().to_doubles(), file.load(prefix + "d" + std::to_string(i)).to_doubles(),
                  relative, absolute);
    }
  }
}

using Inputs = const std::vector<Tensor>&;

TEST_CASE("operations agree with PyTorch", "[golden]") {
  const std::vector<GoldenCase> cases = {
      {"linear", [](Inputs x) { return linear(x[0], x[1], x[2]); }},
      {"linear_no_bias", [](Inputs x) { return linear(x[0], x[1]); }},
      {"linear_3d", [](Inputs x) { return linear(x[0], x[1], x[2]); }},
      {"relu", [](Inputs x) { return relu(x[0]); }},
      {"matmul", [](Inputs x) { return matmul(x[0], x[1]); }},
      {"sum_dim0", [](Inputs x) { return sum(x[0], 0); }},
      {"sum_dim1", [](Inputs x) { return sum(x[0], 1); }},
      {"sum_dim2", [](Inputs x) { return sum(x[0], 2); }},
      {"sum_dim-1", [](Inputs x) { return sum(x[0], -1); }},
      {"mean_dim0", [](Inputs x) { return mean(x[0], 0); }},
      {"mean_dim1", [](Inputs x) { return mean(x[0], 1); }},
      {"mean_dim2", [](Inputs x) { return mean(x[0], 2); }},
      {"mean_dim-1", [](Inputs x) { return mean(x[0], -1); }},
      {"sum_keep", [](Inputs x) { return sum(x[0], 1, true); }},
      {"sum", [](Inputs x) { return sum(x[0]); }},
      {"mean", [](Inputs x) { return mean(x[0]); }},
      {"cat_dim0", [](Inputs x) { return cat(x, 0); }},
      {"cat_dim1", [](Inputs x) { return cat(x, 1); }},
      {"cat_dim-1", [](Inputs x) { return cat(x, -1); }},
      {"cat_uneven", [](Inputs x) { return cat(x, 1); }},
      {"stack_dim0", [](Inputs x) { return stack(x, 0); }},
      {"stack_dim1", [](Inputs x) { return stack(x, 1); }},
      {"stack_dim-1", [](Inputs x) { return stack(x, -1); }},
  };
  const SafetensorsFile file = golden("operations");
  for (const GoldenCase& test : cases) check_case(file, test);
}

TEST_CASE("losses agree with PyTorch", "[golden]") {
  const SafetensorsFile file = golden("losses");
  const std::pair<std::string, Reduction> reductions[] = {{"_mean", Reduction::mean},
                                                          {"_sum", Reduction::sum}};
  const std::pair<std::string, CrossEntropyOptions> cases[] = {
      {"ce_plain", {}},
      {"ce_ignored", {}},
      {"ce_ignore_class_2", {.ignore_index = 2}},
      {"ce_smoothing", {.label_smoothing = 0.1}},
      {"ce_smoothing_1", {.label_smoothing = 1}},
      {"ce_extreme", {}},
      {"ce_all_ignored", {}},
      {"ce_one_class", {}},
  };
  for (const auto& [suffix, reduction] : reductions) {
    const std::string mse = "mse" + suffix;
    check_case(file, {mse.c_str(), [&](Inputs x) { return mse_loss(x[0], x[1], reduction); }});
    for (auto [name, options] : cases) {
      options.reduction = reduction;
      const std::string full_name = name + suffix;
      check_case(file, {full_name.c_str(), [&](Inputs x) { return cross_entropy(x[0], x[1], options); }});
      // The same with the gradient in the memory of the logits: a copy without other handles.
      check_case(file,
                 {full_name.c_str(), [&](Inputs x) { return cross_entropy(scale(x[0], 1), x[1], options); }});
    }
  }
}

TEST_CASE("an MLP's loss and gradients agree with PyTorch, by either GEMM", "[golden]") {
  const SafetensorsFile file = golden("mlp");
  for (const GemmBackend backend : {GemmBackend::own, gemm_backend()}) {
    const GemmScope scope(backend);
    const std::shared_ptr<Sequential> model = make_mlp({12, 16, 5});
    for (const NamedParameter& parameter : model->named_parameters()) {
      parameter.tensor->copy_from(file.load(parameter.name));
    }
    const Tensor logits = (*model)(file.load("x"));
    check_close(logits.to_doubles(), file.load("logits").to_doubles(), 1e-6, 1e-6);
    const Tensor loss = cross_entropy(logits, file.load("targets"));
    CHECK(is_close(loss.item(), file.load("loss").item(), 1e-6));
    loss.backward();
    for (const NamedParameter& parameter : model->named_parameters()) {
      INFO(parameter.name);
      // Elements are sums of 9 terms below 1: 1e-7 is under two roundings of such a sum.
      check_close(parameter.tensor->grad().to_doubles(), file.load(parameter.name + ".grad").to_doubles(),
                  1e-6, 1e-7);
    }
  }
}

// ---- optimizers ----

/// Three parameters of the golden optimizer runs, in an arena.
class Parameters : public Module {
 public:
  explicit Parameters(const SafetensorsFile& file) {
    for (int i = 0; i < 3; ++i) {
      tensors.push_back(&register_parameter(std::to_string(i), file.load("start" + std::to_string(i))));
    }
  }
  Tensor forward(const Tensor& x) override { return x; }
  std::vector<Tensor*> tensors;
};

/// Makes `gradient` the gradient of `parameter`, by way of the tape: the gradient of parameter * gradient.
void set_gradient(const Tensor& parameter, const Tensor& gradient) {
  sum(multiply(parameter, gradient)).backward();
}

void run_optimizer(const std::string& name, Device device,
                   const std::function<std::unique_ptr<Optimizer>(ParameterArena&)>& make) {
  const SafetensorsFile file = golden("optimizers");
  Parameters model(file);
  ParameterArena arena(model, device);
  const std::unique_ptr<Optimizer> optimizer = make(arena);
  int compared = 0;
  for (int step = 0; step < 50; ++step) {
    optimizer->zero_grad();
    for (int i = 0; i < 3; ++i) {
      if (i == 1 && step % 4 == 1) continue;
      const Tensor& parameter = *model.tensors[i];
      const Tensor all = file.load("gradients" + std::to_string(i), device);
      set_gradient(parameter, all.alias(parameter.shape(), step * parameter.elements()));
    }
    optimizer->step();
    for (int i = 0; i < 3; ++i) {
      const std::string key = name + "." + std::to_string(step + 1) + "." + std::to_string(i);
      if (!has(file, key)) continue;
      INFO(key);
      const std::vector<double> expected = file.load(key).to_doubles();
      // Each step rounds the value once (2^-24) and its change a few times; of 50 steps' errors most cancel.
      check_close(model.tensors[i]->to_doubles(), expected, 0, 1e-6 * largest_of(expected));
      ++compared;
    }
  }
  REQUIRE(compared == 12);  // three parameters after 1, 2, 10 and 50 steps
}

void check_sgd(Device device) {
  const std::pair<const char*, SGDOptions> cases[] = {
      {"sgd", {.learning_rate = 0.01}},
      {"sgd_decay", {.learning_rate = 0.01, .weight_decay = 0.1}},
      {"sgd_momentum", {.learning_rate = 0.01, .momentum = 0.9}},
      {"sgd_dampening", {.learning_rate = 0.01, .momentum = 0.9, .dampening = 0.5, .weight_decay = 0.01}},
      {"sgd_nesterov", {.learning_rate = 0.01, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true}},
  };
  for (const auto& [name, options] : cases) {
    run_optimizer(name, device, [&](ParameterArena& arena) { return std::make_unique<SGD>(arena, options); });
  }
}

void check_adam(Device device) {
  const std::pair<const char*, AdamOptions> cases[] = {
      {"adam", {}},
      {"adam_decay", {.weight_decay = 0.1}},
      {"adam_betas", {.learning_rate = 0.01, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3}},
  };
  for (const auto& [name, options] : cases) {
    run_optimizer(name, device,
                  [&](ParameterArena& arena) { return std::make_unique<Adam>(arena, options); });
  }
}

void check_adamw(Device device) {
  run_optimizer("adamw", device, [](ParameterArena& arena) { return std::make_unique<AdamW>(arena); });
  run_optimizer("adamw_decay", device, [](ParameterArena& arena) {
    return std::make_unique<AdamW>(arena, AdamWOptions{.learning_rate = 0.01, .weight_decay = 0.3});
  });
}

/// The groups of the cases with groups in make_golden.py.
std::vector<ParameterGroup> golden_groups(double weight_decay) {
  const auto only = [](const std::string& name) {
    return [=](const ArenaEntry& entry) { return entry.name == name; };
  };
  return {{.name = "undecayed", .contains = only("1"), .weight_decay = 0},
          {.name = "slow", .contains = only("2"), .lr_scale = 1.0 / 3, .weight_decay = 2 * weight_decay}};
}

void check_groups(Device device) {
  run_optimizer("sgd_groups", device, [](ParameterArena& arena) {
    const SGDOptions options{.learning_rate = 0.01, .momentum = 0.9, .weight_decay = 0.1};
    return std::make_unique<SGD>(arena, options, golden_groups(0.1));
  });
  run_optimizer("adam_groups", device, [](ParameterArena& arena) {
    const AdamOptions options{.learning_rate = 0.01, .weight_decay = 0.1};
    return std::make_unique<Adam>(arena, options, golden_groups(0.1));
  });
  run_optimizer("adamw_groups", device, [](ParameterArena& arena) {
    const AdamWOptions options{.learning_rate = 0.01, .weight_decay = 0.3};
    return std::make_unique<AdamW>(arena, options, golden_groups(0.3));
  });
}

// In some of the 50 steps one parameter has no gradient.
TEST_CASE("SGD agrees with PyTorch over 50 steps", "[golden]") {
  check_sgd(Device{});
}
TEST_CASE("Adam agrees with PyTorch over 50 steps", "[golden]") {
  check_adam(Device{});
}
TEST_CASE("AdamW agrees with PyTorch over 50 steps", "[golden]") {
  check_adamw(Device{});
}
TEST_CASE("parameter groups agree with PyTorch over 50 steps", "[golden]") {
  check_groups(Device{});
}

GPU_TEST_CASE("optimizers agree with PyTorch over 50 steps on the GPU", "[golden]") {
  const Device gpu = Device::parse("cuda");
  check_sgd(gpu);
  check_adam(gpu);
  check_adamw(gpu);
  check_groups(gpu);
}

void check_clipping(const std::string& name, double max_norm, double norm_type) {
  INFO(name);
  const SafetensorsFile file = golden("clipping");
  const SafetensorsFile start = golden("optimizers");
  Parameters model(start);
  ParameterArena arena(model, Device{});
  SGD optimizer(arena, {.learning_rate = 1});
  for (int i = 0; i < 3; ++i) set_gradient(*model.tensors[i], file.load("gradient" + std::to_string(i)));
  const Tensor norm = clip_grad_norm(arena, max_norm, {.norm_type = norm_type});
  CHECK(is_close(norm.item(), file.load(name + ".norm").item(), 1e-6));
  optimizer.step();  // with a rate of 1 the values change by the clipped gradient
  for (int i = 0; i < 3; ++i) {
    const std::vector<double> before = start.load("start" + std::to_string(i)).to_doubles();
    const std::vector<double> after = model.tensors[i]->to_doubles();
    std::vector<double> step(before.size());
    for (std::size_t k = 0; k < step.size(); ++k) step[k] = before[k] - after[k];
    // Values and gradients are below 4, so each rounding is below 4 * 2^-24 = 2.4e-7.
    check_close(step, file.load(name + "." + std::to_string(i)).to_doubles(), 1e-6, 5e-7);
  }
  clip_grad_norm_now(arena, max_norm, norm_type);
  for (int i = 0; i < 3; ++i) {
    check_close(model.tensors[i]->grad().to_doubles(), file.load(name + "." + std::to_string(i)).to_doubles(),
                1e-6);
  }
}

TEST_CASE("gradient clipping agrees with PyTorch", "[golden]") {
  check_clipping("tight", 1, 2);
  check_clipping("loose", 100, 2);
  check_clipping("norm1", 1, 1);
  check_clipping("norm2.5", 1, 2.5);
  check_clipping("norm3", 1, 3);
  check_clipping("norminf", 1, INFINITY);

  const SafetensorsFile file = golden("clipping");
  Parameters model(golden("optimizers"));
  ParameterArena arena(model, Device{});
  for (int i = 0; i < 3; ++i) set_gradient(*model.tensors[i], file.load("gradient" + std::to_string(i)));
  clip_grad_value(arena, 0.75);
  for (int i = 0; i < 3; ++i) {
    check_close(model.tensors[i]->grad().to_doubles(), file.load("value." + std::to_string(i)).to_doubles(),
                0);
  }
}

// ---- initial values ----

TEST_CASE("Linear starts from values distributed as PyTorch's", "[golden]") {
  const SafetensorsFile file = golden("initialisation");
  manual_seed(1);
  for (const auto& [in, out] : {std::pair(16, 50000), std::pair(784, 2000)}) {
    Linear layer(in, out);
    for (const char* name : {"weight", "bias"}) {
      INFO(name << " of " << in << " inputs");
      const std::vector<double> golden_statistics = file.load(std::to_string(in) + "." + name).to_doubles();
      const std::vector<double> values = layer.parameter(name).to_doubles();
      const double bound = 1.0 / std::sqrt(in);
      const auto n = static_cast<double>(values.size());
      double sum = 0, squares = 0;
      for (double value : values) {
        sum += value;
        squares += value * value;
      }
      // A uniform deviate's square has the relative standard deviation 2 / sqrt(5): 5 of those of the mean
      // square for either sample, halved by the root.
      CHECK(is_close(std::sqrt(squares / n), golden_statistics[1], 5 * 0.9 / std::sqrt(n)));
      CHECK(std::abs(sum / n) < 5 * bound / std::sqrt(3 * n));
      // The largest of n falls short of the bound by more than 10 / n once in e^10 samples.
      CHECK(largest_of(values) <= bound * (1 + 1e-7));
      CHECK(largest_of(values) > bound * (1 - 10 / n));
      CHECK(is_close(golden_statistics[0], bound, 10 / n));
    }
  }
}

// ---- 16-bit formats ----

TEST_CASE("f32 is rounded to f16 and bf16 as PyTorch does", "[golden]") {
  const SafetensorsFile file = golden("rounding");
  const auto bits = file.load("f32_bits").to_vector<std::int32_t>();
  const auto f16 = file.load("f16_bits").to_vector<std::int32_t>();
  const auto bf16 = file.load("bf16_bits").to_vector<std::int32_t>();
  int wrong = 0;
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const float value = on_cpu::float_from_bits(static_cast<std::uint32_t>(bits[i]));
    const float16 half = on_cpu::to_float16(value);
    const bfloat16 brain = on_cpu::to_bfloat16(value);
    // PyTorch does not specify which NaN results.
    const bool same = std::isnan(value)
                          ? std::isnan(on_cpu::to_float(half)) && std::isnan(on_cpu::to_float(brain))
                          : half.bits == f16[i] && brain.bits == bf16[i];
    if (!same && ++wrong <= 3) {
      UNSCOPED_INFO(std::hex << "f32 bits " << bits[i] << ": found f16 " << half.bits << " and bf16 "
                             << brain.bits << ", expected " << f16[i] << " and " << bf16[i]);
    }
  }
  CHECK(wrong == 0);
  CHECK(bits.size() > 2000);
}

template <class T>
std::uint32_t crc32_of_all_values() {
  std::vector<float> table;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = on_cpu::to_float(T{static_cast<std::uint16_t>(bits)});
    table.push_back(std::isnan(value) ? 0.0f : value);
  }
  const auto* bytes = reinterpret_cast<const Bytef*>(table.data());
  return static_cast<std::uint32_t>(crc32(0, bytes, static_cast<uInt>(table.size() * sizeof(float))));
}

TEST_CASE("all 65536 values of f16 and bf16 become the f32 that PyTorch gives", "[golden]") {
  const SafetensorsFile file = golden("rounding");
  CHECK(crc32_of_all_values<float16>() == file.load("f16_table_crc32").item());
  CHECK(crc32_of_all_values<bfloat16>() == file.load("bf16_table_crc32").item());
}

}  // namespace
}  // namespace ringtape::test
