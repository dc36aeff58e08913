#pragma once

#include <memory>
#include <vector>

#include "nn/context_part.h"
#include "nn/module.h"

namespace ringtape {

class Lora;

/// y = x weight^T + bias for x [.., in]: [.., out]. Parameters: weight [out, in] and, unless switched off,
/// bias [out], both initialised uniformly in +-1 / sqrt(in), as in PyTorch. Throws Error for sizes below 1.
class Linear : public Module {
 public:
  Linear(std::int64_t in, std::int64_t out, bool with_bias = true);
  Tensor forward(const Tensor& x) override;
  /// relu() of the layer's result; one operation unless the layer has a Lora.
  Tensor forward_relu(const Tensor& x);

  /// Registers `lora` as submodule "lora", whose result is added to the layer's. Throws Error if there is
  /// one.
  void set_lora(std::shared_ptr<Lora> lora);
  /// Null if the layer has none.
  Lora* lora() const { return lora_.get(); }

 private:
  Tensor* weight_;
  Tensor* bias_ = nullptr;
  std::shared_ptr<Lora> lora_;
};

/// The row of weight [count, width] for each token of [.., T]: [.., T, width]. weight is initialised from a
/// normal distribution of standard deviation 1, as in PyTorch. Throws Error for sizes below 1.
class Embedding : public Module {
 public:
  Embedding(std::int64_t count, std::int64_t width);
  Tensor forward(const Tensor& tokens) override;

 private:
  Tensor* weight_;
};

/// dropout() in training mode; x itself in evaluation mode. Throws Error for p outside [0, 1).
class Dropout : public Module {
 public:
  explicit Dropout(double p);
  Tensor forward(const Tensor& x) override;

 private:
  double p_;
};

/// Dropout of [B, T, C] where ranks divide the tokens, with the mask that a single rank would draw. This
/// rank's T tokens are part `part` of `parts` equal parts of the tokens of `context` (context parallelism),
/// or of the whole sequence where `context` is null.
class TokenDropout : public Module {
 public:
  TokenDropout(double p, std::shared_ptr<const ContextPart> context, int part = 0, int parts = 1);
  Tensor forward(const Tensor& x) override;

 private:
  double p_;
  std::shared_ptr<const ContextPart> context_;
  int part_, parts_;
};

/// max(x, 0), pointwise.
class ReLU : public Module {
 public:
  Tensor forward(const Tensor& x) override;
};

/// gelu(), or gelu_tanh(), pointwise.
class GELU : public Module {
 public:
  enum class Form { exact, tanh };
  explicit GELU(Form form = Form::exact) : form_(form) {}
  Tensor forward(const Tensor& x) override;

 private:
  Form form_;
};

/// Modules one after the other, named "0", "1", ... A Linear directly followed by a ReLU runs as one
/// operation, linear_relu(), in the Linear's layer.
class Sequential : public Module {
 public:
  explicit Sequential(std::vector<std::shared_ptr<Module>> modules = {});
  void push_back(std::shared_ptr<Module> module);
  /// Skips a module that another pipeline stage has; the modules after it keep their names.
  void push_back_of_other_stage() { order_.push_back(nullptr); }
  Tensor forward(const Tensor& x) override;
  /// A pipeline unit is one module, or the number of modules given to set_pipeline_unit().
  Tensor forward_units(const Tensor& x, std::size_t first, std::size_t end) override;
  void set_pipeline_unit(std::size_t modules) { pipeline_unit_ = modules; }
  /// The FSDP units of each module, or the module itself if it has none.
  std::vector<Module*> fsdp_units() override;

  /// Trades time for memory: divides the modules into segments of `modules` each and keeps only the input of
  /// each segment; backward computes the other activations again (autograd/recompute.h). The activations of
  /// the last segment are kept, since backward usually reads them at once. 0, the default, keeps everything.
  /// For the hidden layers of an MLP, segments save memory from two layers (4 modules) on: the backward of a
  /// single layer reads only its result anyway. Throws Error for a negative number.
  void set_recompute(std::int64_t modules);

 private:
  Tensor run(Tensor x, std::size_t first, std::size_t end);

  std::vector<std::shared_ptr<Module>> order_;
  std::size_t recompute_ = 0;
  std::size_t pipeline_unit_ = 1;
};

class LayerFactory;

/// A multilayer perceptron: Linear layers of these sizes with a ReLU between consecutive layers, as a
/// Sequential. Throws Error for fewer than two sizes. If ranks divide the layers (tensor parallelism), they
/// divide the first layer of each pair by outputs and the second by inputs; of an odd number of layers every
/// rank has the last as a whole. A unit of a pipeline stage is a layer with its ReLU, or such a pair where
/// ranks divide the layers.
std::shared_ptr<Sequential> make_mlp(const std::vector<std::int64_t>& sizes);
std::shared_ptr<Sequential> make_mlp(const std::vector<std::int64_t>& sizes, const LayerFactory& layers);

}  // namespace ringtape
