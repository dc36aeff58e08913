// Whole models compared with transformers: tests/golden/make_gpt.py.
#include <filesystem>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "io/safetensors.h"
#include "nn/hugging_face.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tensors.h"

namespace ringtape::test {
namespace {

std::filesystem::path golden_model(const char* name) {
  return std::filesystem::path(RINGTAPE_TEST_DATA) / name;
}

}  // namespace

TEST_CASE("a GPT-2 and a Llama have transformers' logits, loss and gradients", "[golden]") {
  for (const char* name : {"gpt2", "llama"}) {
    for (const GemmBackend backend : {GemmBackend::own, gemm_backend()}) {
      INFO(name);
      const GemmScope scope(backend);
      const std::shared_ptr<GPT> model = load_gpt(golden_model(name));
      const SafetensorsFile expected(golden_model(name) / "expected.safetensors");
      // About 20 operations follow each other, forward and backward, with sums of up to 32 terms: 64
      // roundings of the largest values.
      const auto check_result = [&](const Tensor& found, const std::string& key) {
        INFO(key);
        const std::vector<double> exact = expected.load(key).to_doubles();
        check_close(found.to_doubles(), exact, 0, 64 * rounding_of(DType::f32) * largest_of(exact));
      };
      const Tensor logits = (*model)(expected.load("x"));
      check_result(logits, "logits");
      const Tensor loss = cross_entropy(view(logits, {-1, logits.size(2)}), view(expected.load("y"), {-1}));
      check_result(loss, "loss");
      loss.backward();
      const std::string prefix = "gradient.";
      for (const auto& entry : expected.entries()) {
        if (entry.name.starts_with(prefix)) {
          check_result(model->parameter(entry.name.substr(prefix.size())).grad(), entry.name);
        }
      }
    }
  }
}

TEST_CASE("a model from transformers is written with the same tensors under the same names", "[golden]") {
  for (const char* name : {"gpt2", "llama"}) {
    const TemporaryFolder folder;
    save_gpt(*load_gpt(golden_model(name)), folder.path());
    const SafetensorsFile written(folder.path() / "model.safetensors");
    const SafetensorsFile read(golden_model(name) / "model.safetensors");
    CHECK(written.entries().size() == read.entries().size());
    for (const auto& entry : read.entries()) {
      INFO(entry.name);
      CHECK(written.load(entry.name).to_doubles() == read.load(entry.name).to_doubles());
    }
  }
}

}  // namespace ringtape::test
