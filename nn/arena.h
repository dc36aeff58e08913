#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "kernels/arena.h"
#include "nn/module.h"
#include "nn/shard_layout.h"
#include "nn/stages.h"

namespace ringtape {

/// One parameter's place in the arena.
struct ArenaEntry {
  std::string name;
  Tensor* tensor;       ///< the module's tensor; its elements lie in the arena
  std::int64_t offset;  ///< first element, a multiple of kTileAlignment
  std::int64_t elements;
  int chunk;  ///< of a pipeline's stage, whose backward computes its gradient; else 0
  /// Its place in reverse order of registration, which is the order of the entries except in ZeRO stage 3:
  /// the order of step counts in files.
  std::size_t number = 0;
};

/// How an arena is sharded over ranks (ZeRO: Rajbhandari et al., "ZeRO: Memory optimizations toward
/// training trillion parameter models", 2020). See docs/distributed.md.
struct ArenaSharding {
  int stage = 0;  ///< 0: nothing is sharded; 1: the optimizer's state is; 2: the gradients too; 3: the values
  int rank = 0;
  int world_size = 1;
  BucketSizes bucket_sizes = {};
  /// In stage 3: units are freed after their forward and gathered again for backward. False: they are kept,
  /// which halves the gathers and takes memory for all values (PyTorch's name).
  bool reshard_after_forward = true;
  /// The stages of a model that is divided into several (nn/stages.h); else null. No bucket has parameters of
  /// two chunks, and tied weights have buckets of their own: so both stages that have them divide them alike.
  const Stages* stages = nullptr;
};

/// The collectives that a sharded arena needs; DataParallel sets them. All ranks must call them.
struct ShardExchange {
  std::function<void(const Tensor& x)> sum;  ///< x = the sum over the ranks
  std::function<void(const Tensor& x)> max;
  /// Fills a tensor of the arena's length with the slices of all ranks.
  std::function<void(const Tensor& flat)> all_gather;
  /// The same for values() or low_precision() in the background: the first to read them or a parameter waits.
  std::function<void(const Tensor& flat)> start_all_gather;
};

/// In ZeRO stage 3: parameters that are gathered, computed with, and freed together (nn/parameter_units.h).
struct ParameterUnit {
  Module* module;  ///< whose forward needs them
  bool is_of_all;  ///< they are needed through the whole forward of the model, or of a stage's chunk
  int chunk;       ///< of a pipeline's stage; else 0
  Tensor values;   ///< of its bucket; undefined while they are not in memory
  Tensor copies;   ///< the same in the compute dtype; undefined for f32
};

/// The other ranks that have parts of the model's parameters (nn/parameter_shard.h).
struct ModelDivision {
  int rank = 0;                              ///< of this one among them
  std::function<void(const Tensor& x)> sum;  ///< x = the sum over these ranks
  std::function<void(const Tensor& x)> max;
  /// Each rank has the gradient by its own tokens of a parameter that all ranks have (sequence parallelism).
  bool gradients_are_parts = false;
};

/// The other stages of a pipeline, which have other parameters of the model (nn/stages.h).
struct ModelStages {
  std::function<void(const Tensor& x)> sum;  ///< x = the sum over the stages
  std::function<void(const Tensor& x)> max;
  /// A parameter that another stage has too: tied weights.
  struct TiedParameter {
    std::string name;
    bool is_counted;                           ///< in sums over parameters: on one of the two
    std::function<void(const Tensor& x)> sum;  ///< x = the sum over these two stages
  };
  std::vector<TiedParameter> copies;
};

/// All parameters of a model in one flat f32 buffer, and their gradients in another of the same layout, on
/// one device. An operation on all parameters (an optimizer step, a norm, a checkpoint, an all-reduce) is
/// then one launch or one range, for any number of tensors.
///
/// Parameters with requires_grad come first, in reverse order of registration, which is about the order in
/// which backward completes their gradients; each starts at a multiple of 256 bytes. Frozen parameters
/// follow; they have no gradient and no entry. Ranks that have parts of a parameter (nn/parameter_shard.h)
/// have the layout of the largest part.
///
/// A sharded arena is divided into buckets, each padded to world_size times 256 bytes, of which each rank
/// owns a slice (nn/shard_layout.h); a rank's slices together are its shard. Every rank has all values,
/// except in stage 3: there a bucket is a unit, values() are the shard's, and a unit's values are in a buffer
/// of its own, which a DataParallel gives back where no forward or backward needs it.
///
/// The model must outlive the arena.
class ParameterArena {
 public:
  /// Moves the parameters of `model` to `device` and into the arena; the model computes with them there. With
  /// a `compute_dtype` of bf16 or f16 the arena also keeps a copy of all values in that dtype, with which
  /// linear() multiplies inputs of that dtype (mixed precision: Micikevicius et al., "Mixed precision
  /// training", 2018). The f32 values are the master weights: optimizers change them and write the copy in
  /// the same launch, and files hold them. Throws Error for a parameter that is not f32 or that another arena
  /// holds, a model without parameters, a compute_dtype other than f32, bf16 and f16, a stage other than 0 to
  /// 3, a rank outside of 0 to world_size - 1, and in stages 1 and 2 for bucket sizes below 1.
  ParameterArena(Module& model, Device device, DType compute_dtype = DType::f32,
                 const ArenaSharding& sharding = {});
  ParameterArena(const ParameterArena&) = delete;
  ParameterArena& operator=(const ParameterArena&) = delete;

