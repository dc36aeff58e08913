#include "core/safetensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <unordered_set>

#include "core/error.h"
#include "core/quote.h"

namespace ringtape {
namespace {

static_assert(std::endian::native == std::endian::little,
              "elements are copied to and from the file as they are");

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kLongestHeader = 100'000'000;
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

/// Receives the header's JSON piece by piece and accepts the format's structure and nothing else, so a
/// hostile header cannot build anything larger than itself. Duplicate keys, which a JSON document would merge
/// in silence, are seen here.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderReader(const std::string& file, std::uint64_t data_start, std::uint64_t data_bytes)
      : file_(file), data_start_(data_start), data_bytes_(data_bytes) {}

  std::vector<SafetensorsFile::Entry> entries;
  SafetensorsMetadata metadata;

  bool start_object(std::size_t) override {
    switch (place_) {
      case Place::outside:
        return move_to(Place::header);
      case Place::header:
        if (name_ == kMetadataKey) return move_to(Place::metadata);
        dtype_.reset();
        shape_.reset();
        offsets_.reset();
        return move_to(Place::tensor);
      default:
        return unexpected("an object");
    }
  }

  bool key(std::string& text) override {
    if (place_ == Place::header) {
      name_ = text;
      if (!names_.insert(text).second) fail("{}: the name {} occurs twice in the header", file_, quote(text));
    } else {
      key_ = text;
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::tensor) finish_tensor();
    return move_to(place_ == Place::header ? Place::outside : Place::header);
  }

  bool start_array(std::size_t) override {
    if (place_ == Place::tensor && key_ == "shape") return start_numbers(shape_);
    if (place_ == Place::tensor && key_ == "data_offsets") return start_numbers(offsets_);
    return unexpected("an array");
  }

  bool end_array() override { return move_to(Place::tensor); }

  bool string(std::string& text) override {
    if (place_ == Place::metadata) {
      if (!metadata.emplace(key_, text).second)
        fail("{}: the metadata key {} occurs twice", file_, quote(key_));
      return true;
    }
    if (place_ != Place::tensor || key_ != "dtype") return unexpected("a string");
    if (dtype_) fail("{}: tensor {} has two values for dtype", file_, quote(name_));
    for (const DTypeName& row : kDTypeNames) {
      if (row.name == text) dtype_ = row.dtype;
    }
    if (!dtype_) {
      fail("{}: tensor {} has the dtype {}: expected F32, F64, BF16, F16, I32, I64 or U8", file_,
           quote(name_), quote(text));
    }
    return true;
  }

  bool number_unsigned(std::uint64_t value) override {
    if (place_ != Place::numbers) return unexpected("a number");
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      fail("{}: tensor {} has {} in its {}: more than 2^63 - 1", file_, quote(name_), value, key_);
    }
    const std::size_t most = key_ == "shape" ? Shape::kMaxDims : 2;
    if (numbers_->size() == most) {
      fail("{}: tensor {} has more than {} numbers in its {}", file_, quote(name_), most, key_);
    }
    numbers_->push_back(static_cast<std::int64_t>(value));
    return true;
  }

