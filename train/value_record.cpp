#include "train/value_record.h"

#include "trace/layer.h"
#include "train/value_row.h"

namespace ringtape {

void ValueRecord::begin_step(std::int64_t step, Module& model) {
  step_ = step;
  std::int64_t number = 0;
  for (const auto& [name, tensor] : model.named_parameters()) {
    write_parameter(number++, name, "value", *tensor);
  }
}

void ValueRecord::gradients(Module& model) {
  std::int64_t number = 0;
  for (const auto& [name, tensor] : model.named_parameters()) {
    if (const Tensor gradient = tensor->grad(); gradient.defined()) {
      write_parameter(number, name, "gradient", gradient);
    }
    ++number;
  }
}

void ValueRecord::on_record(const Node& node, std::size_t index, const Tensor& output) {
  write_node(node, index, "output", output);
}

void ValueRecord::on_backward(const Node& node, std::size_t index, const Tensor& gradient) {
  write_node(node, index, "gradient", gradient);
}

void ValueRecord::write_node(const Node& node, std::size_t index, const char* kind, const Tensor& tensor) {
  ValueRow row{.step = step_,
               .micro_batch = micro_batch_,
               .place = static_cast<std::int64_t>(index),
               .operation = node.operation,
               .layer = node.layer == nullptr ? "" : node.layer->path,
               .kind = kind,
               .shape = {},
               .dtype = {},
               .samples = {}};
  set_values(row, tensor);
  file_.write(row.to_json());
}

void ValueRecord::write_parameter(std::int64_t number, const std::string& name, const char* kind,
                                  const Tensor& tensor) {
  ValueRow row{.step = step_,
               .micro_batch = -1,
               .place = number,
               .operation = name,
               .layer = {},
               .kind = kind,
               .shape = {},
               .dtype = {},
               .samples = {}};
  set_values(row, tensor);
  file_.write(row.to_json());
}

}  // namespace ringtape
