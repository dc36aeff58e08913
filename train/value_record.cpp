#include "train/value_record.h"

#include <utility>

#include "trace/layer.h"

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
  ValueRow row;
  row.micro_batch = micro_batch_;
  row.place = static_cast<std::int64_t>(index);
  row.operation = node.operation;
  if (node.layer != nullptr) row.layer = node.layer->path;
  row.kind = kind;
  write(std::move(row), tensor);
}

void ValueRecord::write_parameter(std::int64_t number, const std::string& name, const char* kind,
                                  const Tensor& tensor) {
  ValueRow row;
  row.micro_batch = -1;
  row.place = number;
  row.operation = name;
  row.kind = kind;
  write(std::move(row), tensor);
}

void ValueRecord::write(ValueRow row, const Tensor& tensor) {
  row.step = step_;
  set_values(row, tensor);
  file_.write(row.to_json());
}

}  // namespace ringtape
