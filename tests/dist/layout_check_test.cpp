// Operations that mix up what is replicated, divided or a part of a sum, and replicas that differ.
#include "dist/layout_check.h"

#include "autograd/recompute.h"
#include "dist/data_parallel.h"
#include "dist/self_communicator.h"
#include "dist/sequence_parallel_ops.h"
#include "dist/tensor_parallel.h"
#include "dist/tensor_parallel_ops.h"
#include "dist/verify_replicas.h"
#include "nn/gpt.h"
#include "nn/parameter_shard.h"
#include "tests/dist/ranks.h"
#include "tests/dist/trainer.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"

namespace ringtape::test {
namespace {

/// A parameter [4, 4], divided along `dim` if that is not negative; ranks need not really have parts for
/// this.
Tensor parameter(int dim) {
  Tensor tensor = leaf(random_doubles(16, 1), {4, 4});
  if (dim >= 0) {
    tensor.autograd->shard = std::make_shared<const ParameterShard>(
        ParameterShard{.dim = dim, .blocks = {8}, .rank = 0, .ranks = 2});
  }
  return tensor;
}

/// The layouts of results, and the error of a forward.
struct Observed {
  TapeScope scope;
  LayoutCheck check;
  TapeObserverScope observed{&check};
};
std::string error_in(const std::function<void()>& forward) {
  Observed observed;
  return error_of(forward);
}

const Layout kReplicated{}, kPartial{Layout::Kind::partial, 0};

}  // namespace

TEST_CASE("layouts: the layout of a result follows from those of the operands", "[dist][tensor][layout]") {
  const auto comm = std::make_shared<SelfCommunicator>(Device{});
  Observed observed;
  const LayoutCheck& check = observed.check;
  const Tensor x = leaf(random_doubles(8, 2), {2, 4}), bias = leaf({1, 2, 3, 4}, {4});
  const Tensor same = scale(x, 1);
  CHECK(check.of(same) == kReplicated);
  CHECK(check.of(linear(same, parameter(-1), bias)) == kReplicated);
  const Tensor divided = linear(tensor_of(random_doubles(8, 2), {2, 4}), parameter(0));
  CHECK(check.of(divided) == Layout{Layout::Kind::shard, 1});
  CHECK(check.of(gelu(divided)) == Layout{Layout::Kind::shard, 1});
  CHECK(check.of(relu(divided)) == Layout{Layout::Kind::shard, 1});
  CHECK(check.of(linear_relu(tensor_of(random_doubles(8, 2), {2, 4}), parameter(0))) ==
        Layout{Layout::Kind::shard, 1});
  CHECK(check.of(linear_relu(same, parameter(-1), bias)) == kReplicated);
  CHECK(check.of(cat({same, same})) == kReplicated);
  CHECK(check.of(view(divided, {1, 2, 4})) == Layout{Layout::Kind::shard, 2});
  const Tensor part = linear(divided, parameter(1));
  CHECK(check.of(part) == kPartial);
  CHECK(check.of(reduce_from_region(part, bias, comm)) == kReplicated);
  CHECK(check.of(embedding(from_vector(std::vector<std::int64_t>{1, 2}, {2}), parameter(0))) == kPartial);
}

TEST_CASE("layouts: an operation that mixes them up is named", "[dist][tensor][layout]") {
  const auto x = [] { return leaf(random_doubles(8, 2), {2, 4}); };
  const auto input = [] { return tensor_of(random_doubles(8, 2), {2, 4}); };
  const auto partial = [=] { return linear(linear(input(), parameter(0)), parameter(1)); };
  CHECK(error_in([=] { linear(x(), parameter(0)); }) ==
        "layouts: linear of operands that are replicated, shard(0): expected an input that has entered the "
        "divided layers (copy_to_region, all_gather_tokens)");
  CHECK(error_in([=] { linear(input(), parameter(1)); }) ==
        "layouts: linear of operands that are replicated, shard(1): expected an input divided as the weight");
  CHECK(error_in([=] { relu(partial()); }) ==
        "layouts: relu of operands that are partial: expected a complete sum");
  CHECK(error_in([=] { add(partial(), x()); }) ==
        "layouts: add of operands that are partial, replicated: expected one layout");
  CHECK(error_in([=] {
          layer_norm(linear(input(), parameter(0)), leaf({1, 1, 1, 1}, {4}));
        }) == "layouts: layer_norm of operands that are shard(1), replicated: expected whole rows");
  CHECK(error_in([=] { dropout(linear(input(), parameter(0)), 0.5); }) ==
        "layouts: dropout of operands that are shard(1): expected what is equal on all ranks");
  CHECK(error_in([=] { view(linear(input(), parameter(0)), {8}); }) ==
        "layouts: view of operands that are shard(1): expected the divided dimension to stay the last");
  CHECK(error_in([=] {
          linear(linear(input(), parameter(0)), parameter(1), leaf({1, 2, 3, 4}, {4}));
        }) ==
        "layouts: linear of operands that are shard(1), shard(1), replicated: expected no bias, which every "
        "rank "
        "would add");
  CHECK(error_in([=] { linear_relu(linear(input(), parameter(0)), parameter(1)); }) ==
        "layouts: linear_relu of operands that are shard(1), shard(1): expected a complete sum");
  CHECK(error_in([=] { linear_relu(parameter(0), parameter(0)); }) ==
        "layouts: linear_relu of operands that are shard(0), shard(0): expected an input that has entered "
        "the divided layers (copy_to_region, all_gather_tokens)");
  CHECK(error_in([=] {
          cat({parameter(0), parameter(0)});
        }) == "layouts: cat of operands that are shard(0), shard(0): expected what is equal on all ranks");
  CHECK(error_in([=] {
          embedding(from_vector(std::vector<std::int64_t>{1, 2}, {2}), parameter(1));
        }) == "layouts: embedding of operands that are shard(1): expected what is equal on all ranks");
  CHECK(error_in([=] {
          Tensor y = x();
          Tape::current().record("square", {y}, y, {}, [](BackwardContext&) {});
        }) ==
        "layouts: square has no rule, expected an operation of autograd/ops.h or of dist/ with one in "
        "dist/layout_check.cpp");
  const auto alone = std::make_shared<SelfCommunicator>(Device{});
  CHECK(error_in([=] { reduce_from_region(x(), {}, alone); }) ==
        "layouts: reduce_from_region of operands that are replicated: expected a sum over the ranks");
  const Tensor targets = from_vector(std::vector<std::int64_t>{1, 2}, {2});
  CHECK(error_in([=] { cross_entropy(linear(input(), parameter(0)), targets); }) ==
        "layouts: cross_entropy of operands that are shard(1): expected what is equal on all ranks");
}

TEST_CASE("layouts: a recomputed segment's operations are checked, and its result has its layout",
          "[dist][tensor][layout]") {
  const auto input = [] { return tensor_of(random_doubles(8, 2), {2, 4}); };
  {
    Observed observed;
    const LayoutCheck& check = observed.check;
    const Tensor divided = linear(input(), parameter(0)), second = parameter(1);
    const auto product = [&](const Tensor& x) { return linear(x, second); };
    // The operation recorded last is not the one whose result the segment returns.
    const auto two = [&](const Tensor& x) {
      const Tensor y = gelu(x);
      product(y);
      return y;
    };
    CHECK(check.of(recompute(two, divided)) == Layout{Layout::Kind::shard, 1});
    CHECK(check.of(recompute([](const Tensor& x) { return x; }, divided)) == Layout{Layout::Kind::shard, 1});
    const Tensor part = recompute([&](const Tensor& x) { return recompute(product, gelu(x)); }, divided);
    CHECK(check.of(part) == kPartial);
    const auto alone = std::make_shared<SelfCommunicator>(Device{});
    CHECK_NOTHROW(sum(reduce_from_region(part, {}, alone)).backward());
  }
  const std::string expected = "layouts: relu of operands that are partial: expected a complete sum";
  const auto product = [](const Tensor& x) { return linear(x, parameter(1)); };
  CHECK(error_in([=] {
          recompute([=](const Tensor& x) { return relu(product(x)); }, linear(input(), parameter(0)));
        }) == expected);
  CHECK(error_in([=] { relu(recompute(product, linear(input(), parameter(0)))); }) == expected);
}

TEST_CASE("layouts: a replicated weight in the divided layers, whose gradient no sum completes, is an error",
          "[dist][tensor][layout]") {
  const auto error_with = [](const std::function<void(const Tensor&)>& use) {
    return error_in([&] {
      const auto alone = std::make_shared<SelfCommunicator>(Device{});
      const Tensor x = tensor_of(random_doubles(8, 2), {1, 2, 4});
      const Tensor part = linear(linear(x, parameter(0)), parameter(1));
      use(all_gather_tokens(reduce_scatter_tokens(part, {}, alone), alone));
    });
  };
  const std::string expected =
      "expected no replicated operand with a gradient beside one that has entered the divided layers";
  CHECK_THAT(error_with([](const Tensor& entered) { linear(entered, parameter(-1)); }),
             ContainsSubstring(expected));
  CHECK_THAT(error_with([](const Tensor& entered) {
               layer_norm(entered, leaf({1, 1, 1, 1}, {4}));
             }),
             ContainsSubstring(expected));
  CHECK_THAT(error_with([](const Tensor& entered) {
               add(leaf(random_doubles(8, 3), {1, 2, 4}), entered);
             }),
             ContainsSubstring(expected));
  CHECK_THAT(error_with([](const Tensor& entered) { linear(dropout(entered, 0.5), parameter(-1)); }),
             ContainsSubstring(expected));
  // Each rank would have the whole gradient, of which all_gather_tokens takes the sum.
  CHECK_THAT(error_with([](const Tensor& entered) {
               mse_loss(entered, tensor_of(random_doubles(8, 3), {1, 2, 4}));
             }),
             ContainsSubstring("expected an operand whose gradient is not summed over the ranks"));
  CHECK(error_with([](const Tensor& entered) {
          const Tensor other = tensor_of(random_doubles(8, 3), {1, 2, 4});
          linear(dropout(add(entered, other), 0.5), parameter(0));
        }).empty());
}

TEST_CASE("layouts: replicas that differ in a bit are found on every rank", "[dist][tensor][layout]") {
  const auto comm = this_run();
  if (comm->size() == 1) return;
  TransformerOptions options;
  options.vocabulary = 12;
  options.context = 4;
  options.layers = 1;
  options.heads = 12;
  options.width = 24;
  for (const bool divides : {false, true}) {
    const Mesh mesh(comm, divides ? MeshSizes{.tensor = comm->size()} : MeshSizes{.data = comm->size()});
    manual_seed(1);
    GPT model(options,
              divides ? std::make_shared<TensorParallelFactory>(comm) : std::make_shared<LayerFactory>());
    CHECK_NOTHROW(verify_replicas(model, mesh, "after step 3"));
    if (comm->rank() == 1) {
      std::vector<double> bias(24);
      bias[5] = 1e-30;
      model.parameter("ln_f.bias").copy_from(tensor_of(bias, {24}));
    }
    const std::string error = error_of([&] { verify_replicas(model, mesh, "after step 3"); });
    CHECK(error.find("--check-replicas: after step 3 the ranks' parameters differ") == 0);
    CHECK(error.find("is ln_f.bias with the CRC-32 ") != std::string::npos);
    CHECK(error.find("on rank 1") != std::string::npos);
  }
}

TEST_CASE("layouts: under ZeRO 3 the slices of undivided parameters are compared over the tensor ranks",
          "[dist][tensor][zero][layout]") {
  const auto comm = this_run();
  if (comm->size() != 4) return;
  TransformerOptions options;
  options.vocabulary = 12;
  options.context = 9;
  options.layers = 1;
  options.heads = 2;
  options.width = 24;
  const Mesh mesh(comm, {.tensor = 2, .data = 2});
  const Communicator& tensor = *mesh.along(MeshDimension::tensor);
  Communicator& data = *mesh.along(MeshDimension::data);
  manual_seed(1);
  GPT model(options, std::make_shared<TensorParallelFactory>(mesh.along(MeshDimension::tensor)));
  std::vector<std::vector<double>> values;
  for (const auto& [name, parameter] : model.named_parameters()) values.push_back(parameter->to_doubles());
  ParameterArena arena(model, comm->device(), DType::f32,
                       {.zero_stage = 3, .rank = data.rank(), .world_size = data.size(), .bucket_sizes = {}});
  const DataParallel parallel(model, arena, mesh.along(MeshDimension::data));
  const auto error = [&] {
    return error_of([&] { verify_replicas(model, mesh, "after step 3", nullptr, &arena); });
  };
  CHECK(error() == "");
  std::size_t number = 0;
  int on_both = 0;
  for (const auto& [name, parameter] : model.named_parameters()) {
    INFO(name);
    Tensor own = own_values(*parameter, &arena);
    const std::vector<double> before = own.defined() ? own.to_doubles() : std::vector<double>();
    // The slices of the data ranks, one after the other, are the parameter.
    const std::int64_t count = std::ssize(before);
    const Tensor counts = empty({data.size()}, DType::i64, comm->device());
    data.all_gather(copy_to(from_vector(std::vector<std::int64_t>{count}, {1}), comm->device()), counts)
        .wait();
    const std::vector<std::int64_t> of_ranks = counts.to_vector<std::int64_t>();
    const std::vector<double>& all = values[number++];
    REQUIRE(of_ranks[0] + of_ranks[1] == std::ssize(all));
    const auto begin = all.begin() + (data.rank() == 0 ? 0 : of_ranks[0]);
    CHECK(before == std::vector<double>(begin, begin + count));
    if (of_ranks[0] > 0 && of_ranks[1] > 0) ++on_both;

    std::vector<double> changed = before;
    if (!changed.empty() && tensor.rank() == 1) changed.back() += 1;
    if (own.defined()) own.copy_from(tensor_of(changed, own.shape(), DType::f32, comm->device()));
    const std::string found = error();
    if (shard_of(*parameter) == nullptr && own.defined()) {
      CHECK(found.starts_with("--check-replicas: after step 3 the ranks' parameters differ: undivided"));
      CHECK_THAT(found, ContainsSubstring(" is " + name + " with the CRC-32 "));
    } else {
      CHECK(found == "");
    }
    if (own.defined()) own.copy_from(tensor_of(before, own.shape(), DType::f32, comm->device()));
  }
  CHECK(on_both > 0);
}

}  // namespace ringtape::test
