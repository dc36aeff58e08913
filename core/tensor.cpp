#include "core/tensor.h"

#include <limits>

#include "core/capture.h"
#include "core/error.h"
#include "core/half.h"
#include "core/memory.h"
#include "core/numbers.h"
#include "core/stream.h"

namespace ringtape {
namespace {

double to_double(const void* address, DType dtype, std::int64_t index) {
  switch (dtype) {
    case DType::f32:
      return static_cast<const float*>(address)[index];
    case DType::f64:
      return static_cast<const double*>(address)[index];
    case DType::bf16:
      return on_cpu::to_float(static_cast<const bfloat16*>(address)[index]);
    case DType::f16:
      return on_cpu::to_float(static_cast<const float16*>(address)[index]);
    case DType::i32:
      return static_cast<const std::int32_t*>(address)[index];
    case DType::i64:
      return static_cast<double>(static_cast<const std::int64_t*>(address)[index]);
    case DType::u8:
      return static_cast<const std::uint8_t*>(address)[index];
  }
  fail("to_double: dtype {} is unknown", static_cast<int>(dtype));
}

}  // namespace

Tensor::Tensor(std::shared_ptr<Storage> storage, Shape shape, DType dtype, std::int64_t offset)
    : storage_(std::move(storage)), shape_(shape), offset_(offset), dtype_(dtype) {
  const auto room = static_cast<std::int64_t>(storage_ != nullptr ? storage_->bytes / size_of(dtype) : 0);
  check(storage_ != nullptr && offset >= 0 && elements() <= room && offset <= room - elements(),
        "tensor {}{} at offset {} does not fit its storage", name_of(dtype), to_string(shape), offset);
}

Device Tensor::device() const {
  check(defined(), "device() of an undefined tensor");
  return storage_->device;
}

void* Tensor::raw() const {
  check(defined(), "data of an undefined tensor");
  if (storage_->data == nullptr && storage_->bytes > 0) {
    check(storage_->arrive != nullptr,
          "the elements of {} are not in memory: a parameter sharded by ZeRO stage 3 is there only during a "
          "forward or backward of its unit",
          describe(*this));
    const auto arrive = storage_->arrive;  // a copy, as it clears itself
    arrive();
  }
  return static_cast<std::byte*>(storage_->data.get()) + static_cast<std::size_t>(offset_) * size_of(dtype_);
}

void Tensor::expect_dtype(DType dtype) const {
  check(defined(), "elements of an undefined tensor were requested as {}", name_of(dtype));
  check(dtype == dtype_, "tensor is {}, but its elements were requested as {}", describe(*this),
        name_of(dtype));
}

Tensor Tensor::alias(Shape shape, std::int64_t offset_elements) const {
  check(defined(), "alias: a view of an undefined tensor was requested");
  check(offset_elements >= 0 && shape.elements() <= elements() &&
            offset_elements <= elements() - shape.elements(),
        "alias: {} at offset {} is outside of {}", to_string(shape), offset_elements, describe(*this));
  return {storage_, shape, dtype_, offset_ + offset_elements};
}

Tensor Tensor::detach() const {
  Tensor result = *this;
  result.autograd.reset();
  return result;
}

void Tensor::copy_to_host(void* to) const {
  forbid_in_capture("a tensor's elements are read on the host");
  copy_bytes(to, Device{}, raw(), device(), bytes());
}

std::vector<double> Tensor::to_doubles() const {
  check(defined(), "to_doubles() of an undefined tensor");
  std::vector<std::byte> host(bytes());
  copy_to_host(host.data());
  std::vector<double> values(static_cast<std::size_t>(elements()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = to_double(host.data(), dtype_, static_cast<std::int64_t>(i));
  }
  return values;
}

double Tensor::item() const {
  check(defined(), "item() of an undefined tensor");
  check(elements() == 1, "item() needs one element: the tensor is {}", describe(*this));
  return without_nan_sign(to_doubles()[0]);
}

void Tensor::copy_from(const Tensor& source) {
  check(defined() && source.defined(), "copy_from: cannot copy {} into {}", describe(source),
        describe(*this));
  check(source.shape() == shape_ && source.dtype() == dtype_, "copy_from: cannot copy {} into {}",
        describe(source), describe(*this));
  copy_bytes(raw(), device(), source.raw(), source.device(), bytes());
  bump_version();
}

Tensor empty(Shape shape, DType dtype, Device device) {
  const auto elements = static_cast<std::size_t>(shape.elements());
  if (elements > std::numeric_limits<std::size_t>::max() / size_of(dtype)) {
    throw OutOfMemoryError(fmt::format("out of memory on {}: {}{} has more bytes than fit in 64 bits",
                                       to_string(device), name_of(dtype), to_string(shape)));
  }
  auto storage = std::make_shared<Storage>();
  storage->bytes = elements * size_of(dtype);
  storage->data = allocate(device, storage->bytes);
  storage->device = device;
  return {std::move(storage), shape, dtype};
}

template <class T>
Tensor from_span(std::span<const T> values, Shape shape, Device device, const char* operation) {
  check(static_cast<std::int64_t>(values.size()) == shape.elements(),
        "{}: {} values were given for shape {}, which has {}", operation, values.size(), to_string(shape),
        shape.elements());
  Tensor result = empty(shape, dtype_of<T>, device);
  copy_bytes(result.raw(), device, values.data(), Device{}, result.bytes());
  return result;
}

template Tensor from_span(std::span<const float>, Shape, Device, const char*);
template Tensor from_span(std::span<const double>, Shape, Device, const char*);
template Tensor from_span(std::span<const bfloat16>, Shape, Device, const char*);
template Tensor from_span(std::span<const float16>, Shape, Device, const char*);
template Tensor from_span(std::span<const std::int32_t>, Shape, Device, const char*);
template Tensor from_span(std::span<const std::int64_t>, Shape, Device, const char*);
template Tensor from_span(std::span<const std::uint8_t>, Shape, Device, const char*);

Tensor copy_to(const Tensor& tensor, Device device) {
  if (tensor.device() == device) return tensor;
  Tensor result = empty(tensor.shape(), tensor.dtype(), device);
  result.copy_from(tensor);
  return result;
}

std::string describe(const Tensor& tensor) {
  if (!tensor.defined()) return "an undefined tensor";
  return fmt::format("{}{} on {}", name_of(tensor.dtype()), to_string(tensor.shape()),
                     to_string(tensor.device()));
}

}  // namespace ringtape
