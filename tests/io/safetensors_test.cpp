#include "io/safetensors.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstdlib>
#include <numeric>

#include "core/error.h"
#include "core/half.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

using namespace ringtape;
using std::string_literals::operator""s;

namespace {

// The tensors of tests/golden/make_safetensors.py.
std::vector<NamedTensor> golden_tensors() {
  std::vector<float> sixteen(16);
  std::iota(sixteen.begin(), sixteen.end(), 0.0f);
  std::vector<bfloat16> brain;
  for (float value : {1.0f, -2.5f, 3.140625f, 256.0f}) brain.push_back(on_cpu::to_bfloat16(value));
  std::vector<float16> half;
  for (float value : {1.0f, -0.5f, 65504.0f, 6e-8f}) half.push_back(on_cpu::to_float16(value));
  return {
      {"0.weight", from_vector<float>({1.5f, -2.0f, 3.25f, 0.0f, 1e-30f, -7.0f}, {2, 3})},
      {"0.bias", from_vector<float>({0.1f, 0.2f}, {2})},
      {"double", from_vector<double>({3.141592653589793}, {})},
      {"brain", from_vector(brain, {4})},
      {"half", from_vector(half, {2, 2})},
      {"int", from_vector<std::int32_t>({1, -2, 2147483647}, {3})},
      {"long", from_vector<std::int64_t>({-1, 4611686018427387904}, {2})},
      {"byte", from_vector<std::uint8_t>({0, 1, 255}, {3})},
      {"none", empty({0, 3})},
      {"four", from_vector(sixteen, {2, 2, 2, 2})},
  };
}

const SafetensorsMetadata kGoldenMetadata = {{"format", "pt"}, {"note", "tests"}};

void check_golden(const SafetensorsFile& file) {
  CHECK(file.metadata() == kGoldenMetadata);
  const std::vector<NamedTensor> expected = golden_tensors();
  REQUIRE(file.entries().size() == expected.size());
  for (const auto& [name, tensor] : expected) {
    INFO(name);
    const Tensor found = file.load(name, tensor.dtype(), tensor.shape());
    CHECK(std::string(static_cast<const char*>(found.raw()), found.bytes()) ==
          std::string(static_cast<const char*>(tensor.raw()), tensor.bytes()));
  }
}

std::string length_field(std::uint64_t length) {
  return {reinterpret_cast<const char*>(&length), sizeof length};
}

std::string file_text(const std::string& header, std::size_t data_bytes = 0) {
  return length_field(header.size()) + header + std::string(data_bytes, '\0');
}

std::string error_of_file(const std::filesystem::path& path) {
  return test::error_of([&] { SafetensorsFile file(path); });
}

struct BadFile {
  const char* what;
  std::string bytes;
  const char* error;
};

const char* const kNested = R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})";

std::string tensor_header(const std::string& fields) {
  return R"({"a":{)" + fields + "}}";
}

