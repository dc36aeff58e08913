#include "data/idx.h"

#include "core/error.h"
#include "data/mnist.h"
#include "tests/support/catch.h"
#include "tests/support/gzip_text.h"
#include "tests/support/temporary_folder.h"

using namespace ringtape;
using std::string_literals::operator""s;

namespace {

std::string big_endian(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

std::string idx_header(std::uint32_t magic, const std::vector<std::uint32_t>& sizes) {
  std::string text = big_endian(magic);
  for (std::uint32_t size : sizes) text += big_endian(size);
  return text;
}

Tensor parse(const std::string& bytes, int dims) {
  return parse_idx({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}, dims, "FILE");
}

struct BadFile {
  const char* what;
  std::string bytes;
  const char* error;
};

std::string flip_bit(std::string bytes, std::size_t at) {
  bytes.at(at) = static_cast<char>(bytes[at] ^ 1);
  return bytes;
}

// Writes the four files of a tiny MNIST: `train` and 2 test samples.
void write_mnist(const TemporaryFolder& folder, const std::string& train_images,
                 const std::string& train_labels) {
  write_text(folder / "train-images-idx3-ubyte", train_images);
  write_text(folder / "train-labels-idx1-ubyte.gz", gzip_text(train_labels));
  write_text(folder / "t10k-images-idx3-ubyte.gz",
             gzip_text(idx_header(0x803, {2, 28, 28}) + std::string(2 * 28 * 28, '\1')));
  write_text(folder / "t10k-labels-idx1-ubyte", idx_header(0x801, {2}) + "\0\11"s);
}

std::string images(std::uint32_t count) {
  return idx_header(0x803, {count, 28, 28}) + std::string(count * 28 * 28, '\7');
}

}  // namespace

TEST_CASE("idx: plain and gzipped", "[idx]") {
  const std::string plain = idx_header(0x802, {2, 3}) + "\1\2\3\4\5\xff";
  const std::string members = gzip_text(plain.substr(0, 9)) + gzip_text("") + gzip_text(plain.substr(9));
  for (const std::string& bytes : {plain, gzip_text(plain), members, members + gzip_text("")}) {
    const Tensor values = parse(bytes, 2);
    CHECK(values.shape() == Shape{2, 3});
    CHECK(values.to_vector<std::uint8_t>() == std::vector<std::uint8_t>{1, 2, 3, 4, 5, 255});
  }
  const TemporaryFolder folder;
  CHECK(read_idx(write_text(folder / "x", plain), 2).to_vector<std::uint8_t>().back() == 255);
}

TEST_CASE("idx: damaged and inconsistent files", "[idx]") {
  const std::string good = idx_header(0x802, {2, 3}) + "\1\2\3\4\5\6";
  const std::string packed = gzip_text(good);
  const BadFile bad_files[] = {
      {"empty", "", "ends inside the magic number"},
      {"3 bytes", good.substr(0, 3), "ends inside the magic number"},
      {"no sizes", good.substr(0, 4), "ends inside the sizes of its dimensions"},
      {"half the sizes", good.substr(0, 10), "ends inside the sizes of its dimensions"},
      {"wrong magic", idx_header(0x12345678, {2, 3}) + "123456",
       "has the magic number 0x12345678, expected 0x00000802 (unsigned bytes, 2 dimensions)"},
      {"float elements", idx_header(0xD02, {2, 3}) + "123456",
       "has the magic number 0x00000D02, expected 0x00000802"},
      {"other number of dimensions", idx_header(0x803, {1, 2, 3}) + "123456",
       "has the magic number 0x00000803, expected 0x00000802"},
      {"little-endian magic", idx_header(0x02080000, {2, 3}) + "123456", "has the magic number 0x02080000"},
      {"size 0", idx_header(0x802, {0, 3}), "dimension 0 has the size 0, expected at least 1"},
      {"too short", good.substr(0, 17), "is 17 bytes long, expected 18 for shape [2, 3]"},
      {"trailing byte", good + "7", "is 19 bytes long, expected 18 for shape [2, 3]"},
      {"absurd size", idx_header(0x802, {4294967295, 3}) + "123456",
       "is too short for what it claims: dimension 0 has the size 4294967295"},
      {"sizes whose product wraps", idx_header(0x802, {2147483648, 4294967295}) + "123456", "is too short"},
      {"gzip: too short", gzip_text(good.substr(0, 17)),
       "holds 5 bytes of data, expected 6 for shape [2, 3]"},
      {"gzip: trailing byte", gzip_text(good + "7"), "has bytes after the 6 of shape [2, 3]"},
      {"gzip: absurd size", gzip_text(idx_header(0x802, {4294967295, 4294967295}) + "123456"),
       "is too short"},
      {"gzip: cut off", packed.substr(0, packed.size() - 9), "the gzip data is truncated"},
      {"gzip: no length", packed.substr(0, packed.size() - 4), "the gzip data is truncated"},
      {"gzip: only the first bytes", packed.substr(0, 2), "the gzip data is truncated"},
      {"gzip: wrong checksum", flip_bit(packed, packed.size() - 8), "the gzip data is damaged"},
      {"gzip: wrong length", flip_bit(packed, packed.size() - 4), "the gzip data is damaged"},
      {"gzip: wrong method", flip_bit(packed, 2), "the gzip data is damaged"},
      {"gzip: bytes after the end", packed + "x", "1 bytes follow the end of the gzip data"},
      {"gzip: two files in one", packed + packed, "has bytes after the 6 of shape [2, 3]"},
      {"gzip: a second member cut off", gzip_text(good.substr(0, 17)) + gzip_text("6").substr(0, 10),
       "the gzip data is truncated: it ends after unpacking 17 bytes"},
  };
  for (const BadFile& bad : bad_files) {
    INFO(bad.what);
    CHECK_THROWS_WITH(parse(bad.bytes, 2), ContainsSubstring(bad.error) && ContainsSubstring("FILE: "));
  }
  CHECK_THROWS_WITH(parse(good, 0), ContainsSubstring("0 dimensions requested, expected 1 to 4"));
  CHECK_THROWS_WITH(read_idx("/nonexistent/x", 2), ContainsSubstring("/nonexistent/x: cannot open"));
}

TEST_CASE("mnist: the copy in the program", "[mnist]") {
  const MnistData data = load_mnist();
  CHECK(data.train.all_features().shape() == Shape{60000, 28, 28});
  CHECK(data.test.all_features().shape() == Shape{10000, 28, 28});
  CHECK(data.train.all_targets().dtype() == DType::i64);

  // The well-known first and last labels, and the number of samples of each digit.
  const std::vector<std::int64_t> labels = data.train.all_targets().to_vector<std::int64_t>();
  CHECK(std::vector<std::int64_t>(labels.begin(), labels.begin() + 5) ==
        std::vector<std::int64_t>{5, 0, 4, 1, 9});
  CHECK(labels.back() == 8);
  CHECK(data.test.all_targets().to_vector<std::int64_t>().front() == 7);
  std::vector<int> counts(10);
  for (std::int64_t label : labels) ++counts[static_cast<std::size_t>(label)];
  CHECK(counts == std::vector<int>{5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949});

  // The constants for normalising equal the pixels' statistics.
  const std::uint8_t* pixels = data.train.all_features().data<std::uint8_t>();
  const std::int64_t n = data.train.all_features().elements();
  double sum = 0;
  double squares = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double value = pixels[i] / 255.0;
    sum += value;
    squares += value * value;
  }
  const double mean = sum / static_cast<double>(n);
  CHECK(mean == Approx(kMnistMean).margin(5e-5));
  CHECK(std::sqrt(squares / static_cast<double>(n) - mean * mean) == Approx(kMnistStd).margin(5e-5));
}

