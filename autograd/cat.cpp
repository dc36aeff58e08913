#include "autograd/arguments.h"
#include "autograd/operation_scope.h"
#include "autograd/ops.h"
#include "autograd/tape.h"
#include "kernels/copy_rows.h"

namespace ringtape {
namespace {

/// The position of one input of cat() in the result. Both are viewed as matrices; a row of the input is a
/// part of a row of the result.
struct Part {
  std::int64_t rows, columns, total_columns, first_column;
};

std::vector<Part> parts_of(const std::vector<Tensor>& tensors, const Shape& result, int dim) {
  std::int64_t rows = 1, inner = 1;
  for (int i = 0; i < dim; ++i) rows *= result[i];
  for (int i = dim + 1; i < result.dims(); ++i) inner *= result[i];
  std::vector<Part> parts;
  std::int64_t column = 0;
  for (const Tensor& tensor : tensors) {
    parts.push_back({rows, tensor.size(dim) * inner, result[dim] * inner, column});
    column += parts.back().columns;
  }
  return parts;
}

std::byte* column_address(const Tensor& matrix, const Part& part) {
  return static_cast<std::byte*>(matrix.raw()) +
         static_cast<std::size_t>(part.first_column) * size_of(matrix.dtype());
}

Shape cat_shape(const std::vector<Tensor>& tensors, int& dim) {
  check(!tensors.empty(), "cat: expected at least one tensor");
  const Tensor& first = tensors[0];
  check(first.defined(), "cat: found an undefined tensor");
  dim = first.shape().normalize_dim(dim, "cat");
  std::int64_t size = 0;
  for (const Tensor& tensor : tensors) {
    check(tensor.defined() && tensor.dtype() == first.dtype() && tensor.device() == first.device() &&
              tensor.dims() == first.dims() && tensor.shape().with(dim, 0) == first.shape().with(dim, 0),
          "cat: {} and {} differ in more than dimension {}", describe(first), describe(tensor), dim);
    size += tensor.size(dim);
  }
  return first.shape().with(dim, size);
}

}  // namespace

Tensor cat(const std::vector<Tensor>& tensors, int dim) {
  const Shape shape = cat_shape(tensors, dim);
  const OperationScope span("cat", {&tensors[0]});
  Tensor y = empty(shape, tensors[0].dtype(), tensors[0].device());
  add_work({.bytes = 2 * bytes_of({&y})});
  const std::vector<Part> parts = parts_of(tensors, shape, dim);
  bool records = false;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Part& part = parts[i];
    copy_rows(stream_of(y), y.dtype(), tensors[i].raw(), part.columns, column_address(y, part),
              part.total_columns, part.rows, part.columns, false);
    records = records || Tape::records({&tensors[i]});
  }
  if (records) {
    Tape::current().record("cat", tensors, y, {}, [parts](BackwardContext& context) {
      const Tensor& dy = context.grad_output();
      for (std::size_t i = 0; i < parts.size(); ++i) {
        if (!context.needs_grad(i)) continue;
        const Part& part = parts[i];
        const GradTarget dx = context.grad_target(i);
        add_work({.bytes = bytes_of({&dx.grad}) + bytes_of(dx)});
        copy_rows(stream_of(dy), dy.dtype(), column_address(dy, part), part.total_columns, dx.grad.raw(),
                  part.columns, part.rows, part.columns, dx.accumulate);
      }
    });
  }
  return y;
}

Tensor stack(const std::vector<Tensor>& tensors, int dim) {
  check(!tensors.empty(), "stack: expected at least one tensor");
  check(tensors[0].defined(), "stack: found an undefined tensor");
  const Shape& shape = tensors[0].shape();
  const int dims = shape.dims() + 1;
  check(dims <= Shape::kMaxDims, "stack: {} has {} dimensions already, and may have at most {}",
        describe(tensors[0]), shape.dims(), Shape::kMaxDims);
  check(dim >= -dims && dim < dims, "stack: dimension {} is out of range for {}: expected {} to {}", dim,
        describe(tensors[0]), -dims, dims - 1);
  if (dim < 0) dim += dims;
  const Shape with_new_dim = shape.inserted(dim, 1);
  std::vector<Tensor> rows;
  for (const Tensor& tensor : tensors) {
    check(tensor.defined() && tensor.shape() == shape && tensor.dtype() == tensors[0].dtype() &&
              tensor.device() == tensors[0].device(),
          "stack: expected equal shapes, dtypes and devices, found {} and {}", describe(tensors[0]),
          describe(tensor));
    rows.push_back(view(tensor, {with_new_dim.begin(), with_new_dim.end()}));
  }
  return cat(rows, dim);
}

}  // namespace ringtape