const BadFile kBadFiles[] = {
    {"empty file", "", "is 0 bytes long, expected at least 8"},
    {"7 bytes", "1234567", "is 7 bytes long, expected at least 8"},
    {"header beyond the file", length_field(100) + "{}", "claims a header of 100 bytes, but only 2 follow"},
    {"header one byte beyond the file", length_field(3) + "{}",
     "claims a header of 3 bytes, but only 2 follow"},
    {"header of 100 MB and one", length_field(100'000'001) + "{}", "claims a header of 100000001 bytes"},
    {"header of 2^64 - 1", length_field(~0ull) + "{}", "claims a header of 18446744073709551615 bytes"},
    {"no header", file_text(""), "the header begins with '', expected '{'"},
    {"blank first", file_text(" {}"), "the header begins with ' ', expected '{'"},
    {"an array", file_text("[]"), "the header begins with '['"},
    {"broken JSON", file_text(R"({"a")"), "not valid JSON: parse error at line 1, column 5"},
    {"text after the JSON", file_text("{}x"), "not valid JSON: parse error at line 1, column 3"},
    {"text after a zero byte", file_text("{}\0x"s), "not valid JSON at its byte 3: a zero byte"},
    {"bytes that are not UTF-8", file_text("{\"\xff\":{}}"), "not valid JSON"},
    {"value is a number", file_text(R"({"a":1})"), "the value of 'a' is a number, expected an object"},
    {"value is an array", file_text(R"({"a":[]})"), "the value of 'a' is an array, expected an object"},
    {"same name twice",
     file_text(
         R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"),
     "the name 'a' occurs twice"},
    {"same name twice, once escaped",
     file_text(
         R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"\u0061":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"),
     "the name 'a' occurs twice"},
    {"metadata not an object", file_text(R"({"__metadata__":"x"})"), "is a string, expected an object"},
    {"metadata not of strings", file_text(R"({"__metadata__":{"a":1}})"), "metadata key 'a' is a number"},
    {"metadata nested", file_text(R"({"__metadata__":{"a":{}}})"), "metadata key 'a' is an object"},
    {"metadata key twice", file_text(R"({"__metadata__":{"a":"1","a":"2"}})"), "the name 'a' occurs twice"},
    {"no dtype", file_text(tensor_header(R"("shape":[1],"data_offsets":[0,4])"), 4),
     "tensor 'a' has no dtype"},
    {"no shape", file_text(tensor_header(R"("dtype":"F32","data_offsets":[0,4])"), 4),
     "tensor 'a' has no shape"},
    {"no offsets", file_text(tensor_header(R"("dtype":"F32","shape":[1])"), 4),
     "tensor 'a' has no data_offsets"},
    {"an empty object", file_text(R"({"a":{}})"), "tensor 'a' has no dtype"},
    {"an unknown key", file_text(tensor_header(R"("kind":"F32")")), "has a string under the key 'kind'"},
    {"dtype twice", file_text(tensor_header(R"("dtype":"F32","dtype":"F32")")),
     "the name 'dtype' occurs twice"},
    {"shape twice", file_text(tensor_header(R"("shape":[1],"shape":[1])")), "the name 'shape' occurs twice"},
    {"dtype is a number", file_text(tensor_header(R"("dtype":32)")), "a number under the key 'dtype'"},
    {"dtype is null", file_text(tensor_header(R"("dtype":null)")), "null under the key 'dtype'"},
    {"shape is a string", file_text(tensor_header(R"("shape":"1")")), "a string under the key 'shape'"},
    {"shape holds a string", file_text(tensor_header(R"("shape":["1"])")), "has a string in its shape"},
    {"shape holds a bool", file_text(tensor_header(R"("shape":[true])")), "has true or false in its shape"},
    {"shape holds an array", file_text(kNested, 4), "has an array in its shape"},
    {"negative size", file_text(tensor_header(R"("shape":[-1])")),
     "has '-1' in its shape, expected integers from 0"},
    {"fraction", file_text(tensor_header(R"("shape":[1.0])")),
     "has '1.0' in its shape, expected integers from 0"},
    {"size of 2^63", file_text(tensor_header(R"("shape":[9223372036854775808])")), "more than 2^63 - 1"},
    {"size of 10^30", file_text(tensor_header(R"("shape":[1000000000000000000000000000000])")),
     "has '1e+30' in its shape"},
    {"5 dimensions", file_text(tensor_header(R"("shape":[1,1,1,1,1])")),
     "has more than 4 numbers in its shape"},
    {"3 offsets", file_text(tensor_header(R"("data_offsets":[0,4,4])")),
     "more than 2 numbers in its data_offsets"},
    {"1 offset", file_text(tensor_header(R"("dtype":"F32","shape":[1],"data_offsets":[4])"), 4),
     "has 1 data_offsets, expected 2"},
    {"product beyond 2^63",
     file_text(tensor_header(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4])"), 4),
     "has the shape [4294967296, 4294967296]: more than 2^63 - 1 bytes"},
    {"product beyond 2^63 beside a 0",
     file_text(tensor_header(R"("dtype":"F32","shape":[0,4294967296,4294967296],"data_offsets":[0,0])")),
     "more than 2^63 - 1 bytes"},
    {"product of 2^63 beside a 0",
     file_text(tensor_header(R"("dtype":"U8","shape":[0,4294967296,2147483648],"data_offsets":[0,0])")),
     "more than 2^63 - 1 bytes"},
    {"product that wraps to 4 bytes",
     file_text(tensor_header(R"("dtype":"F32","shape":[4611686018427387905],"data_offsets":[0,4])"), 4),
     "more than 2^63 - 1 bytes"},
    {"offsets reversed", file_text(tensor_header(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"), 4),
     "has the data_offsets [4, 0]: expected a range of the 4 bytes"},
    {"offsets beyond the file",
     file_text(tensor_header(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])"), 4),
     "has the data_offsets [0, 8]: expected a range of the 4 bytes"},
    {"bytes do not fit the shape",
     file_text(tensor_header(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), 4),
     "tensor 'a' of dtype F32 has 4 bytes of data, expected 8 for shape [2]"},
    {"bytes do not fit the dtype",
     file_text(tensor_header(R"("dtype":"F64","shape":[1],"data_offsets":[0,4])"), 4),
     "tensor 'a' of dtype F64 has 4 bytes of data, expected 8 for shape [1]"},
    {"a hole at the start", file_text(tensor_header(R"("dtype":"U8","shape":[1],"data_offsets":[1,2])"), 2),
     "begins at data byte 1, expected 0: tensors leave a hole"},
    {"trailing bytes", file_text(tensor_header(R"("dtype":"U8","shape":[1],"data_offsets":[0,1])"), 3),
     "has 3 bytes of data, but its tensors take 1"},
    {"data and no tensor", file_text("{}", 1), "has 1 bytes of data, but its tensors take 0"},
    {"overlap",
     file_text(
         R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
         3),
     "tensor 'b' begins at data byte 1, expected 2: tensors overlap"},
    {"the same bytes twice",
     file_text(
         R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
         2),
     "tensors overlap"},
    {"a name with control characters", file_text("{\"a\\n\\u0000b\":1}"),
     "the value of 'a\\x0a\\x00b' is a number"},
};

}  // namespace

TEST_CASE("safetensors: a file from Python's library", "[safetensors]") {
  check_golden(SafetensorsFile(RINGTAPE_TEST_DATA "/python.safetensors"));
}

TEST_CASE("safetensors: what is saved can be read", "[safetensors]") {
  const TemporaryFolder folder;
  // tests/golden/make_safetensors.py checks that Python can read it too.
  const char* const keep = std::getenv("RINGTAPE_KEEP_SAFETENSORS");
  const std::filesystem::path path = keep ? keep : folder / "x.safetensors";
  save_safetensors(path, golden_tensors(), kGoldenMetadata);
  const SafetensorsFile file(path);
  check_golden(file);
  for (const SafetensorsFile::Entry& entry : file.entries()) {
    INFO(entry.name);
    CHECK(entry.offset % size_of(entry.dtype.value()) == 0);
  }
}

TEST_CASE("safetensors: the bytes of a small file", "[safetensors]") {
  const TemporaryFolder folder;
  save_safetensors(folder / "x", {{"b", from_vector<std::int32_t>({1, -1}, {2})}});
  const std::string header = R"({"b":{"dtype":"I32","shape":[2],"data_offsets":[0,8]}})";
  REQUIRE(header.size() == 54);
  CHECK(read_text(folder / "x") ==
        length_field(56) + header + "  " + std::string("\1\0\0\0\xff\xff\xff\xff", 8));

  save_safetensors(folder / "x", {});
  CHECK(read_text(folder / "x") == length_field(8) + "{}      ");
  CHECK(SafetensorsFile(folder / "x").entries().empty());
}

TEST_CASE("safetensors: damaged and inconsistent files", "[safetensors]") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "x.safetensors";
  for (const BadFile& bad : kBadFiles) {
    INFO(bad.what);
    write_text(path, bad.bytes);
    const std::string error = error_of_file(path);
    CHECK_THAT(error, ContainsSubstring(bad.error));
    CHECK_THAT(error, ContainsSubstring(path.string()));
    CHECK(error.find('\n') == std::string::npos);
  }
}

TEST_CASE("safetensors: a tensor of another dtype is an entry that cannot be loaded", "[safetensors]") {
  const TemporaryFolder folder;
  write_text(folder / "x", file_text(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[3,7]},)"
                                     R"("mask":{"dtype":"BOOL","shape":[1,3],"data_offsets":[0,3]}})",
                                     7));
  const SafetensorsFile file(folder / "x");
  REQUIRE(file.entries().size() == 2);
  CHECK_FALSE(file.entry("mask").dtype.has_value());
  CHECK(file.entry("mask").shape == Shape{1, 3});
  CHECK(file.load("a").item() == 0);
  CHECK_THROWS_WITH(file.load("mask"), ContainsSubstring("tensor 'mask' is 'BOOL', expected F32"));
  CHECK_THROWS_WITH(file.load("mask", DType::u8, {1, 3}),
                    ContainsSubstring("tensor 'mask' is 'BOOL'[1, 3], expected u8[1, 3]"));
  write_text(folder / "x", file_text(R"({"mask":{"dtype":"BOOL","shape":[1,3],"data_offsets":[0,3]}})", 7));
  CHECK_THROWS_WITH(SafetensorsFile(folder / "x"), ContainsSubstring("its tensors take 3"));
}

