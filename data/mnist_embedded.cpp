#include "data/mnist_embedded.h"

// The assembler copies a file into the read-only data between two symbols. A C++ array of the same bytes
// would be 50 MB of source.
#define EMBED(symbol, file)                                                  \
  asm(".pushsection .rodata\n"                                               \
      ".global ringtape_" symbol "_begin, ringtape_" symbol                  \
      "_end\n"                                                               \
      "ringtape_" symbol "_begin: .incbin \"" RINGTAPE_MNIST_FOLDER "/" file \
      "\"\n"                                                                 \
      "ringtape_" symbol                                                     \
      "_end: .byte 0\n"                                                      \
      ".popsection\n")

EMBED("train_images", "train-images-idx3-ubyte.gz");
EMBED("train_labels", "train-labels-idx1-ubyte.gz");
EMBED("test_images", "t10k-images-idx3-ubyte.gz");
EMBED("test_labels", "t10k-labels-idx1-ubyte.gz");

extern "C" {
extern const std::uint8_t ringtape_train_images_begin[], ringtape_train_images_end[];
extern const std::uint8_t ringtape_train_labels_begin[], ringtape_train_labels_end[];
extern const std::uint8_t ringtape_test_images_begin[], ringtape_test_images_end[];
extern const std::uint8_t ringtape_test_labels_begin[], ringtape_test_labels_end[];
}

namespace ringtape::embedded {

std::span<const std::uint8_t> mnist_train_images() {
  return {ringtape_train_images_begin, ringtape_train_images_end};
}
std::span<const std::uint8_t> mnist_train_labels() {
  return {ringtape_train_labels_begin, ringtape_train_labels_end};
}
std::span<const std::uint8_t> mnist_test_images() {
  return {ringtape_test_images_begin, ringtape_test_images_end};
}
std::span<const std::uint8_t> mnist_test_labels() {
  return {ringtape_test_labels_begin, ringtape_test_labels_end};
}

}  // namespace ringtape::embedded