  Device device() const { return values_.device(); }
  const std::vector<ArenaEntry>& entries() const { return entries_; }
  /// Values and gradients of the parameters with requires_grad: f32 [size()]. The few elements between two
  /// parameters belong to none. From stage 2 on gradients() has only the shard's, [shard_size()]; in stage 3
  /// values() too.
  const Tensor& values() const { return values_; }
  const Tensor& gradients() const { return gradients_; }
  std::int64_t size() const { return size_; }

  const ArenaSharding& sharding() const { return sharding_; }
  bool is_sharded() const { return sharding_.stage > 0; }
  /// Numbers of neighbouring entries that may share a bucket: without stages all.
  const std::vector<std::size_t>& runs() const { return runs_; }
  /// The buckets of a sharded arena, and this rank's slice of each bucket.
  const std::vector<GradientBucket>& buckets() const { return buckets_; }
  const std::vector<ShardSlice>& slices() const { return slices_; }
  /// Elements for which this rank has the optimizer's state: its slices, or without sharding all elements.
  std::int64_t shard_size() const { return is_sharded() ? size() / sharding_.world_size : size(); }
  /// False in stage 3.
  bool has_all_values() const { return sharding_.stage < 3; }
  /// In stage 3: the unit of each bucket. Until a DataParallel shards them, all are in host memory.
  const std::vector<ParameterUnit>& units() const { return units_; }
  /// Gives a unit's parameters these elements in the layout of its bucket; undefined: none.
  void set_unit(std::size_t unit, const Tensor& values, const Tensor& copies);
  /// The elements of a parameter's gradient that this rank has after the mean: all, or the elements in its
  /// slice of the bucket. Undefined for a gradient that was not written. Throws Error for a bucket with
  /// others too.
  Tensor gradient_of_single(const Tensor& parameter) const;
  /// In stage 3, after a change of all of values() and low_precision(): the copies are current.
  void mark_copies_current() const;
  /// In stage 3: the most elements of units that are in memory at a time: the model's own, one that is
  /// computed with, and its neighbour; all without reshard_after_forward.
  std::int64_t most_unit_elements() const;
  /// Keeps the object that gathers the units for as long as the arena.
  void keep_gathering(std::shared_ptr<void> gathering) { gathering_ = std::move(gathering); }
  void set_shard_exchange(ShardExchange exchange) { exchange_ = std::move(exchange); }
  /// Throws Error where it has not been set.
  const ShardExchange& shard_exchange() const;
  /// For a model of which this rank has a part.
  void set_division(ModelDivision division) { division_ = std::move(division); }
  const std::optional<ModelDivision>& division() const { return division_; }
  /// For a model of which this rank has a stage.
  void set_stages(ModelStages stages) { stages_ = std::move(stages); }
  const std::optional<ModelStages>& stages() const { return stages_; }
  /// Whether sums over the parameters of all ranks include this entry of this rank: the part of a parameter
  /// does on every rank, a parameter that all ranks have on rank 0 of the division.
  bool counts(std::size_t entry) const;

