// LAMB and LARS against a plain implementation in double precision.
#include <cmath>
#include <functional>
#include <memory>

#include "autograd/tape.h"
#include "core/error.h"
#include "nn/arena.h"
#include "optim/clip.h"
#include "optim/lamb.h"
#include "optim/lars.h"
#include "tests/support/check_build.h"
#include "tests/support/kernel_test.h"
#include "tests/support/tensors.h"

namespace ringtape::test {
namespace {

using Values = std::vector<double>;

struct Layer {
  const char* name;
  Shape shape;
  bool starts_at_zero = false;
};

// Two tiles with an odd remainder, four tiles, a bias, values that start at zero, one element.
const std::vector<Layer> kLayers = {
    {"small_weight", {5, 3}},      {"small_bias", {33}},          {"wide_weight", {3, 5461}},
    {"long_bias", {3 * 8192 + 1}}, {"zero_weight", {7, 9}, true}, {"zero_bias", {4}, true},
    {"one_weight", {1, 1}},
};

Values start_of(std::size_t layer) {
  const std::int64_t n = kLayers[layer].shape.elements();
  return kLayers[layer].starts_at_zero ? Values(static_cast<std::size_t>(n)) : random_doubles(n, layer);
}

/// The layers, and a frozen parameter between them.
struct Layers : Module {
  Layers() {
    for (std::size_t i = 0; i < kLayers.size(); ++i) {
      tensors.push_back(&register_parameter(kLayers[i].name, tensor_of(start_of(i), kLayers[i].shape)));
      if (i == 2) {
        frozen = &register_parameter("frozen_weight", tensor_of({1, 2, 3, 4}, {2, 2}));
        frozen->set_requires_grad(false);
      }
    }
  }
  Tensor forward(const Tensor& x) override { return x; }
  std::vector<Tensor*> tensors;
  Tensor* frozen = nullptr;
};

constexpr int kSteps = kCheckBuild ? 10 : 50;

/// One bias has no gradient in every fourth step, the large weight none in one.
bool is_absent(std::size_t layer, int step) {
  return (layer == 1 && step % 4 == 1) || (layer == 2 && step == 7);
}

/// Gradients of `layer` in `step`, whose size differs from step to step; in the first three those of the
/// one-element weight are 0.
Values gradient_of(std::size_t layer, int step) {
  const std::int64_t n = kLayers[layer].shape.elements();
  const auto seed = static_cast<std::uint64_t>(1000 * step) + layer;
  if (layer == 6 && step < 3) return Values(static_cast<std::size_t>(n));
  return random_doubles(n, seed, -1, 1.0 + 0.1 * step);
}

double norm_of(const Values& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

/// A parameter in double precision.
struct Parameter {
  Values w, m, v;
  double t = 0;
  double lr_scale = 1;
  double weight_decay = 0;
  bool use_trust_ratio = true;
};

using Update = std::function<void(Parameter& p, const Values& g, double learning_rate)>;

void lamb_update(Parameter& p, const Values& g, double learning_rate, const LambOptions& o) {
  p.t += 1;
  const double correction1 = 1 - std::pow(o.beta1, p.t), correction2 = 1 - std::pow(o.beta2, p.t);
  Values u(g.size());
  for (std::size_t i = 0; i < g.size(); ++i) {
    p.m[i] = o.beta1 * p.m[i] + (1 - o.beta1) * g[i];
    p.v[i] = o.beta2 * p.v[i] + (1 - o.beta2) * g[i] * g[i];
    if (o.debias == LambDebias::in_norm) {
      u[i] = p.m[i] / correction1 / (std::sqrt(p.v[i] / correction2) + o.eps);
    } else {
      u[i] = p.m[i] / (std::sqrt(p.v[i]) + o.eps);
    }
    u[i] += p.weight_decay * p.w[i];
  }
  if (o.debias == LambDebias::out_of_norm) learning_rate *= std::sqrt(correction2) / correction1;
  double ratio = 1;
  if (p.use_trust_ratio && norm_of(p.w) > 0 && norm_of(u) > 0) {
    ratio = std::clamp(norm_of(p.w) / norm_of(u), o.min_ratio, o.max_ratio);
  }
  for (std::size_t i = 0; i < g.size(); ++i) p.w[i] -= learning_rate * ratio * u[i];
}

void lars_update(Parameter& p, const Values& g, double learning_rate, const LarsOptions& o) {
  double local = 1;
  if (p.use_trust_ratio && norm_of(p.w) > 0 && norm_of(g) > 0) {
    local = o.trust_coefficient * norm_of(p.w) / (norm_of(g) + p.weight_decay * norm_of(p.w) + o.eps);
  }
  for (std::size_t i = 0; i < g.size(); ++i) {
    p.m[i] = o.momentum * p.m[i] + local * (g[i] + p.weight_decay * p.w[i]);
    p.w[i] -= learning_rate * p.m[i];
  }
}

using Make = std::function<std::unique_ptr<Optimizer>(ParameterArena&, const std::vector<ParameterGroup>&)>;

struct Setting {
  double learning_rate;
  double weight_decay;
  bool grouped = false;
  double max_norm = 0;  // 0: no clipping
};

std::vector<ParameterGroup> groups_of(const Setting& setting) {
  if (!setting.grouped) return {};
  return {no_decay_below_two_dimensions(),
          {.name = "long",
           .contains = [](const ArenaEntry& e) { return e.name == "long_bias"; },
           .use_trust_ratio = true},
          {.name = "wide",
           .contains = [](const ArenaEntry& e) { return e.name.starts_with("wide_"); },
           .lr_scale = 0.5,
           .weight_decay = 0.2},
          {.name = "small",
           .contains = [](const ArenaEntry& e) { return e.name == "small_weight"; },
           .use_trust_ratio = false}};
}

std::vector<Parameter> reference_parameters(const Setting& setting) {
  std::vector<Parameter> parameters;
  for (std::size_t i = 0; i < kLayers.size(); ++i) {
    const Values start = to_doubles(convert<float>(start_of(i)));
    Parameter p{start, Values(start.size()), Values(start.size())};
    p.weight_decay = setting.weight_decay;
    p.use_trust_ratio = kLayers[i].shape.dims() >= 2;
    if (setting.grouped && kLayers[i].shape.dims() < 2) p.weight_decay = 0;
    if (setting.grouped && i == 3) p.use_trust_ratio = true;
    if (setting.grouped && i == 2) p.lr_scale = 0.5, p.weight_decay = 0.2;
    if (setting.grouped && i == 0) p.use_trust_ratio = false;
    parameters.push_back(std::move(p));
  }
  return parameters;
}

/// The learning rate of a step, as the device has it.
double rate_of(const Setting& setting, int step) {
  return static_cast<float>(setting.learning_rate * (1 - 0.01 * step));
}

std::vector<Parameter> run_reference(const Setting& setting, const Update& update) {
  std::vector<Parameter> parameters = reference_parameters(setting);
  for (int step = 0; step < kSteps; ++step) {
    std::vector<Values> gradients(kLayers.size());
    double squares = 0;
    for (std::size_t i = 0; i < kLayers.size(); ++i) {
      if (is_absent(i, step)) continue;
      gradients[i] = to_doubles(convert<float>(gradient_of(i, step)));
      squares += norm_of(gradients[i]) * norm_of(gradients[i]);
    }
    const double factor =
        setting.max_norm > 0 ? std::min(1.0, setting.max_norm / (std::sqrt(squares) + 1e-6)) : 1;
    for (std::size_t i = 0; i < kLayers.size(); ++i) {
      if (is_absent(i, step)) continue;
      for (double& g : gradients[i]) g *= factor;
      update(parameters[i], gradients[i], rate_of(setting, step) * parameters[i].lr_scale);
    }
  }
  return parameters;
}

/// The values of all layers after some steps on `device`.
std::vector<Values> run_on(Device device, const Setting& setting, const Make& make, int steps) {
  Layers model;
  ParameterArena arena(model, device);
  const std::unique_ptr<Optimizer> optimizer = make(arena, groups_of(setting));
  for (int step = 0; step < steps; ++step) {
    optimizer->zero_grad();
    optimizer->set_learning_rate(rate_of(setting, step));
    for (std::size_t i = 0; i < kLayers.size(); ++i) {
      if (is_absent(i, step)) continue;
      const Tensor gradient = tensor_of(gradient_of(i, step), kLayers[i].shape, DType::f32, device);
      sum(multiply(*model.tensors[i], gradient)).backward();
    }
    if (setting.max_norm > 0) clip_grad_norm(arena, setting.max_norm);
    optimizer->step();
  }
  CHECK(model.frozen->to_doubles() == Values{1, 2, 3, 4});
  std::vector<Values> values;
  for (const Tensor* tensor : model.tensors) values.push_back(tensor->to_doubles());
  return values;
}

/// Values within 1e-6 of the reference, relative to each parameter's largest.
void compare(const Setting& setting, const Make& make, const Update& update) {
  const std::vector<Parameter> expected = run_reference(setting, update);
  std::vector<Device> devices = {Device{}};
  if (cuda_device_count() > 0) devices.push_back({DeviceType::cuda, 0});
  for (const Device device : devices) {
    const std::vector<Values> values = run_on(device, setting, make, kSteps);
    for (std::size_t i = 0; i < kLayers.size(); ++i) {
      INFO(kLayers[i].name << " on " << to_string(device));
      check_close(values[i], expected[i].w, 0, 1e-6 * largest_of(expected[i].w));
    }
  }
}

/// The same bits under every order of a block's threads, and in a second run.
void check_repeatable(const Setting& setting, const Make& make) {
  const std::vector<Values> expected = run_on(Device{}, setting, make, 4);
  on_every_device([&](Device device, const Stream&) {
    const std::vector<Values> values = run_on(device, setting, make, 4);
    CHECK(values == (device.is_cpu() ? expected : run_on(device, setting, make, 4)));
  });
}

Make make_lamb(const Setting& setting, LambOptions options) {
  options.learning_rate = setting.learning_rate;
  options.weight_decay = setting.weight_decay;
  return [=](ParameterArena& arena, const std::vector<ParameterGroup>& groups) {
    return std::make_unique<Lamb>(arena, options, groups);
  };
}

Make make_lars(const Setting& setting, LarsOptions options) {
  options.learning_rate = setting.learning_rate;
  options.weight_decay = setting.weight_decay;
  return [=](ParameterArena& arena, const std::vector<ParameterGroup>& groups) {
    return std::make_unique<Lars>(arena, options, groups);
  };
}

void compare_lamb(const Setting& setting, const LambOptions& options) {
  compare(setting, make_lamb(setting, options),
          [&](Parameter& p, const Values& g, double rate) { lamb_update(p, g, rate, options); });
}

void compare_lars(const Setting& setting, const LarsOptions& options) {
  compare(setting, make_lars(setting, options),
          [&](Parameter& p, const Values& g, double rate) { lars_update(p, g, rate, options); });
}

}  // namespace

TEST_CASE("LAMB follows Algorithm 2 of its paper over many steps", "[optimizer]") {
  compare_lamb({.learning_rate = 0.01, .weight_decay = 0.1}, {});
}

TEST_CASE("LAMB with the bias correction out of the norm, and with none", "[optimizer]") {
  compare_lamb({.learning_rate = 0.01, .weight_decay = 0.1}, {.debias = LambDebias::out_of_norm});
  compare_lamb({.learning_rate = 0.01, .weight_decay = 0}, {.debias = LambDebias::none});
}

TEST_CASE("LAMB with groups, clipping and limits of the trust ratio", "[optimizer]") {
  compare_lamb({.learning_rate = 0.01, .weight_decay = 0.1, .grouped = true, .max_norm = 20},
               {.beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3});
  compare_lamb({.learning_rate = 0.02, .weight_decay = 0.01}, {.min_ratio = 0.3, .max_ratio = 0.6});
}

TEST_CASE("LARS follows its paper over many steps", "[optimizer]") {
  compare_lars({.learning_rate = 10, .weight_decay = 0}, {});
  compare_lars({.learning_rate = 10, .weight_decay = 0.05}, {.momentum = 0.5, .trust_coefficient = 2e-3});
  compare_lars({.learning_rate = 1, .weight_decay = 0.05}, {.momentum = 0, .eps = 0.1});
}

TEST_CASE("LARS with groups and clipping", "[optimizer]") {
  compare_lars({.learning_rate = 5, .weight_decay = 0.05, .grouped = true, .max_norm = 20}, {});
}

TEST_CASE("LAMB and LARS end at the same bits under every order of threads, and in a second run",
          "[optimizer]") {
  const Setting setting{.learning_rate = 0.01, .weight_decay = 0.1, .grouped = true, .max_norm = 20};
  check_repeatable(setting, make_lamb(setting, {}));
  check_repeatable(setting, make_lars(setting, {}));
}

TEST_CASE("LAMB and LARS refuse invalid settings by name", "[optim]") {
  Layers model;
  ParameterArena arena(model, Device{});
  for (const double bad : {-1.0, std::nan(""), HUGE_VAL}) {
    CHECK_THROWS_WITH(Lamb(arena, {.learning_rate = bad}), ContainsSubstring("learning rate must be finite"));
    CHECK_THROWS_WITH(Lamb(arena, {.beta1 = bad}), ContainsSubstring("LAMB: betas must be in [0, 1)"));
    CHECK_THROWS_WITH(Lamb(arena, {.beta2 = bad}), ContainsSubstring("LAMB: betas must be in [0, 1)"));
    CHECK_THROWS_WITH(Lamb(arena, {.eps = bad}), ContainsSubstring("LAMB: eps must be finite and positive"));
    CHECK_THROWS_WITH(Lamb(arena, {.weight_decay = bad}), ContainsSubstring("weight decay must be finite"));
    CHECK_THROWS_WITH(Lars(arena, {.learning_rate = bad}), ContainsSubstring("learning rate must be finite"));
    CHECK_THROWS_WITH(Lars(arena, {.momentum = bad}), ContainsSubstring("LARS: momentum must be finite"));
    CHECK_THROWS_WITH(Lars(arena, {.trust_coefficient = bad}), ContainsSubstring("trust coefficient"));
    CHECK_THROWS_WITH(Lars(arena, {.eps = bad}), ContainsSubstring("LARS: eps must be finite"));
  }
  CHECK_THROWS_WITH(Lamb(arena, {.eps = 0}), ContainsSubstring("found 0"));
  for (const auto& [low, high] :
       {std::pair(-1.0, 1.0), {2.0, 1.0}, {0.0, std::nan("")}, {std::nan(""), 1.0}}) {
    CHECK_THROWS_WITH(Lamb(arena, {.min_ratio = low, .max_ratio = high}),
                      ContainsSubstring("trust ratio's limits"));
  }
}

}  // namespace ringtape::test
