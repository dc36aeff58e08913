#pragma once

#include <cstdint>
#include <span>

/// The four gzipped IDX files of data/mnist, as part of the program.
namespace ringtape::embedded {

std::span<const std::uint8_t> mnist_train_images();
std::span<const std::uint8_t> mnist_train_labels();
std::span<const std::uint8_t> mnist_test_images();
std::span<const std::uint8_t> mnist_test_labels();

}  // namespace ringtape::embedded
