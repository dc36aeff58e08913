#pragma once

#include <cstdint>
#include <string>

#include "autograd/tape_observer.h"
#include "nn/module.h"
#include "train/json_lines.h"
#include "train/value_row.h"

namespace ringtape {

/// Writes a row (train/value_row.h) for each tensor of a training run: each operation's output and its
/// gradient, each parameter and its gradient. `compare_runs` finds where two such files first differ. Each
/// row waits for the device, so a recorded run is slow.
class ValueRecord final : public TapeObserver {
 public:
  /// Throws Error if the file cannot be opened. With an empty name, as on ranks other than 0, nothing is
  /// written. `resumed_step`: see JsonLines.
  explicit ValueRecord(const std::string& file, std::int64_t resumed_step = 0)
      : file_("--record-values", file, resumed_step) {}

  bool is_open() const { return file_.is_open(); }
  /// Begins a step, and writes the values of the parameters before it.
  void begin_step(std::int64_t step, Module& model);
  /// Values observed from here on belong to this micro-batch.
  void begin_micro_batch(std::int64_t index) { micro_batch_ = index; }
  /// Writes the gradients of the parameters: over all micro-batches and ranks, before clipping.
  void gradients(Module& model);

  void on_record(const Node& node, std::size_t index, const Tensor& output) override;
  void on_backward(const Node& node, std::size_t index, const Tensor& gradient) override;

 private:
  void write_node(const Node& node, std::size_t index, const char* kind, const Tensor& tensor);
  void write_parameter(std::int64_t number, const std::string& name, const char* kind, const Tensor& tensor);
  void write(ValueRow row, const Tensor& tensor);

  JsonLines file_;
  std::int64_t step_ = 0, micro_batch_ = 0;
};

}  // namespace ringtape