  /// Makes values() current on all ranks; all ranks must call it. They are out of date only in a sharded
  /// arena of stage 1 or 2 with a 16-bit copy, where a step gathers only the copies.
  void gather_values() const;
  /// The dtype to give the model's inputs: f32, or the dtype of the copy.
  DType compute_dtype() const { return low_precision_.defined() ? low_precision_.dtype() : DType::f32; }
  /// The copy of values() in compute_dtype(), in the same layout; undefined for f32.
  const Tensor& low_precision() const { return low_precision_; }
  /// Elements of all parameters, frozen ones too, without the padding.
  std::int64_t parameter_elements() const { return parameter_elements_; }
  /// Elements of the parameters that are not frozen.
  std::int64_t trained_elements() const { return trained_elements_; }

  /// Completes the gradients of a division whose `gradients_are_parts`: after the mean over other ranks, and
  /// before norms and the step. Otherwise does nothing.
  void sum_parts_of_gradients() const;

  /// Marks all gradients as absent: the next backward overwrites them instead of adding, so no memory is set
  /// to zero. Drops an unused clip factor and skip flag.
  void zero_grad();
  /// How often zero_grad() was called: gradients that were written at another count are stale.
  std::uint64_t zero_grad_count() const { return zero_grads_; }

  /// The tile table on the device, and its length. Of a sharded arena: the tiles of this rank's slices.
  const Tile* tiles() const;
  std::int64_t tile_count() const { return tile_count_; }
  /// One flag for each entry on the device: 1 where a gradient has been written since zero_grad(). A
  /// parameter that was frozen after the arena was made has none.
  const std::uint8_t* has_grad();
  /// The same, but 0 for the entries that do not count(), and for the entries that another stage counts.
  const std::uint8_t* has_counted_grad();

  /// On the device: the factor of the gradients from backward() to the optimizer's step, which divides by it,
  /// or null. A LossScaler sets it during its lifetime.
  void set_loss_scale(const float* scale) { loss_scale_ = scale; }
  const float* loss_scale() const { return loss_scale_; }
  /// The clip factor on the device for the next optimizer step, or null. clip_grad_norm() sets it.
  void set_clip_factor(const float* factor) { clip_factor_ = factor; }
  const float* clip_factor() const { return clip_factor_; }
  /// The flag on the device that skips the next optimizer step if it is not 0; null for none.
  void set_skip(const int* skip) { skip_ = skip; }
  const int* skip() const { return skip_; }
  /// Scratch of clip_grad_norm(): one GradientNorm on the device.
  const Tensor& norm_result() const { return norm_result_; }

  /// Call it after a change of the values in place. Copies in compute_dtype() are then rounded again at their
  /// next use; throws Error where the values they would be rounded from are not current (see
  /// gather_values()).
  void bump_versions() const;
  /// The same for a change that has also written the copies: an optimizer's step.
  void bump_versions_of_values_and_copies() const;
  /// Rounds all copies that are out of date. Call it before a step whose copies are gathered: afterwards the
  /// copies of other ranks' slices are current, while the values of these slices are not.
  void refresh_copies() const;

 private:
  /// Cuts a sharded arena into buckets.
  void make_buckets(Module& model, std::span<NamedParameter> trainable);
  /// Where each parameter begins, and last where all end.
  std::vector<std::int64_t> offsets_of(const std::vector<NamedParameter>& parameters) const;
  struct Buffer {
    std::int64_t first, end;  ///< elements of the arena
    Tensor values, copies;
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
  std::shared_ptr<void> alive_;  // watched by the parameters' AutogradMeta
  const float* loss_scale_ = nullptr;
  const float* clip_factor_ = nullptr;
  const int* skip_ = nullptr;
};

}  // namespace ringtape
