#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "kernels/arena.h"
#include "nn/module.h"

namespace ringtape {

/// One parameter's place in the arena.
struct ArenaEntry {
  std::string name;
  Tensor* tensor;       ///< the module's tensor; its elements lie in the arena
  std::int64_t offset;  ///< first element, a multiple of kTileAlignment
  std::int64_t elements;
};

/// All parameters of a model in one flat f32 buffer, and their gradients in another of the same layout, on
/// one device. What works on all parameters (an optimizer step, a norm, a checkpoint, an all-reduce) is then
/// one launch or one range, whatever the number of tensors.
///
/// Parameters with requires_grad lie first, in reverse order of registration, which is about the order in
/// which backward completes their gradients; each starts at a multiple of 256 bytes. Frozen parameters
/// follow; they have no gradient and no entry.
class ParameterArena {
 public:
  /// Moves the parameters of `model` to `device` and into the arena; the model computes with them there. With
  /// a `compute_dtype` of bf16 or f16 the arena also keeps a copy of all values in that dtype, which is what
  /// linear() multiplies inputs of that dtype with (mixed precision: Micikevicius et al., "Mixed precision
  /// training", 2018). The f32 values stay the parameters: optimizers change them and write the copy on the
  /// way, and files hold them.
  /// Throws Error for a parameter that is not f32, a model without any, and another compute_dtype.
  ParameterArena(Module& model, Device device, DType compute_dtype = DType::f32);
  ParameterArena(const ParameterArena&) = delete;
  ParameterArena& operator=(const ParameterArena&) = delete;

  Device device() const { return gradients_.device(); }
  const std::vector<ArenaEntry>& entries() const { return entries_; }
  /// Values and gradients of the parameters with requires_grad: f32 [size()]. The few elements between two
  /// parameters belong to none.
  const Tensor& values() const { return values_; }
  const Tensor& gradients() const { return gradients_; }
  std::int64_t size() const { return gradients_.elements(); }
  /// The dtype to give the model's inputs: f32, or that of the copy.
  DType compute_dtype() const { return low_precision_.defined() ? low_precision_.dtype() : DType::f32; }
  /// The copy of values() in compute_dtype(), in the same layout; undefined for f32.
  const Tensor& low_precision() const { return low_precision_; }
  /// Elements of all parameters, frozen ones too, without the padding.
  std::int64_t parameter_elements() const { return parameter_elements_; }

  /// Declares every gradient absent: the next backward writes where it would otherwise add, so that nothing
  /// has to be set to zero. Forgets a clip factor and a skip flag that were not used.
  void zero_grad();

  /// The tile table on the device, and its length.
  const Tile* tiles() const;
  std::int64_t tile_count() const { return tile_count_; }
  /// One flag for each entry on the device: 1 where a gradient has been written since zero_grad(). A
  /// parameter that was frozen after the arena was made counts as absent.
  const std::uint8_t* present();

  /// The clip factor on the device that the next optimizer step is to use, or null. clip_grad_norm() sets it.
  void set_clip_factor(const float* factor) { clip_factor_ = factor; }
  const float* clip_factor() const { return clip_factor_; }
  /// The flag on the device by which the next optimizer step is skipped where it is not 0, or null for none.
  void set_skip(const int* skip) { skip_ = skip; }
  const int* skip() const { return skip_; }
  /// Scratch of clip_grad_norm(): one GradientNorm on the device.
  const Tensor& norm_result() const { return norm_result_; }

  /// To be called by whatever has changed the values in place. Copies in compute_dtype() are then rounded
  /// anew at their next use.
  void bump_versions() const;
  /// The same for a change that has written the copies as well: an optimizer's step.
  void bump_versions_of_values_and_copies() const;

 private:
  void lay_out(const std::vector<NamedParameter>& parameters, Device device, DType compute_dtype);
  void make_tiles(Device device);

  std::vector<ArenaEntry> entries_;
  std::int64_t parameter_elements_ = 0;
  Tensor values_;
  Tensor gradients_;
  Tensor low_precision_;
  Tensor tiles_;
  std::int64_t tile_count_ = 0;
  std::vector<std::uint8_t> present_on_host_;
  Tensor present_;
  Tensor norm_result_;
  const float* clip_factor_ = nullptr;
  const int* skip_ = nullptr;
};

}  // namespace ringtape