TEST_CASE("safetensors: every truncation of a file is an error", "[safetensors]") {
  const TemporaryFolder folder;
  const std::string whole = read_text(RINGTAPE_TEST_DATA "/python.safetensors");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    INFO(length);
    CHECK_FALSE(error_of_file(write_text(folder / "x", whole.substr(0, length))).empty());
  }
}

TEST_CASE("safetensors: deep nesting is refused at once", "[safetensors]") {
  const TemporaryFolder folder;
  const std::string deep = R"({"a":{"shape":)" + std::string(1'000'000, '[');
  CHECK_THAT(error_of_file(write_text(folder / "x", file_text(deep))),
             ContainsSubstring("its values are nested more than 64 deep"));
}

TEST_CASE("safetensors: things that are not regular files", "[safetensors]") {
  const TemporaryFolder folder;
  CHECK_THAT(error_of_file(folder / "missing"), ContainsSubstring("cannot open: No such file or directory"));
  CHECK_THAT(error_of_file(folder.path()), ContainsSubstring("is not a regular file"));
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THAT(error_of_file(folder / "pipe"), ContainsSubstring("is not a regular file"));
  CHECK_THROWS_WITH(save_safetensors("/dev/full", golden_tensors()),
                    ContainsSubstring("is not a regular file"));
  CHECK_THROWS_WITH(save_safetensors(folder.path(), golden_tensors()),
                    ContainsSubstring("is not a regular file"));
  CHECK_THROWS_WITH(save_safetensors(folder / "no" / "x", golden_tensors()),
                    ContainsSubstring("cannot write: No such file or directory"));
}

