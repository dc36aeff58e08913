#include "io/safetensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <string_view>
#include <tuple>
#include <unordered_set>

#include "core/error.h"
#include "core/quote.h"
#include "io/json.h"

namespace ringtape {
namespace {

static_assert(std::endian::native == std::endian::little,
              "elements are copied to and from the file as they are");

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
constexpr const char* kMetadataKey = "__metadata__";

struct DTypeName {
  DType dtype;
  std::string_view name;
};

constexpr DTypeName kDTypeNames[] = {
    {DType::f32, "F32"}, {DType::f64, "F64"}, {DType::bf16, "BF16"}, {DType::f16, "F16"},
    {DType::i32, "I32"}, {DType::i64, "I64"}, {DType::u8, "U8"},
};

std::string_view file_name_of(DType dtype) {
  const auto* row = std::find_if(std::begin(kDTypeNames), std::end(kDTypeNames),
                                 [dtype](const DTypeName& candidate) { return candidate.dtype == dtype; });
  return row->name;
}

std::vector<std::int64_t> numbers_of(const std::string& tensor, const std::string& key, const Json& value,
                                     std::size_t most) {
  std::vector<std::int64_t> numbers;
  for (const Json& number : value.as_array()) {
    if (!number.is_number()) fail("{} has {} in its {}, expected integers", tensor, number.kind(), key);
    const std::string text = number.dump();
    const bool is_whole = text.find_first_not_of("0123456789") == std::string::npos;
    if (!is_whole) fail("{} has {} in its {}, expected integers from 0", tensor, quote(text), key);
    if (number.as_uint64() > std::numeric_limits<std::int64_t>::max()) {
      fail("{} has {} in its {}: more than 2^63 - 1", tensor, text, key);
    }
    if (numbers.size() == most) fail("{} has more than {} numbers in its {}", tensor, most, key);
    numbers.push_back(number.as_int64());
  }
  return numbers;
}

std::optional<DType> dtype_of_file_name(const std::string& text) {
  for (const DTypeName& row : kDTypeNames) {
    if (row.name == text) return row.dtype;
  }
  return std::nullopt;
}

/// Bytes of a tensor with elements of this size and this shape. The product of the nonzero sizes must fit as
/// well, as in Shape.
std::uint64_t bytes_of(const std::string& tensor, std::uint64_t element,
                       const std::vector<std::int64_t>& shape) {
  std::uint64_t bytes = element;
  bool has_elements = true;
  for (std::int64_t size : shape) {
    if (size == 0) {
      has_elements = false;
    } else if (bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max() / size)) {
      fail("{} has the shape [{}]: more than 2^63 - 1 bytes", tensor, fmt::join(shape, ", "));
    } else {
      bytes *= static_cast<std::uint64_t>(size);
    }
  }
  return has_elements ? bytes : 0;
}

/// One member of the header. `tensor` ("FILE: tensor 'NAME'") is for error texts; the data begin at byte
/// `data_start` of the file and have `data_bytes` bytes.
SafetensorsFile::Entry read_entry(const std::string& tensor, const std::string& name, const Json& fields,
                                  std::uint64_t data_start, std::uint64_t data_bytes) {
  std::optional<std::string> dtype_text;
  std::optional<std::vector<std::int64_t>> shape, offsets;
  for (const auto& [key, value] : fields.as_object()) {
    if (key == "dtype" && value.is_string()) {
      dtype_text = value.as_string();
    } else if (key == "shape" && value.is_array()) {
      shape = numbers_of(tensor, key, value, Shape::kMaxDims);
    } else if (key == "data_offsets" && value.is_array()) {
      offsets = numbers_of(tensor, key, value, 2);
    } else {
      fail("{} has {} under the key {}: expected dtype (a string), shape and data_offsets (arrays)", tensor,
           value.kind(), quote(key));
    }
  }
  const char* missing = !dtype_text ? "dtype" : !shape ? "shape" : !offsets ? "data_offsets" : nullptr;
  if (missing) fail("{} has no {}", tensor, missing);
  if (offsets->size() != 2) fail("{} has {} data_offsets, expected 2", tensor, offsets->size());
  const auto begin = static_cast<std::uint64_t>(offsets->front());
  const auto end = static_cast<std::uint64_t>(offsets->back());
  if (begin > end || end > data_bytes) {
    fail("{} has the data_offsets [{}, {}]: expected a range of the {} bytes of data", tensor, begin, end,
         data_bytes);
  }
  const std::optional<DType> dtype = dtype_of_file_name(*dtype_text);
  const std::uint64_t expected = bytes_of(tensor, dtype ? size_of(*dtype) : 1, *shape);
  // The element sizes of other dtypes are not known here.
  if (dtype && end - begin != expected) {
    fail("{} of dtype {} has {} bytes of data, expected {} for shape [{}]", tensor, *dtype_text, end - begin,
         expected, fmt::join(*shape, ", "));
  }
  return {name,
          dtype,
          dtype ? std::string(name_of(*dtype)) : quote(*dtype_text),
          Shape(shape->data(), shape->data() + shape->size()),
          data_start + begin,
          end - begin};
}

SafetensorsMetadata read_metadata(const std::string& file, const Json& members) {
  SafetensorsMetadata metadata;
  for (const auto& [key, value] : members.as_object()) {
    if (!value.is_string())
      fail("{}: the metadata key {} is {}, expected a string", file, quote(key), value.kind());
    metadata.emplace(key, value.as_string());
  }
  return metadata;
}

// The header's length, checked against the file's size.
std::uint64_t read_header_length(const InputFile& file) {
  check(file.size() >= kLengthBytes, "{}: is {} bytes long, expected at least {} for a safetensors file",
        file.name(), file.size(), kLengthBytes);
  std::uint64_t length = 0;
  file.read_at(0, &length, kLengthBytes);
  check(length <= kMaxHeaderBytes,
        "{}: is not a safetensors file: it claims a header of {} bytes, expected at most {}", file.name(),
        length, kMaxHeaderBytes);
  check(length <= file.size() - kLengthBytes, "{}: claims a header of {} bytes, but only {} follow",
        file.name(), length, file.size() - kLengthBytes);
  return length;
}

// Every byte of data must belong to exactly one tensor. Sorts the entries by offset.
void check_coverage(const InputFile& file, std::uint64_t data_start,
                    std::vector<SafetensorsFile::Entry>& entries) {
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);
  });
  std::uint64_t covered = data_start;
  for (const SafetensorsFile::Entry& entry : entries) {
    check(entry.offset == covered, "{}: tensor {} begins at data byte {}, expected {}: tensors {}",
          file.name(), quote(entry.name), entry.offset - data_start, covered - data_start,
          entry.offset < covered ? "overlap" : "leave a hole");
    covered += entry.bytes;
  }
  check(covered == file.size(), "{}: has {} bytes of data, but its tensors take {}", file.name(),
        file.size() - data_start, covered - data_start);
}

