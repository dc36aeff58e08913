#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "autograd/tape.h"
#include "core/tensor.h"
#include "kernels/arena.h"
#include "nn/module.h"
#include "nn/shard_layout.h"
#include "nn/stages.h"

namespace ringtape {

/// One parameter's place in the arena.
struct ArenaEntry {
  std::string name;
  Tensor* tensor;                      ///< the module's tensor; its elements lie in the arena
  std::shared_ptr<AutogradMeta> meta;  ///< the tensor's, as long as no other tensor is assigned to it
  std::int64_t offset;                 ///< first element, a multiple of kTileAlignment
  std::int64_t elements;
  int chunk;  ///< of the pipeline stage: its backward computes the gradient; else 0
  /// Its place in reverse order of registration: the order of step counts in files. The entries have this
  /// order too, except in ZeRO stage 3.
  std::size_t number = 0;
};

/// How an arena is sharded over ranks (ZeRO: Rajbhandari et al., "ZeRO: Memory optimizations toward
/// training trillion parameter models", 2020). See docs/distributed.md.
struct ArenaSharding {
  /// 0: nothing is sharded; 1: optimizer state; 2: the gradients too; 3: the values too.
  int zero_stage = 0;
  int rank = 0;
  int world_size = 1;
  BucketSizes bucket_sizes = {};
  /// In ZeRO stage 3: units are freed after their forward and gathered again for backward. False: they are
  /// kept until backward, which halves the gathers but takes memory for all values. (PyTorch's name.)
  bool reshard_after_forward = true;
  /// The pipeline stages of the model (nn/stages.h); null without a pipeline. No bucket has parameters of two
  /// chunks, and tied weights have buckets of their own, so that both stages that have them shard them alike.
  const Stages* stages = nullptr;
};

/// The collectives of a sharded arena, which DataParallel sets. All ranks must call them.
struct ShardExchange {
  std::function<void(const Tensor& x)> sum;  ///< x = the sum over the ranks
  std::function<void(const Tensor& x)> max;
  /// Fills a tensor of the arena's length with the slices of all ranks.
  std::function<void(const Tensor& flat)> all_gather;
  /// The same for values() or low_precision(), in the background: the first read of them or of a parameter
  /// waits for it.
  std::function<void(const Tensor& flat)> start_all_gather;
};

/// In ZeRO stage 3: parameters that are gathered, used and freed together (nn/parameter_units.h).
struct ParameterUnit {
  Module* module;        ///< whose forward needs them
  bool is_of_all;        ///< they are needed throughout the forward of the model, or of a stage's chunk
  int chunk;             ///< of the pipeline stage; else 0
  Tensor values;         ///< of its bucket; undefined while they are not in memory
  Tensor low_precision;  ///< their 16-bit copy, in the compute dtype; undefined for f32
};

/// The tensor-parallel ranks, which have parts of the same parameters (nn/parameter_shard.h).
struct ModelDivision {
  int rank = 0;                              ///< this rank's number among them
  std::function<void(const Tensor& x)> sum;  ///< x = the sum over these ranks
  std::function<void(const Tensor& x)> max;
  /// A rank's gradient of a parameter that all ranks have covers only the rank's tokens: the ranks' gradients
  /// have to be summed (sequence parallelism).
  bool gradients_are_parts = false;
};

/// The other pipeline stages, which have the model's other parameters (nn/stages.h).
struct ModelStages {
  std::function<void(const Tensor& x)> sum;  ///< x = the sum over the stages
  std::function<void(const Tensor& x)> max;
  /// A parameter that another stage has too: tied weights.
  struct TiedParameter {
    std::string name;
    bool is_counted;                           ///< in sums over parameters: true on one of the two stages
    std::function<void(const Tensor& x)> sum;  ///< x = the sum over these two stages
  };
  std::vector<TiedParameter> copies;
};

/// All parameters of a model in one flat f32 buffer, and their gradients in another of the same layout, on
/// one device. An operation on all parameters (an optimizer step, the gradient norm, a checkpoint, an
/// all-reduce) is then one launch or one range, for any number of tensors.
///
/// Parameters with requires_grad come first, in reverse order of registration (in ZeRO stage 3 by units),
/// which is roughly the order in which backward completes their gradients; each starts at a multiple of 256
/// bytes. Frozen parameters follow; they have no gradient and no entry. Tensor-parallel ranks, which have
/// parts of a parameter (nn/parameter_shard.h), all have the layout of the largest part.
///
/// A sharded arena is divided into buckets, each padded to a multiple of world_size times 256 bytes. Each
/// rank owns a slice of every bucket (nn/shard_layout.h); its slices together are its shard. Every rank has
/// all values, except in stage 3: there a bucket is a unit, values() holds only the shard, and a unit's
/// values are in their own buffer, which DataParallel frees when no forward or backward needs it.
///
/// The model must outlive the arena. Its parameters and modules are fixed while the arena exists: a module
/// refuses new ones to train, and zero_grad() and steps throw Error if another tensor has been assigned to a
/// parameter (Tensor::copy_from() changes its values). A copy of a parameter's handle that was made before
/// the arena refers to the elements from before, which no step changes.
class ParameterArena {
 public:
  /// Moves the parameters of `model` to `device` and into the arena; the model computes with them there. With
  /// a `compute_dtype` of bf16 or f16 the arena also keeps a copy of all values in that dtype, with which
  /// operations on inputs of that dtype compute (autograd/low_precision.h; mixed precision: Micikevicius et
  /// al., "Mixed precision training", 2018). The f32 values are the master weights: optimizers change them
  /// and write the copy in the same launch, and files hold them. Throws Error for a parameter that is not f32
  /// or that another arena holds, a model without parameters, a compute_dtype other than f32, bf16 and f16, a
  /// stage other than 0 to 3, a rank outside 0 to world_size - 1, and in stages 1 and 2 for bucket sizes
  /// below 1.
  ParameterArena(Module& model, Device device, DType compute_dtype = DType::f32,
                 const ArenaSharding& sharding = {});
  ParameterArena(const ParameterArena&) = delete;
  ParameterArena& operator=(const ParameterArena&) = delete;

