// Random compositions of operations, with their values and gradients, for random_against_torch.py to compare.
//   random_cases FILE.safetensors CASES SEED
// The file holds each case's leaves, intermediates, loss and gradients; its metadata, the operations in order
// as JSON.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <random>

#include "autograd/ops.h"
#include "core/error.h"
#include "io/parse.h"
#include "io/safetensors.h"

namespace {

using namespace ringtape;

class RandomCase {
 public:
  RandomCase(std::uint64_t seed, std::string name) : random_(seed), name_(std::move(name)) {
    constexpr DType kTypes[] = {DType::f32, DType::f64, DType::bf16, DType::f16};
    dtype_ = kTypes[below(4)];
    leaf(random_shape());
    for (std::int64_t steps = 1 + below(8); steps > 0; --steps) take_step();
    finish();
  }

  std::string operations() const { return fmt::format("[{}]", fmt::join(operations_, ",")); }
  /// Leaves, their gradients and the results of all operations.
  void add_to(std::vector<NamedTensor>& file) const {
    for (std::size_t i = 0; i < pool_.size(); ++i) {
      const std::string number = fmt::format("{}.{}", name_, i);
      file.push_back({number, pool_[i].detach()});
      if (!pool_[i].grad().defined()) continue;
      file.push_back({number + ".grad", pool_[i].grad()});
    }
  }

