#include "nn/model_file.h"

#include "nn/arena.h"
#include "nn/layers.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tensors.h"

namespace ringtape::test {
namespace {

using Values = std::vector<double>;

std::vector<Values> values_of(Module& model) {
  std::vector<Values> values;
  for (const NamedParameter& parameter : model.named_parameters())
    values.push_back(parameter.tensor->to_doubles());
  return values;
}

TEST_CASE("a model loaded by load_model has the parameters that save_model wrote", "[model_file]") {
  const TemporaryFolder folder;
  const auto file = folder / "model.safetensors";
  manual_seed(1);
  const auto model = make_mlp({3, 4, 2});
  model->parameter("0.bias").set_requires_grad(false);  // frozen ones are saved too
  save_model(*model, file);
  const SafetensorsFile saved(file);
  CHECK(saved.metadata() == SafetensorsMetadata{{"format", "pt"}});
  CHECK(saved.entries().size() == 4);
  CHECK(saved.load("2.weight").shape() == Shape{2, 4});

  manual_seed(2);
  const auto plain = make_mlp({3, 4, 2}), in_arena = make_mlp({3, 4, 2});
  load_model(*plain, file);
  CHECK(values_of(*plain) == values_of(*model));
  const ParameterArena arena(*in_arena, Device{}, DType::bf16);
  load_model(*in_arena, file);
  CHECK(values_of(*in_arena) == values_of(*model));
  // The arena's copy follows.
  const Tensor x = tensor_of({1, -2, 3}, {1, 3});
  const ParameterArena of_plain(*plain, Device{}, DType::bf16);
  CHECK((*in_arena)(to(x, DType::bf16)).to_doubles() == (*plain)(to(x, DType::bf16)).to_doubles());
}

TEST_CASE("load_model refuses another model's file and changes nothing", "[model_file]") {
  const TemporaryFolder folder;
  const auto file = folder / "model.safetensors";
  save_model(*make_mlp({3, 4, 2}), file);
  for (const std::vector<std::int64_t>& sizes : {std::vector<std::int64_t>{3, 5, 2}, {3, 4}, {3, 4, 4, 2}}) {
    const auto other = make_mlp(sizes);
    const std::vector<Values> before = values_of(*other);
    CHECK(error_of([&] { load_model(*other, file); }).find(file.string()) != std::string::npos);
    CHECK(values_of(*other) == before);
  }
  CHECK(error_of([&] {
          load_model(*make_mlp({3, 4, 2}), folder / "none");
        }).find("cannot open") != std::string::npos);
  CHECK(error_of([&] {
          save_model(*make_mlp({1, 1}), folder.path());
        }).find("is not a regular file") != std::string::npos);
}

}  // namespace
}  // namespace ringtape::test