  Device device() const { return values_.device(); }
  const std::vector<ArenaEntry>& entries() const { return entries_; }
  /// Values and gradients of the parameters with requires_grad: f32 [size()]. The few elements between two
  /// parameters belong to none. From stage 2 on gradients() holds only the shard, [shard_size()]; in stage 3
  /// so does values().
  const Tensor& values() const { return values_; }
  const Tensor& gradients() const { return gradients_; }
  std::int64_t size() const { return size_; }

  const ArenaSharding& sharding() const { return sharding_; }
  bool is_sharded() const { return sharding_.zero_stage > 0; }
  /// The lengths of the runs of neighbouring entries that may share a bucket: without stages one run of all
  /// entries, in ZeRO stage 3 a run for each unit.
  const std::vector<std::size_t>& runs() const { return runs_; }
  /// The buckets of a sharded arena, and this rank's slice of each bucket.
  const std::vector<GradientBucket>& buckets() const { return buckets_; }
  const std::vector<ShardSlice>& slices() const { return slices_; }
  /// Elements for which this rank has optimizer state: those of its slices, or without sharding all.
  std::int64_t shard_size() const { return is_sharded() ? size() / sharding_.world_size : size(); }
  /// False in stage 3.
  bool has_all_values() const { return sharding_.zero_stage < 3; }
  /// In stage 3: the unit of each bucket. Until a DataParallel shards them, all their values are in host
  /// memory.
  const std::vector<ParameterUnit>& units() const { return units_; }
  /// Makes these elements, in the layout of the unit's bucket, the values and 16-bit copies of its
  /// parameters; undefined: the parameters have none.
  void set_unit(std::size_t unit, const Tensor& values, const Tensor& low_precision);
  /// The elements of a parameter's gradient that this rank has after averaging: all, or those in its slice of
  /// the bucket. Undefined if the gradient was not written. Throws Error if other parameters are in the
  /// bucket.
  Tensor gradient_of_single(const Tensor& parameter) const;
  /// In stage 3, after writing all of values() and low_precision(): marks the 16-bit copies as current.
  void mark_low_precision_current() const;
  /// In stage 3, if units are freed after use: the largest number of elements of units in memory at a time,
  /// which are the model's own unit, the unit that is computed and its neighbour.
  std::int64_t max_unit_elements() const;
  /// Keeps the object that gathers the units alive as long as the arena.
  void keep_gathering(std::shared_ptr<void> gathering) { gathering_ = std::move(gathering); }
  bool is_gathering() const { return gathering_ != nullptr; }
  void set_shard_exchange(ShardExchange exchange) { exchange_ = std::move(exchange); }
  /// Throws Error if set_shard_exchange() has not been called.
  const ShardExchange& shard_exchange() const;
  /// For a model of which this rank has a part (tensor parallelism).
  void set_division(ModelDivision division) { division_ = std::move(division); }
  const std::optional<ModelDivision>& division() const { return division_; }
  /// For a model of which this rank has a pipeline stage.
  void set_stages(ModelStages stages) { stages_ = std::move(stages); }
  const std::optional<ModelStages>& stages() const { return stages_; }
  /// Whether sums over the parameters of all ranks include this rank's entry: they include the part of a
  /// parameter on every rank, and a parameter that all ranks have on rank 0 of the division.
  bool counts(std::size_t entry) const;

