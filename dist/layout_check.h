#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "autograd/tape_observer.h"

namespace ringtape {

/// How a tensor is laid out over the ranks that divide a model's layers (the mesh's tensor dimension), as the
/// placements Replicate, Shard and Partial of PyTorch's DTensor say.
struct Layout {
  enum class Kind {
    replicated,  ///< equal on all ranks
    entered,     ///< equal on all ranks, but each rank's gradient is an addend of a sum (copy_to_region)
    shard,       ///< each rank has its part along dimension `dim`
    partial,     ///< each rank has an addend: the value is the sum over the ranks
  };
  Kind kind = Kind::replicated;
  int dim = 0;  ///< of a shard
  bool operator==(const Layout&) const = default;
};
std::string to_string(const Layout& layout);

/// Derives the layout of every result on the tape from the operands' layouts, by a rule for each operation.
/// Throws Error that names the operation for layouts that do not fit: a nonlinear function of a partial sum,
/// plain dropout of tokens that sequence parallelism divides, a product of shards that do not match, a column
/// layer whose input has not gone through copy_to_region, so that its gradient stays partial; and with
/// context parallelism, attention or dropout that takes a rank's tokens for the whole sequence. An operation
/// without a rule is an Error too.
/// The layouts of parameters follow from their shards (nn/parameter_shard.h); inputs without a gradient are
/// equal on all ranks. In a recomputed segment only the first run is checked. Use one LayoutCheck for each
/// forward, with a TapeObserverScope.
class LayoutCheck : public TapeObserver {
 public:
  /// `next` is called after this observer; null for none. `context`: ranks divide the sequences (context
  /// parallelism); layouts are over the ranks that divide the layers even then.
  explicit LayoutCheck(TapeObserver* next = nullptr, bool context = false) : next_(next), context_(context) {}
  void on_record(const Node& node, std::size_t index, const Tensor& output) override;
  void on_backward(const Node& node, std::size_t index, const Tensor& gradient) override;
  void on_record_in_segment(const Node& node) override;
  void on_segment_result(const Tensor& result) override { of_segment_ = of(result); }

  /// The layout of a result recorded so far.
  Layout of(const Tensor& output) const;

 private:
  Layout of(const NodeInput& input) const;
  Layout derive(const Node& node) const;

  TapeObserver* next_;
  bool context_;
  std::map<const AutogradMeta*, Layout> layouts_;
  /// Results inside segments, which would be freed at the segment's end: kept, so that no other result gets
  /// their address.
  std::vector<std::shared_ptr<const AutogradMeta>> in_segments_;
  Layout of_segment_;
};

}  // namespace ringtape
