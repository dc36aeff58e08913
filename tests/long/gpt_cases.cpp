// Computes logits, loss and gradients of a model in a folder for given tokens, for
// tests/long/gpt_against_transformers.py.
//
//   gpt_cases FOLDER OUT [STEPS]
//
// FOLDER/tokens.safetensors has "x" and "y", i64 [B, T]. OUT gets "logits", "loss", a gradient for each
// tensor of the model's file by its name there, and "losses", those of STEPS steps of AdamW with clipping.
// FOLDER/again gets the model as save_gpt() writes it.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "io/safetensors.h"
#include "nn/arena.h"
#include "nn/hugging_face.h"
#include "optim/adam.h"
#include "optim/clip.h"
#include "optim/parameter_group.h"

namespace {

using namespace ringtape;

Tensor loss_of(GPT& model, const Tensor& x, const Tensor& y) {
  const Tensor logits = model(x);
  return cross_entropy(view(logits, {-1, logits.size(2)}), y.alias({y.elements()}));
}

void run(const std::filesystem::path& folder, const std::filesystem::path& out, int steps) {
  const SafetensorsFile tokens(folder / "tokens.safetensors");
  const Tensor x = tokens.load("x"), y = tokens.load("y");
  const std::shared_ptr<GPT> model = load_gpt(folder);
  save_gpt(*model, folder / "again");
  ParameterArena arena(*model, Device{});
  std::vector<NamedTensor> results;
  {
    const NoGrad no_grad;
    results.push_back({"logits", (*model)(x)});
  }
  const Tensor loss = loss_of(*model, x, y);
  loss.backward();
  results.push_back({"loss", loss.detach()});
  for (const NamedParameter& parameter : model->named_parameters()) {
    Tensor gradient = empty(parameter.tensor->shape());  // a copy: the steps below overwrite the arena's
    gradient.copy_from(parameter.tensor->grad());
    results.push_back({"gradient." + parameter.name, gradient});
  }
  AdamW optimizer(arena, {.learning_rate = 1e-3, .weight_decay = 0.1}, {no_decay_below_two_dimensions()});
  std::vector<float> losses;
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    const Tensor step_loss = loss_of(*model, x, y);
    step_loss.backward();
    clip_grad_norm(arena, 1);
    optimizer.step();
    losses.push_back(static_cast<float>(step_loss.item()));
  }
  if (steps > 0) results.push_back({"losses", from_vector(losses, {steps})});
  save_safetensors(out, results);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: gpt_cases FOLDER OUT [STEPS]\n");
    return 2;
  }
  try {
    run(argv[1], argv[2], argc > 3 ? std::atoi(argv[3]) : 0);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
  return 0;
}