  /// Makes values() current on all ranks; all ranks must call it. They are out of date only in a sharded
  /// arena of stage 1 or 2 with a 16-bit copy, where a step gathers only the copies.
  void gather_values() const;
  /// The dtype for the model's inputs: f32, or the dtype of the copy.
  DType compute_dtype() const { return low_precision_.defined() ? low_precision_.dtype() : DType::f32; }
  /// The 16-bit copy of values(), in compute_dtype() and the same layout; undefined for f32.
  const Tensor& low_precision() const { return low_precision_; }
  /// Elements of all parameters, including frozen ones, without padding.
  std::int64_t parameter_elements() const { return parameter_elements_; }
  /// Elements of the parameters that are not frozen.
  std::int64_t trained_elements() const { return trained_elements_; }

  /// Sums the gradients of a division whose `gradients_are_parts`; otherwise does nothing. Call it after
  /// averaging over other ranks, and before norms and the step.
  void sum_parts_of_gradients() const;

  /// Marks all gradients as absent: the next backward overwrites them instead of adding, so no memory is set
  /// to zero. Drops an unused clip factor and skip flag.
  void zero_grad();
  /// The number of calls of zero_grad(), plus 1. Gradients written at another count are stale.
  std::uint64_t zero_grad_count() const { return zero_grads_; }

  /// The tile table on the device, and its length. In a sharded arena: the tiles of this rank's slices.
  const Tile* tiles() const;
  std::int64_t tile_count() const { return tile_count_; }
  /// One flag for each entry, on the device: 1 if a gradient has been written since zero_grad(). 0 for a
  /// parameter that was frozen after the arena was made.
  const std::uint8_t* has_grad();
  /// The same, but 0 for entries that do not count(), and for tied weights that the other stage counts.
  const std::uint8_t* has_counted_grad();