  bool number_integer(std::int64_t value) override { return bad_number(std::to_string(value)); }
  bool number_float(double, const std::string& text) override { return bad_number(text); }
  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("true or false"); }
  bool binary(nlohmann::json::binary_t&) override { return unexpected("binary data"); }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    fail("{}: the header is not valid JSON at its byte {}", file_, position);
  }

 private:
  enum class Place { outside, header, metadata, tensor, numbers };
  using Numbers = std::vector<std::int64_t>;

  bool move_to(Place place) {
    place_ = place;
    return true;
  }

  bool start_numbers(std::optional<Numbers>& numbers) {
    if (numbers) fail("{}: tensor {} has two values for {}", file_, quote(name_), key_);
    numbers_ = &numbers.emplace();
    return move_to(Place::numbers);
  }

  [[noreturn]] bool unexpected(const char* found) const {
    switch (place_) {
      case Place::outside:
        fail("{}: the header is {}, expected a JSON object", file_, found);
      case Place::header:
        fail("{}: the value of {} is {}, expected an object", file_, quote(name_), found);
      case Place::metadata:
        fail("{}: the metadata key {} is {}, expected a string", file_, quote(key_), found);
      case Place::tensor:
        fail(
            "{}: tensor {} has {} under the key {}: expected dtype (a string), shape and data_offsets "
            "(arrays)",
            file_, quote(name_), found, quote(key_));
      case Place::numbers:
        fail("{}: tensor {} has {} in its {}, expected integers", file_, quote(name_), found, key_);
    }
    __builtin_unreachable();
  }

  [[noreturn]] bool bad_number(const std::string& text) const {
    if (place_ != Place::numbers) unexpected("a number");
    fail("{}: tensor {} has {} in its {}, expected integers from 0", file_, quote(name_), quote(text), key_);
  }

  void finish_tensor() {
    const char* missing = !dtype_ ? "dtype" : !shape_ ? "shape" : !offsets_ ? "data_offsets" : nullptr;
    if (missing) fail("{}: tensor {} has no {}", file_, quote(name_), missing);
    if (offsets_->size() != 2) {
      fail("{}: tensor {} has {} data_offsets, expected 2", file_, quote(name_), offsets_->size());
    }
    const auto begin = static_cast<std::uint64_t>(offsets_->front());
    const auto end = static_cast<std::uint64_t>(offsets_->back());
    if (begin > end || end > data_bytes_) {
      fail("{}: tensor {} has the data_offsets [{}, {}]: expected a range of the {} bytes of data", file_,
           quote(name_), begin, end, data_bytes_);
    }
    const std::uint64_t expected = tensor_bytes();
    if (end - begin != expected) {
      fail("{}: tensor {} of dtype {} has {} bytes of data, expected {} for shape [{}]", file_, quote(name_),
           file_name_of(*dtype_), end - begin, expected, fmt::join(*shape_, ", "));
    }
    entries.push_back({name_, *dtype_, Shape(shape_->data(), shape_->data() + shape_->size()),
                       data_start_ + begin, expected});
  }

  // Bytes that dtype and shape ask for. A product over the sizes that are not 0 must fit as well, as in
  // Shape.
  std::uint64_t tensor_bytes() const {
    std::uint64_t bytes = size_of(*dtype_);
    bool has_elements = true;
    for (std::int64_t size : *shape_) {
      if (size == 0) {
        has_elements = false;
      } else if (bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max() / size)) {
        fail("{}: tensor {} has the shape [{}]: more than 2^63 - 1 bytes", file_, quote(name_),
             fmt::join(*shape_, ", "));
      } else {
        bytes *= static_cast<std::uint64_t>(size);
      }
    }
    return has_elements ? bytes : 0;
  }

  const std::string& file_;
  const std::uint64_t data_start_;
  const std::uint64_t data_bytes_;
  Place place_ = Place::outside;
  std::unordered_set<std::string> names_;
  std::string name_;  // of the tensor being read
  std::string key_;   // inside it, or inside the metadata
  std::optional<DType> dtype_;
  std::optional<Numbers> shape_;
  std::optional<Numbers> offsets_;
  Numbers* numbers_ = nullptr;  // the array being read
};

// The length field, checked against the file's size.
std::uint64_t read_header_length(const InputFile& file) {
  check(file.size() >= kLengthBytes, "{}: is {} bytes long, expected at least {} for a safetensors file",
        file.name(), file.size(), kLengthBytes);
  std::uint64_t length = 0;
  file.read_at(0, &length, kLengthBytes);
  check(length <= kLongestHeader, "{}: claims a header of {} bytes, expected at most {}", file.name(), length,
        kLongestHeader);
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
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[kMetadataKey] = metadata;
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    check(name != kMetadataKey && !header.contains(name), "save: the tensor name {} is {}", quote(name),
          name == kMetadataKey ? "reserved" : "used twice");
    header[name] = {{"dtype", file_name_of(tensor.dtype())},
                    {"shape", std::vector<std::int64_t>(tensor.shape().begin(), tensor.shape().end())},
                    {"data_offsets", {offset, offset + tensor.bytes()}}};
    offset += tensor.bytes();
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::type_error&) {
    fail("save: a tensor name or a metadata text is not valid UTF-8");
  }
  // Spaces up to a multiple of 8, so that the elements are aligned in the file.
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');
  check(text.size() <= kLongestHeader, "save: the header takes {} bytes, expected at most {}", text.size(),
        kLongestHeader);
  return text;
}

}  // namespace