TEST_CASE("safetensors: load_into needs the same names, dtypes and shapes", "[safetensors]") {
  const TemporaryFolder folder;
  const Tensor a = from_vector<float>({1, 2, 3, 4}, {2, 2});
  const Tensor b = from_vector<std::int64_t>({5}, {1});
  save_safetensors(folder / "x", {{"a", a}, {"b", b}});
  const SafetensorsFile file(folder / "x");

  const Tensor to_a = from_vector<float>({0, 0, 0, 0}, {2, 2});
  const Tensor to_b = from_vector<std::int64_t>({0}, {1});
  CHECK_THROWS_WITH(file.load_into({{"a", to_a}}),
                    ContainsSubstring("has a tensor 'b' that the model lacks"));
  CHECK_THROWS_WITH(file.load_into({{"a", to_a}, {"b", to_b}, {"c", b}}),
                    ContainsSubstring("has no tensor 'c' among its 2"));
  CHECK_THROWS_WITH(file.load_into({{"a", to_a}, {"b", empty({1}, DType::i32)}}),
                    ContainsSubstring("tensor 'b' is i64[1], expected i32[1]"));
  CHECK_THROWS_WITH(file.load_into({{"a", empty({4})}, {"b", to_b}}),
                    ContainsSubstring("tensor 'a' is f32[2, 2], expected f32[4]"));
  CHECK_THROWS_WITH(file.load_into({{"a", to_a}, {"a", to_a}, {"b", to_b}}),
                    ContainsSubstring("'a' is undefined or given twice"));
  CHECK(to_a.to_vector<float>() == std::vector<float>{0, 0, 0, 0});  // nothing was changed so far

  const std::uint64_t version = to_a.storage()->version;
  file.load_into({{"b", to_b}, {"a", to_a}});
  CHECK(to_a.to_vector<float>() == a.to_vector<float>());
  CHECK(to_b.to_vector<std::int64_t>() == b.to_vector<std::int64_t>());
  CHECK(to_a.storage()->version == version + 1);
}