std::string header_text(const std::vector<NamedTensor>& tensors, const SafetensorsMetadata& metadata) {
  Json::Object header;
  std::unordered_set<std::string_view> names;
  if (!metadata.empty()) {
    header.emplace_back(kMetadataKey, Json::Object(metadata.begin(), metadata.end()));
  }
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    check(name != kMetadataKey && names.insert(name).second, "save: the tensor name {} is {}", quote(name),
          name == kMetadataKey ? "reserved" : "used twice");
    header.emplace_back(name,
                        Json{{"dtype", file_name_of(tensor.dtype())},
                             {"shape", Json::Array(tensor.shape().begin(), tensor.shape().end())},
                             {"data_offsets", Json::Array{Json(offset), Json(offset + tensor.bytes())}}});
    offset += tensor.bytes();
  }
  std::string text = Json(std::move(header)).dump();
  // Spaces up to a multiple of 8, so that the elements are aligned in the file.
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');
  check(text.size() <= kMaxHeaderBytes, "save: the header takes {} bytes, expected at most {}", text.size(),
        kMaxHeaderBytes);
  return text;
}

}  // namespace

void write_safetensors(AtomicFile& file, const std::vector<NamedTensor>& tensors,
                       const SafetensorsMetadata& metadata) {
  std::vector<NamedTensor> sorted = tensors;
  for (const auto& [name, tensor] : sorted) {
    check(tensor.defined(), "save: tensor {} is undefined", quote(name));
  }
  std::stable_sort(sorted.begin(), sorted.end(), [](const NamedTensor& a, const NamedTensor& b) {
    return size_of(a.tensor.dtype()) > size_of(b.tensor.dtype());
  });
  const std::string header = header_text(sorted, metadata);
  const std::uint64_t length = header.size();

  file.write(&length, kLengthBytes);
  file.write(header.data(), header.size());
  for (const NamedTensor& named : sorted) {
    const Tensor host = copy_to(named.tensor, Device{});
    file.write(host.raw(), host.bytes());
  }
}