TEST_CASE("mnist: a folder", "[mnist]") {
  const TemporaryFolder folder;
  write_mnist(folder, images(3), idx_header(0x801, {3}) + "\1\2\3");
  const MnistData data = load_mnist(folder.path());
  CHECK(data.train.size() == 3);
  CHECK(data.train.all_features().to_vector<std::uint8_t>() == std::vector<std::uint8_t>(3 * 28 * 28, 7));
  CHECK(data.train.all_targets().to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 2, 3});
  CHECK(data.test.all_targets().to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 9});
  CHECK(mnist_files(folder.path()) ==
        std::vector<std::string>{folder / "train-images-idx3-ubyte", folder / "train-labels-idx1-ubyte.gz",
                                 folder / "t10k-images-idx3-ubyte.gz", folder / "t10k-labels-idx1-ubyte"});
}

TEST_CASE("mnist: a folder with mistakes", "[mnist]") {
  const TemporaryFolder folder;
  const std::string labels = idx_header(0x801, {3}) + "\1\2\3";
  CHECK_THROWS_WITH(load_mnist(folder / "none"), ContainsSubstring("is not a folder"));
  CHECK_THROWS_WITH(load_mnist(folder.path()),
                    ContainsSubstring("has neither train-images-idx3-ubyte.gz nor train-images-idx3-ubyte"));
  write_mnist(folder, images(3), idx_header(0x801, {3}) + "\1\12\3");
  CHECK_THROWS_WITH(load_mnist(folder.path()), ContainsSubstring("label 1 is 10, expected 0 to 9"));
  write_mnist(folder, images(4), labels);
  CHECK_THROWS_WITH(load_mnist(folder.path()),
                    ContainsSubstring("holds 3 labels, expected one for each of the 4 images"));
  write_mnist(folder, idx_header(0x803, {3, 14, 56}) + std::string(3 * 28 * 28, '\7'), labels);
  CHECK_THROWS_WITH(load_mnist(folder.path()),
                    ContainsSubstring("holds images of 14 x 56, expected 28 x 28"));
  write_mnist(folder, labels, labels);
  CHECK_THROWS_WITH(load_mnist(folder.path()),
                    ContainsSubstring("magic number 0x00000801, expected 0x00000803"));
}