 private:
  std::int64_t below(std::int64_t end) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(end));
  }
  std::int64_t random_size() { return below(20) == 0 ? 0 : 1 + below(below(4) == 0 ? 40 : 5); }
  Shape random_shape() {
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(1 + below(4)));
    for (std::int64_t& size : sizes) size = random_size();
    return {sizes.data(), sizes.data() + sizes.size()};
  }
  const Tensor& at(std::size_t i) const { return pool_[i]; }

  std::size_t record(const std::string& operation, const std::vector<std::size_t>& inputs, Tensor result,
                     const std::string& options = "") {
    operations_.push_back(fmt::format(R"({{"op":"{}","in":[{}],"out":{}{}}})", operation,
                                      fmt::join(inputs, ","), pool_.size(), options));
    pool_.push_back(std::move(result));
    return pool_.size() - 1;
  }
  /// Values that `dtype_` represents exactly, so that leaves have no rounding error.
  std::size_t leaf(const Shape& shape) {
    std::vector<double> values(static_cast<std::size_t>(shape.elements()));
    for (double& value : values) value = static_cast<double>(below(255) - 127) / 64;
    Tensor x = from_vector(values, shape);
    // Only f32 and f64 leaves keep gradients, so leaves of 16 bits are conversions of f32 ones.
    const bool is_narrow = size_of(dtype_) == 2;
    const std::size_t made =
        record("leaf", {}, to(x, is_narrow ? DType::f32 : dtype_).set_requires_grad(true));
    return is_narrow ? record("to", {made}, to(at(made), dtype_)) : made;
  }
  std::size_t any() {
    while (true) {
      const auto i = static_cast<std::size_t>(below(std::ssize(pool_)));
      if (at(i).dtype() == dtype_) return i;
    }
  }
  /// Another tensor of the same shape if there is one, else a new leaf or the tensor itself.
  std::size_t like(std::size_t i) {
    for (int attempt = 0; attempt < 4; ++attempt) {
      const std::size_t other = any();
      if (other != i && at(other).shape() == at(i).shape()) return other;
    }
    return below(2) == 0 ? i : leaf(at(i).shape());
  }
  /// Random sizes with the same number of elements.
  std::vector<std::int64_t> other_sizes(const Shape& shape) {
    std::vector<std::int64_t> sizes(shape.begin(), shape.end());
    if (shape.elements() == 0) return sizes;
    if (below(2) == 0) return {shape.elements()};
    const std::int64_t elements = shape.elements();
    std::int64_t first = 1;
    for (std::int64_t d = 1; d <= elements && d < 8; ++d)
      first = elements % d == 0 && below(2) == 0 ? d : first;
    return {first, -1};
  }

  void take_step() {
    const std::size_t x = any();
    const int dims = at(x).dims();
    const int dim = dims == 0 ? 0 : static_cast<int>(below(2 * dims)) - dims;
    const bool keep = below(2) == 0;
    const std::string dim_options = fmt::format(R"(,"dim":{},"keep":{})", dim, keep);
    switch (below(11)) {
      case 0: {
        const std::size_t y = like(x);
        record("add", {x, y}, add(at(x), at(y)));
        return;
      }
      case 1: {
        const std::size_t y = like(x);
        record("multiply", {x, y}, multiply(at(x), at(y)));
        return;
      }
      case 2: {
        const double alpha = static_cast<double>(below(64) - 32) / 16;
        record("scale", {x}, scale(at(x), alpha), fmt::format(R"(,"alpha":{})", alpha));
        return;
      }
      case 3: {  // of a leaf, since rounding may put other values on the other side of 0
        const std::size_t input = leaf(at(x).shape());
        record("relu", {input}, relu(at(input)));
        return;
      }
      case 4: {
        const std::vector<std::int64_t> sizes = other_sizes(at(x).shape());
        record("view", {x}, view(at(x), sizes), fmt::format(R"(,"sizes":[{}])", fmt::join(sizes, ",")));
        return;
      }
      case 5:
        if (dims > 0) record("sum", {x}, sum(at(x), dim, keep), dim_options);
        return;
      case 6:
        if (dims > 0 && at(x).size(dim) > 0) record("mean", {x}, mean(at(x), dim, keep), dim_options);
        return;
      case 7: {
        if (dims == 0) return;
        const std::size_t y = like(x), z = like(x);
        record("cat", {x, y, z}, cat({at(x), at(y), at(z)}, dim), dim_options);
        return;
      }
      case 8: {
        if (dims == 4) return;
        const std::size_t y = like(x);
        const int new_dim = static_cast<int>(below(2 * (dims + 1))) - dims - 1;
        record("stack", {x, y}, stack({at(x), at(y)}, new_dim), fmt::format(R"(,"dim":{})", new_dim));
        return;
      }
      case 9: {
        if (dims != 2) return;
        const bool first = below(2) == 0, second = below(2) == 0;
        const std::int64_t inner = at(x).size(first ? 0 : 1), columns = random_size();
        const std::size_t y = leaf(second ? Shape{columns, inner} : Shape{inner, columns});
        record("matmul", {x, y}, matmul(at(x), at(y), first, second),
               fmt::format(R"(,"transpose":[{},{}])", first, second));
        return;
      }
      default: {
        if (dims == 0) return;
        const std::int64_t outputs = 1 + below(9);
        std::vector<std::size_t> inputs = {x, leaf({outputs, at(x).size(-1)})};
        if (keep) inputs.push_back(leaf({outputs}));
        record("linear", inputs, linear(at(x), at(inputs[1]), keep ? at(inputs[2]) : Tensor()));
      }
    }
  }

  /// Records a loss of the last result, and runs backward.
  void finish() {
    const std::size_t x = at(pool_.size() - 1).dtype() == dtype_ ? pool_.size() - 1 : any();
    const std::int64_t choice = below(4);
    const Reduction reduction = below(2) == 0 ? Reduction::sum : Reduction::mean;
    const char* const name = reduction == Reduction::sum ? "sum" : "mean";
    const bool can_be_mean = at(x).elements() > 0;
    std::size_t loss;
    if (choice == 0 && can_be_mean) {
      const std::size_t target = leaf(at(x).shape());
      loss = record("mse_loss", {x, target}, mse_loss(at(x), at(target), reduction, 1.5),
                    fmt::format(R"(,"reduction":"{}","divisor":1.5)", name));
    } else if (choice == 1 && at(x).dims() == 2 && can_be_mean) {
      std::vector<std::int64_t> targets(static_cast<std::size_t>(at(x).size(0)));
      for (std::int64_t& target : targets) target = below(at(x).size(1));
      const double smoothing = static_cast<double>(below(3)) / 10;
      const Tensor indices = from_vector(targets, {at(x).size(0)});
      loss = record("cross_entropy", {x},
                    cross_entropy(at(x), indices,
                                  {.reduction = reduction, .label_smoothing = smoothing, .divisor = 1.5}),
                    fmt::format(R"(,"reduction":"{}","divisor":1.5,"smoothing":{},"targets":[{}])", name,
                                smoothing, fmt::join(targets, ",")));
    } else if (choice == 2 && can_be_mean) {
      loss = record("mean_all", {x}, mean(at(x)));
    } else {
      loss = record("sum_all", {x}, sum(at(x)));
    }
    at(loss).backward();
  }

  std::mt19937_64 random_;
  std::string name_;
  DType dtype_ = DType::f32;
  std::vector<Tensor> pool_;
  std::vector<std::string> operations_;
};

void write_cases(const std::string& file, std::int64_t cases, std::uint64_t seed) {
  std::vector<NamedTensor> tensors;
  std::vector<std::string> operations;
  for (std::int64_t i = 0; i < cases; ++i) {
    const RandomCase made(seed + static_cast<std::uint64_t>(i), fmt::format("{}", i));
    made.add_to(tensors);
    operations.push_back(made.operations());
  }
  save_safetensors(file, tensors, {{"cases", fmt::format("[{}]", fmt::join(operations, ","))}});
}

}  // namespace

int main(int argc, char** argv) try {
  const auto cases = argc == 4 ? ringtape::parse_int64(argv[2]) : std::nullopt;
  const auto seed = argc == 4 ? ringtape::parse_uint64(argv[3]) : std::nullopt;
  ringtape::check(cases && seed, "expected random_cases FILE.safetensors CASES SEED");
  write_cases(argv[1], *cases, *seed);
  return 0;
} catch (const ringtape::Error& error) {
  fmt::print(stderr, "error: {}\n", error.what());
  return 1;
}
