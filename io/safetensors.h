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
/// integer; the header, a JSON object
///
///   {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...,
///    "__metadata__": {"note": "text"}}
///
/// then the elements, row-major and little-endian, without gaps.
namespace ringtape {

/// A tensor and its name in a file.
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// The strings under "__metadata__".
using SafetensorsMetadata = std::map<std::string, std::string>;

/// Writes `tensors` (on any device) to `path` atomically: on any failure it throws Error, an old file stays
/// unchanged and nothing else is left behind. Elements of wider dtypes come first in the file, so that each
/// tensor is aligned to its element size. Throws Error for two tensors of the same name. Returns the file's
/// CRC-32.
std::uint32_t save_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                               const SafetensorsMetadata& metadata = {});
/// Writes the same bytes to `file`; the caller calls commit().
void write_safetensors(AtomicFile& file, const std::vector<NamedTensor>& tensors,
                       const SafetensorsMetadata& metadata = {});

/// A safetensors file open for reading. The constructor reads the header and checks all of it against the
/// file's size before memory for any tensor is allocated; every Error names the file, what was found and what
/// was expected. Limits: a header of 100 MB, 4 dimensions. A tensor of a dtype that core/dtype.h lacks, such
/// as BOOL, is listed among the entries but cannot be loaded.
class SafetensorsFile {
 public:
  struct Entry {
    std::string name;
    std::optional<DType> dtype;  ///< nullopt for a dtype that this library lacks
    std::string dtype_name;      ///< for error texts: "f32"; the file's own name if `dtype` is nullopt
    Shape shape;
    std::uint64_t offset;  ///< of the first element, from the start of the file
    std::uint64_t bytes;
  };

  explicit SafetensorsFile(const std::filesystem::path& path);

  /// The tensors in the order of their data.
  const std::vector<Entry>& entries() const { return entries_; }
  const SafetensorsMetadata& metadata() const { return metadata_; }
  /// The entry of that name; throws Error if there is none.
  const Entry& entry(std::string_view name) const;

  /// A new tensor with the elements of `name`. Throws Error if the file has no such tensor, or for a dtype
  /// that this library lacks.
  Tensor load(std::string_view name, Device device = {}) const;
  /// The same; throws Error unless the file has this dtype and shape.
  Tensor load(std::string_view name, DType dtype, const Shape& shape, Device device = {}) const;
  /// An f32 tensor that the file must contain.
  struct Expected {
    std::string name;
    Shape shape;
  };
  /// Overwrites every target with the tensor of its name. The file must contain the tensors of the targets
  /// and of `others`, with their dtypes and shapes, and no others; this is checked before any target is
  /// changed. Throws Error if it does not.
  void load_into(const std::vector<NamedTensor>& targets, const std::vector<Expected>& others = {}) const;

 private:
  void expect(const Entry& entry, DType dtype, const Shape& shape) const;
  void read_elements(const Entry& entry, const Tensor& to) const;

  InputFile file_;
  std::vector<Entry> entries_;
  SafetensorsMetadata metadata_;
};

}  // namespace ringtape
