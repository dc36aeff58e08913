#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"
#include "io/file.h"

/// The safetensors format (huggingface.co/docs/safetensors): 8 bytes, the header's length as a little-endian
/// integer; the header, a JSON object {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
/// ...,
/// "__metadata__": {"note": "text"}}; then the elements, row-major and little-endian, without holes.
namespace ringtape {

/// A tensor of a file, and its name there.
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// The strings under "__metadata__".
using SafetensorsMetadata = std::map<std::string, std::string>;

/// Writes `tensors` (any device) to `path`, atomically: on any failure Error is thrown, an old file stays as
/// it was and nothing else is left behind. Wider elements come first in the file, so that each tensor is
/// aligned to its element size. Two tensors of one name are an error. Returns the file's CRC-32.
std::uint32_t save_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                               const SafetensorsMetadata& metadata = {});
/// The same as the bytes of a file whose commit() is left to the caller.
void write_safetensors(AtomicFile& file, const std::vector<NamedTensor>& tensors,
                       const SafetensorsMetadata& metadata = {});

/// A safetensors file open for reading. The constructor reads the header and checks all of it against the
/// file's size before anything else is allocated; every Error names the file, what was found and what was
/// expected. Limits: a header of 100 MB, 4 dimensions. A tensor of a dtype that core/dtype.h lacks, such as
/// BOOL, is an entry that cannot be loaded.
class SafetensorsFile {
 public:
  struct Entry {
    std::string name;
    std::optional<DType> dtype;  ///< none for one that this library lacks
    std::string dtype_name;      ///< for error texts: "f32"; the file's own name where `dtype` is none
    Shape shape;
    std::uint64_t offset;  ///< of the first element, from the start of the file
    std::uint64_t bytes;
  };

  explicit SafetensorsFile(const std::filesystem::path& path);

  /// The tensors in the order of their data.
  const std::vector<Entry>& entries() const { return entries_; }
  const SafetensorsMetadata& metadata() const { return metadata_; }
  /// The tensor of that name; throws Error when there is none.
  const Entry& entry(std::string_view name) const;

  /// A new tensor with the elements of `name`. Throws Error for a dtype that this library lacks.
  Tensor load(std::string_view name, Device device = {}) const;
  /// The same; throws Error unless the file's dtype and shape are these.
  Tensor load(std::string_view name, DType dtype, const Shape& shape, Device device = {}) const;
  /// A tensor that the file must hold, of f32.
  struct Expected {
    std::string name;
    Shape shape;
  };
  /// Overwrites every target with the tensor of its name. The file must hold these names, those of `others`
  /// and no others, with the targets' dtypes and shapes; this is checked before any target is changed.
  void load_into(const std::vector<NamedTensor>& targets, const std::vector<Expected>& others = {}) const;

 private:
  void expect(const Entry& entry, DType dtype, const Shape& shape) const;
  void read_elements(const Entry& entry, const Tensor& to) const;

  InputFile file_;
  std::vector<Entry> entries_;
  SafetensorsMetadata metadata_;
};

}  // namespace ringtape
