#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"

/// MNIST (LeCun, Cortes, Burges): handwritten digits, 28 x 28 grey values from 0 (paper) to 255 (ink).
/// Programs that use this header link ringtape::ringtape_mnist, which contains the data.
namespace ringtape {

/// Mean and standard deviation of the training pixels after division by 255.
constexpr float kMnistMean = 0.1307f;
constexpr float kMnistStd = 0.3081f;

/// Features: u8 [N, 28, 28]. Targets: i64 [N], the digits 0 to 9.
struct MnistData {
  TensorDataset train;  ///< 60,000 samples where the data is MNIST's own
  TensorDataset test;   ///< 10,000
};

/// The copy that is part of the program or, with a folder, that folder's files train-images-idx3-ubyte,
/// train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, each plain or gzipped with
/// ".gz" added. Throws Error that names the file for one that is missing or damaged, images that are not 28 x
/// 28, unequal numbers of images and labels, and a label above 9.
MnistData load_mnist(const std::optional<std::filesystem::path>& folder = std::nullopt);

/// The four files that load_mnist() reads in a folder. Throws Error for one that is missing.
std::vector<std::string> mnist_files(const std::filesystem::path& folder);

/// Images u8 [n, 28, 28] as the input of a model: rows [n, 784] of mean 0 and standard deviation 1 over the
/// training set, f32, bf16 or f16.
Tensor mnist_input(const Tensor& images, DType dtype = DType::f32);

}  // namespace ringtape
