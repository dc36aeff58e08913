#include "data/mnist.h"

#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/memory.h"
#include "data/idx.h"
#include "data/mnist_embedded.h"
#include "io/file.h"
#include "kernels/elementwise.h"
#include "trace/spans.h"

namespace ringtape {
namespace {

constexpr std::int64_t kSide = 28;
constexpr int kClasses = 10;

struct NamedBytes {
  std::string name;
  std::vector<std::uint8_t> owned;  // empty when the bytes are part of the program
  std::span<const std::uint8_t> bytes;
};

constexpr const char* kTrainImages = "train-images-idx3-ubyte";
constexpr const char* kTrainLabels = "train-labels-idx1-ubyte";
constexpr const char* kTestImages = "t10k-images-idx3-ubyte";
constexpr const char* kTestLabels = "t10k-labels-idx1-ubyte";

std::filesystem::path path_of(const std::filesystem::path& folder, const std::string& name) {
  for (const std::string& candidate : {name + ".gz", name}) {
    if (std::filesystem::exists(folder / candidate)) return folder / candidate;
  }
  fail("{}: has neither {}.gz nor {}", folder.string(), name, name);
}

NamedBytes find_file(const std::optional<std::filesystem::path>& folder, const std::string& name,
                     std::span<const std::uint8_t> embedded) {
  if (!folder) return {"embedded " + name, {}, embedded};
  const std::filesystem::path path = path_of(*folder, name);
  NamedBytes file{path.string(), read_file(path), {}};
  file.bytes = file.owned;
  return file;
}

Tensor read_images(const NamedBytes& file) {
  Tensor images = parse_idx(file.bytes, 3, file.name);
  check(images.size(1) == kSide && images.size(2) == kSide, "{}: holds images of {} x {}, expected {} x {}",
        file.name, images.size(1), images.size(2), kSide, kSide);
  return images;
}

Tensor read_labels(const NamedBytes& file) {
  const Tensor bytes = parse_idx(file.bytes, 1, file.name);
  const MemoryScope scope(MemoryCategory::data);
  Tensor labels = empty(bytes.shape(), DType::i64);
  const std::uint8_t* from = bytes.data<std::uint8_t>();
  std::int64_t* to = labels.data<std::int64_t>();
  for (std::int64_t i = 0; i < labels.elements(); ++i) {
    if (from[i] >= kClasses)
      fail("{}: label {} is {}, expected 0 to {}", file.name, i, from[i], kClasses - 1);
    to[i] = from[i];
  }
  return labels;
}

TensorDataset pair_up(const NamedBytes& image_file, const NamedBytes& label_file) {
  Tensor images = read_images(image_file);
  Tensor labels = read_labels(label_file);
  check(images.size(0) == labels.size(0), "{}: holds {} labels, expected one for each of the {} images of {}",
        label_file.name, labels.size(0), images.size(0), image_file.name);
  return {std::move(images), std::move(labels)};
}

}  // namespace

MnistData load_mnist(const std::optional<std::filesystem::path>& folder) {
  if (folder) {
    check(std::filesystem::is_directory(*folder), "{}: is not a folder, expected one with the MNIST files",
          folder->string());
  }
  const NamedBytes train_images = find_file(folder, kTrainImages, embedded::mnist_train_images());
  const NamedBytes train_labels = find_file(folder, kTrainLabels, embedded::mnist_train_labels());
  const NamedBytes test_images = find_file(folder, kTestImages, embedded::mnist_test_images());
  const NamedBytes test_labels = find_file(folder, kTestLabels, embedded::mnist_test_labels());
  return {pair_up(train_images, train_labels), pair_up(test_images, test_labels)};
}

std::vector<std::string> mnist_files(const std::filesystem::path& folder) {
  std::vector<std::string> files;
  for (const char* name : {kTrainImages, kTrainLabels, kTestImages, kTestLabels}) {
    files.push_back(path_of(folder, name).string());
  }
  return files;
}

Tensor mnist_input(const Tensor& images, DType dtype) {
  check(images.defined() && images.dtype() == DType::u8 && images.dims() == 3,
        "mnist_input: expected images u8[n, height, width], found {}", describe(images));
  Tensor x = empty({images.size(0), images.size(1) * images.size(2)}, dtype, images.device());
  add_work({.flops = 2 * x.elements(), .bytes = x.elements() + static_cast<std::int64_t>(x.bytes())});
  normalize_u8(Stream::current(x.device()), images.data<std::uint8_t>(), x.dtype(), x.raw(), x.elements(),
               kMnistMean, kMnistStd);
  return x;
}

}  // namespace ringtape
