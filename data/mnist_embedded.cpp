#include "data/mnist_embedded.h"

#include "io/embed.h"

RINGTAPE_EMBED(ringtape_train_images, RINGTAPE_MNIST_FOLDER "/train-images-idx3-ubyte.gz");
RINGTAPE_EMBED(ringtape_train_labels, RINGTAPE_MNIST_FOLDER "/train-labels-idx1-ubyte.gz");
RINGTAPE_EMBED(ringtape_test_images, RINGTAPE_MNIST_FOLDER "/t10k-images-idx3-ubyte.gz");
RINGTAPE_EMBED(ringtape_test_labels, RINGTAPE_MNIST_FOLDER "/t10k-labels-idx1-ubyte.gz");

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