std::uint32_t save_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                               const SafetensorsMetadata& metadata) {
  AtomicFile file(path);
  write_safetensors(file, tensors, metadata);
  file.commit();
  return file.checksum();
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(path) {
  const std::uint64_t length = read_header_length(file_);
  std::string header(length, '\0');
  file_.read_at(kLengthBytes, header.data(), header.size());
  check(header.starts_with('{'), "{}: the header begins with {}, expected '{{'", file_.name(),
        quote(header.substr(0, 1)));

  const Json members = Json::parse(header, file_.name() + ": the header");
  const std::uint64_t data_start = kLengthBytes + length;
  for (const auto& [name, value] : members.as_object()) {
    if (!value.is_object()) {
      fail("{}: the value of {} is {}, expected an object", file_.name(), quote(name), value.kind());
    }
    if (name == kMetadataKey) {
      metadata_ = read_metadata(file_.name(), value);
    } else {
      entries_.push_back(read_entry(fmt::format("{}: tensor {}", file_.name(), quote(name)), name, value,
                                    data_start, file_.size() - data_start));
    }
  }
  check_coverage(file_, data_start, entries_);
}

const SafetensorsFile::Entry& SafetensorsFile::entry(std::string_view name) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [name](const Entry& candidate) { return candidate.name == name; });
  check(found != entries_.end(), "{}: has no tensor {} among its {}", file_.name(), quote(name),
        entries_.size());
  return *found;
}

void SafetensorsFile::read_elements(const Entry& entry, const Tensor& to) const {
  Tensor target = to;
  Tensor host = to.device().is_cpu() ? to : empty(to.shape(), to.dtype());
  file_.read_at(entry.offset, host.raw(), host.bytes());
  if (to.device().is_cpu()) {
    host.bump_version();
  } else {
    target.copy_from(host);
  }
}

Tensor SafetensorsFile::load(std::string_view name, Device device) const {
  const Entry& found = entry(name);
  check(found.dtype.has_value(), "{}: tensor {} is {}, expected F32, F64, BF16, F16, I32, I64 or U8",
        file_.name(), quote(found.name), found.dtype_name);
  Tensor tensor = empty(found.shape, *found.dtype, device);
  read_elements(found, tensor);
  return tensor;
}

Tensor SafetensorsFile::load(std::string_view name, DType dtype, const Shape& shape, Device device) const {
  expect(entry(name), dtype, shape);
  return load(name, device);
}

void SafetensorsFile::expect(const Entry& entry, DType dtype, const Shape& shape) const {
  check(entry.dtype == dtype && entry.shape == shape, "{}: tensor {} is {}{}, expected {}{}", file_.name(),
        quote(entry.name), entry.dtype_name, to_string(entry.shape), name_of(dtype), to_string(shape));
}

void SafetensorsFile::load_into(const std::vector<NamedTensor>& targets,
                                const std::vector<Expected>& others) const {
  std::unordered_set<std::string_view> expected;
  for (const auto& [name, tensor] : targets) {
    check(tensor.defined() && expected.insert(name).second,
          "{}: load: the target {} is undefined or given twice", file_.name(), quote(name));
    expect(entry(name), tensor.dtype(), tensor.shape());
  }
  for (const auto& [name, shape] : others) {
    expected.insert(name);
    expect(entry(name), DType::f32, shape);
  }
  for (const Entry& found : entries_) {
    check(expected.contains(found.name), "{}: has a tensor {} that the model lacks", file_.name(),
          quote(found.name));
  }
  for (const auto& [name, tensor] : targets) read_elements(entry(name), tensor);
}

}  // namespace ringtape