std::uint32_t save_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                               const SafetensorsMetadata& metadata) {
  std::vector<NamedTensor> sorted = tensors;
  for (const auto& [name, tensor] : sorted) {
    check(tensor.defined(), "{}: save: tensor {} is undefined", path.string(), quote(name));
  }
  std::stable_sort(sorted.begin(), sorted.end(), [](const NamedTensor& a, const NamedTensor& b) {
    return size_of(a.tensor.dtype()) > size_of(b.tensor.dtype());
  });
  const std::string header = header_text(sorted, metadata);
  const std::uint64_t length = header.size();

  AtomicFile file(path);
  file.write(&length, kLengthBytes);
  file.write(header.data(), header.size());
  for (const NamedTensor& named : sorted) {
    const Tensor host = copy_to(named.tensor, Device{});
    file.write(host.raw(), host.bytes());
  }
  file.commit();
  return file.checksum();
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(path) {
  const std::uint64_t length = read_header_length(file_);
  std::string header(length, '\0');
  file_.read_at(kLengthBytes, header.data(), header.size());
  check(header.starts_with('{'), "{}: the header begins with {}, expected '{{'", file_.name(),
        quote(header.substr(0, 1)));

  // The JSON parser would take a zero byte for the end of its input and ignore the rest.
  check(header.find('\0') == std::string::npos,
        "{}: the header is not valid JSON at its byte {}: a zero byte", file_.name(), header.find('\0') + 1);

  const std::uint64_t data_start = kLengthBytes + length;
  HeaderReader reader(file_.name(), data_start, file_.size() - data_start);
  nlohmann::json::sax_parse(header, &reader);
  entries_ = std::move(reader.entries);
  metadata_ = std::move(reader.metadata);
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
  Tensor host = to.device().is_cpu() ? to : empty(entry.shape, entry.dtype);
  file_.read_at(entry.offset, host.raw(), host.bytes());
  if (to.device().is_cpu()) {
    host.bump_version();
  } else {
    target.copy_from(host);
  }
}

Tensor SafetensorsFile::load(std::string_view name, Device device) const {
  const Entry& found = entry(name);
  Tensor tensor = empty(found.shape, found.dtype, device);
  read_elements(found, tensor);
  return tensor;
}

Tensor SafetensorsFile::load(std::string_view name, DType dtype, const Shape& shape, Device device) const {
  expect(entry(name), dtype, shape);
  return load(name, device);
}

void SafetensorsFile::expect(const Entry& entry, DType dtype, const Shape& shape) const {
  check(entry.dtype == dtype && entry.shape == shape, "{}: tensor {} is {}{}, expected {}{}", file_.name(),
        quote(entry.name), name_of(entry.dtype), to_string(entry.shape), name_of(dtype), to_string(shape));
}

void SafetensorsFile::load_into(const std::vector<NamedTensor>& targets) const {
  std::unordered_set<std::string_view> expected;
  for (const auto& [name, tensor] : targets) {
    check(tensor.defined() && expected.insert(name).second,
          "{}: load: the target {} is undefined or given twice", file_.name(), quote(name));
    expect(entry(name), tensor.dtype(), tensor.shape());
  }
  for (const Entry& found : entries_) {
    check(expected.contains(found.name), "{}: has a tensor {} that the model lacks", file_.name(),
          quote(found.name));
  }
  for (const auto& [name, tensor] : targets) read_elements(entry(name), tensor);
}

}  // namespace ringtape