  /// On the device, or null: the factor by which backward() multiplies the gradients, and by which the
  /// optimizer's step divides them. A LossScaler sets it during its lifetime.
  void set_loss_scale(const float* scale) { written_->loss_scale = scale; }
  const float* loss_scale() const { return written_->loss_scale; }
  /// On the device, or null: the clip factor of the next optimizer step. clip_grad_norm() sets it. With
  /// `is_final` the gradients must not change before the step.
  void set_clip_factor(const float* factor, bool is_final = false) {
    clip_factor_ = factor;
    final_contributions_ = is_final ? std::optional(written_->contributions) : std::nullopt;
  }
  const float* clip_factor() const { return clip_factor_; }
  bool gradients_are_final() const { return final_contributions_.has_value(); }
  /// On the device, or null: a flag that skips the next optimizer step if it is not 0.
  void set_skip(const int* skip) { skip_ = skip; }
  const int* skip() const { return skip_; }
  /// Throws Error if the next optimizer step would misread the gradients: if a backward() has added to them
  /// after they were final, or has scaled them by a loss scale that is gone.
  void check_gradients() const;
  /// Scratch memory of clip_grad_norm(): one GradientNorm on the device.
  const Tensor& norm_result() const { return norm_result_; }

  /// Call it after changing values in place. 16-bit copies are then rounded again at their next use. Throws
  /// Error if the values from which they would be rounded are not current (see gather_values()).
  void bump_versions() const;
  /// The same for a change that has also written the 16-bit copies, such as an optimizer's step.
  void bump_versions_with_low_precision() const;
  /// Rounds all 16-bit copies that are out of date. Call it before a step whose copies are gathered: after
  /// the step the copies of other ranks' slices are current, but the values of these slices are not.
  void refresh_low_precision() const;

 private:
  /// In stage 3 sorts the parameters by units. Cuts a sharded arena into buckets.
  void make_buckets(Module& model, std::span<NamedParameter> trainable);
  /// Where each parameter begins, followed by the end of the last.
  std::vector<std::int64_t> offsets_of(const std::vector<NamedParameter>& parameters) const;
  struct Buffer {
    std::int64_t first, end;  ///< elements of the arena
    Tensor values, low_precision;
  };
  std::vector<Buffer> make_buffers(std::int64_t total, Device device, DType compute_dtype) const;
  void make_flat_tensors(const std::vector<Buffer>& buffers, Device device, DType compute_dtype);
  void check_parameters(const std::vector<NamedParameter>& parameters);
  void lay_out(const std::vector<NamedParameter>& parameters, std::size_t trainable, Device device,
               DType compute_dtype);
  void bump_versions_of_values() const;
  std::vector<Tile> tiles_of_entry(std::size_t entry) const;
  void make_tiles(Device device);

  /// A flag for each entry, and a copy on the device.
  struct FlagsOnDevice {
    std::vector<std::uint8_t> flags;
    Tensor on_device;
  };
  AutogradMeta& meta_of(const ArenaEntry& entry) const;
  bool has_grad(std::size_t entry) const;
  void update(FlagsOnDevice& flags, const std::function<bool(std::size_t entry)>& flag_of);

  ArenaSharding sharding_;
  std::vector<ArenaEntry> entries_;
  std::vector<std::size_t> runs_;
  std::vector<GradientBucket> buckets_;
  std::vector<ShardSlice> slices_;
  std::vector<ParameterUnit> units_;
  std::int64_t size_ = 0;
  ShardExchange exchange_;
  std::uint64_t zero_grads_ = 1;
  std::int64_t parameter_elements_ = 0;
  std::int64_t trained_elements_ = 0;
  Tensor values_;
  mutable bool values_are_current_ = true;  // on this rank, in all slices
  Tensor gradients_;
  Tensor low_precision_;
  Tensor tiles_;
  std::int64_t tile_count_ = 0;
  FlagsOnDevice has_grad_, has_counted_grad_;
  std::optional<ModelDivision> division_;
  std::optional<ModelStages> stages_;
  Tensor norm_result_;
  std::shared_ptr<void> gathering_;
  std::shared_ptr<ArenaGradients> written_;  // watched by the parameters' AutogradMeta
  const float* clip_factor_ = nullptr;
  std::optional<std::uint64_t> final_contributions_;  // of backwards, before the clip factor was set
  const int* skip_ = nullptr;
};

}  // namespace ringtape