TEST_CASE("safetensors: names that cannot be saved", "[safetensors]") {
  const TemporaryFolder folder;
  const Tensor x = empty({1});
  CHECK_THROWS_WITH(save_safetensors(folder / "x", {{"a", x}, {"a", x}}),
                    ContainsSubstring("'a' is used twice"));
  CHECK_THROWS_WITH(save_safetensors(folder / "x", {{"__metadata__", x}}), ContainsSubstring("is reserved"));
  CHECK_THROWS_WITH(save_safetensors(folder / "x", {{"\xff", x}}), ContainsSubstring("not valid UTF-8"));
  CHECK_THROWS_WITH(save_safetensors(folder / "x", {{"a", Tensor()}}),
                    ContainsSubstring("tensor 'a' is undefined"));
  CHECK(folder.names().empty());
}

TEST_CASE("safetensors: a full disk leaves the old file and nothing else", "[safetensors]") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "x.safetensors";
  save_safetensors(path, {{"a", from_vector<float>({1, 2}, {2})}});
  const std::string before = read_text(path);

  // A limit on the size of files stands in for the full disk: write() fails half-way in the same manner.
  rlimit old_limit{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &old_limit) == 0);
  const auto old_handler = signal(SIGXFSZ, SIG_IGN);
  rlimit limit = old_limit;
  limit.rlim_cur = 64 * 1024;
  REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  std::string error = "no error";
  try {
    save_safetensors(path, {{"a", empty({1000, 1000})}});
  } catch (const Error& thrown) {
    error = thrown.what();
  }
  REQUIRE(setrlimit(RLIMIT_FSIZE, &old_limit) == 0);
  signal(SIGXFSZ, old_handler);

  CHECK_THAT(error, ContainsSubstring("cannot write: File too large"));
  CHECK(read_text(path) == before);
  CHECK(folder.names() == std::vector<std::string>{"x.safetensors"});
}

TEST_CASE("safetensors: saving over a file, and through a link", "[safetensors]") {
  const TemporaryFolder folder;
  save_safetensors(folder / "x", {{"a", from_vector<float>({1}, {1})}});
  std::filesystem::create_symlink("x", folder / "link");
  save_safetensors(folder / "link", {{"a", from_vector<float>({2}, {1})}});
  CHECK(std::filesystem::is_symlink(folder / "link"));
  CHECK(SafetensorsFile(folder / "x").load("a").to_vector<float>() == std::vector<float>{2});
  CHECK(folder.names() == std::vector<std::string>{"link", "x"});
  // A link to a file that is not there yet, over another link, and links in a circle.
  std::filesystem::create_directory(folder / "inner");
  std::filesystem::create_symlink("../new", folder / "inner/second");
  std::filesystem::create_symlink("inner/second", folder / "first");
  save_safetensors(folder / "first", {{"a", from_vector<float>({3}, {1})}});
  CHECK(std::filesystem::is_symlink(folder / "first"));
  CHECK(SafetensorsFile(folder / "new").load("a").item() == 3);
  CHECK(folder.names() == std::vector<std::string>{"first", "inner", "link", "new", "x"});
  std::filesystem::create_symlink("circle", folder / "circle");
  CHECK_THROWS_WITH(save_safetensors(folder / "circle", {}), ContainsSubstring("the links form a cycle"));
}
