#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>
#include <tuple>

#include "autograd/ops.h"
#include "core/device.h"
#include "core/error.h"
#include "core/half.h"
#include "core/memory.h"
#include "core/random.h"
#include "core/stream.h"
#include "core/tensor.h"
#include "tests/support/catch.h"
#include "tests/support/gpu.h"
#include "tests/support/tensors.h"

namespace ringtape::test {
namespace {

using Values = std::vector<double>;

// ---- shapes ----

TEST_CASE("a shape knows its sizes and its number of elements", "[core]") {
  const Shape shape{2, 3, 4};
  CHECK(shape.dims() == 3);
  CHECK(shape.elements() == 24);
  CHECK(shape[0] == 2);
  CHECK(shape[-1] == 4);
  CHECK(to_string(shape) == "[2, 3, 4]");
  CHECK(shape == Shape{2, 3, 4});
  CHECK_FALSE(shape == Shape{2, 3});
  CHECK_FALSE(shape == Shape{2, 3, 5});

  CHECK(Shape{}.elements() == 1);  // a scalar
  CHECK(to_string(Shape{}) == "[]");
  CHECK(Shape{5, 0, 3}.elements() == 0);

  CHECK(shape.with(1, 7) == Shape{2, 7, 4});
  CHECK(shape.with(-1, 0) == Shape{2, 3, 0});
  CHECK(shape.without(0) == Shape{3, 4});
  CHECK(shape.without(-1) == Shape{2, 3});
  CHECK(shape.inserted(0, 9) == Shape{9, 2, 3, 4});
  CHECK(shape.inserted(3, 9) == Shape{2, 3, 4, 9});
}

TEST_CASE("invalid shapes are refused", "[core]") {
  constexpr std::int64_t huge = std::int64_t{1} << 40;
  CHECK_THROWS_WITH((Shape{1, 2, 3, 4, 5}),
                    ContainsSubstring("[1, 2, 3, 4, 5] has 5 dimensions: expected at most 4"));
  CHECK_THROWS_WITH((Shape{2, -3}), ContainsSubstring("[2, -3] has the negative size -3"));
  CHECK_THROWS_WITH((Shape{huge, huge}), ContainsSubstring("more elements than fit in 63 bits"));
  CHECK_THROWS_WITH((Shape{huge, 0, huge}), ContainsSubstring("63 bits"));  // so that no product can overflow
  CHECK_THROWS_WITH((Shape{2, 3}[2]), ContainsSubstring("dimension 2 is out of range for shape [2, 3]"));
  CHECK_THROWS_WITH((Shape{2, 3}[-3]), ContainsSubstring("dimension -3"));
  CHECK_THROWS_WITH((Shape{1, 2, 3, 4}.inserted(0, 1)), ContainsSubstring("no room"));
  CHECK_THROWS_WITH((Shape{1, 2}.inserted(3, 1)), ContainsSubstring("out of range"));
}

// ---- tensors ----

TEST_CASE("a tensor is a handle: copies see the same elements", "[core]") {
  const Tensor a = tensor_of({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor b = a;
  b.data<float>()[4] = 50;
  CHECK(a.to_doubles() == Values{1, 2, 3, 4, 50, 6});
  CHECK(a.detach().raw() == a.raw());
  CHECK(a.bytes() == 24);

  const Tensor row = a.alias({3}, 3);
  CHECK(row.to_doubles() == Values{4, 50, 6});
  row.data<float>()[0] = 40;
  CHECK(a.to_doubles()[3] == 40);
  CHECK(row.alias({1}, 2).item() == 6);
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  CHECK_THROWS_WITH(row.alias({2}, kMost), ContainsSubstring("is outside of"));
  CHECK_THROWS_WITH(Tensor(a.storage(), {2}, DType::f32, kMost),
                    ContainsSubstring("does not fit its storage"));
  CHECK(a.alias({3, 2}).shape() == Shape{3, 2});
  CHECK_THROWS_WITH(a.alias({4}, 3), ContainsSubstring("[4] at offset 3 is outside of f32[2, 3] on cpu"));
  CHECK_THROWS_AS(a.alias({1}, -1), Error);
}

template <class T>
void check_round_trip(const std::vector<T>& values) {
  const Tensor x = from_vector(values, {static_cast<std::int64_t>(values.size())});
  CHECK(x.dtype() == dtype_of<T>);
  const std::vector<T> back = x.to_vector<T>();
  CHECK(std::memcmp(back.data(), values.data(), values.size() * sizeof(T)) == 0);
}

TEST_CASE("elements go to a tensor and back unchanged", "[core]") {
  check_round_trip<float>({1.5f, -0.0f, 1e-45f, INFINITY});
  check_round_trip<double>({1.5, -1e308});
  check_round_trip<bfloat16>({{0x3fc0}, {0xffff}});
  check_round_trip<float16>({{0x3e00}, {0x0001}});
  check_round_trip<std::int32_t>({-5, 1 << 30});
  check_round_trip<std::int64_t>({-5, std::int64_t{1} << 60});
  check_round_trip<std::uint8_t>({0, 255});
  CHECK(from_vector(std::vector<float>{}, {0, 3}).to_vector<float>().empty());
  CHECK(from_vector(std::vector<bfloat16>{{0x3fc0}}, {1}).item() == 1.5);
  CHECK(from_vector(std::vector<float16>{{0x3e00}}, {}).item() == 1.5);
}

TEST_CASE("misuse of a tensor names what was found and expected", "[core]") {
  const Tensor x = tensor_of({1, 2, 3}, {3});
  CHECK_THROWS_WITH(from_vector(std::vector<float>{1, 2}, {3}),
                    ContainsSubstring("2 values were given for shape [3]"));
  CHECK_THROWS_WITH(x.data<double>(),
                    ContainsSubstring("f32[3] on cpu") && ContainsSubstring("requested as f64"));
  CHECK_THROWS_WITH(x.to_vector<std::int32_t>(), ContainsSubstring("requested as i32"));
  CHECK_THROWS_WITH(x.item(), ContainsSubstring("item() needs one element: the tensor is f32[3]"));
  CHECK_THROWS_WITH(Tensor(x).copy_from(tensor_of({1}, {1})),
                    ContainsSubstring("cannot copy f32[1] on cpu into f32[3]"));
  CHECK_THROWS_WITH(Tensor(x).copy_from(tensor_of({1, 2, 3}, {3}, DType::f64)), ContainsSubstring("f64[3]"));
  CHECK_THROWS_WITH(Tensor().raw(), ContainsSubstring("undefined"));
  CHECK_THROWS_WITH(Tensor().device(), ContainsSubstring("undefined"));
  CHECK_THROWS_AS(empty({std::int64_t{1} << 61}, DType::f64), OutOfMemoryError);  // 2^64 bytes
  CHECK(describe(Tensor()) == "an undefined tensor");
  CHECK(Tensor().elements() == 0);
  CHECK(Tensor().bytes() == 0);
  CHECK(!std::signbit(tensor_of({-std::nan("")}, {}).item()));  // it would be printed as -nan
}

TEST_CASE("copy_from copies and counts as a change", "[core]") {
  Tensor x = tensor_of({1, 2, 3}, {3});
  const std::uint64_t version = x.storage()->version;
  x.copy_from(tensor_of({4, 5, 6}, {3}));
  CHECK(x.to_doubles() == Values{4, 5, 6});
  CHECK(x.storage()->version == version + 1);
}

TEST_CASE("tensors print as in PyTorch", "[core]") {
  CHECK(to_string(tensor_of({1, 2.5, -3}, {3})) ==
        "tensor([ 1.0000,  2.5000, -3.0000], shape=[3], dtype=f32, device=cpu)");
  CHECK(to_string(tensor_of({1, 2, 3, 40}, {2, 2}, DType::i64)) ==
        "tensor([[ 1,  2],\n"
        "        [ 3, 40]], shape=[2, 2], dtype=i64, device=cpu)");
  CHECK(to_string(arange(0, 8, 1, DType::u8).alias({2, 2, 2})) ==
        "tensor([[[0, 1],\n"
        "         [2, 3]],\n"
        "        [[4, 5],\n"
        "         [6, 7]]], shape=[2, 2, 2], dtype=u8, device=cpu)");
  CHECK(to_string(tensor_of({3.5}, {})) == "tensor(3.5000, shape=[], dtype=f32, device=cpu)");
  CHECK(to_string(tensor_of({1e10, 1}, {2})) ==
        "tensor([1.0000e+10, 1.0000e+00], shape=[2], dtype=f32, device=cpu)");
  CHECK(to_string(from_vector(std::vector<double>{-1, 1e-100}, {2})) ==
        "tensor([-1.0000e+00, 1.0000e-100], shape=[2], dtype=f64, device=cpu)");
  CHECK(to_string(from_vector(std::vector<double>{1, 1e-100}, {2})) ==
        "tensor([ 1.0000e+00, 1.0000e-100], shape=[2], dtype=f64, device=cpu)");
  CHECK(to_string(tensor_of({2e-5, 0}, {2})) ==
        "tensor([2.0000e-05, 0.0000e+00], shape=[2], dtype=f32, device=cpu)");
  CHECK(to_string(tensor_of({INFINITY, NAN, 1}, {3}, DType::bf16)) ==
        "tensor([   inf,    nan, 1.0000], shape=[3], dtype=bf16, device=cpu)");
  CHECK(to_string(zeros({0, 3})) == "tensor([], shape=[0, 3], dtype=f32, device=cpu)");
  CHECK(to_string(arange(0, 2000, 1, DType::i32)) ==
        "tensor([   0,    1,    2, ..., 1997, 1998, 1999], shape=[2000], dtype=i32, device=cpu)");
  CHECK_THAT(
      to_string(arange(0, 1600, 1, DType::i32).alias({40, 40})),
      ContainsSubstring("[[   0,    1,    2, ...,   37,   38,   39],\n") &&
          ContainsSubstring("[  80,   81,   82, ...,  117,  118,  119],\n        ...,\n        [1480,"));
  CHECK(to_string(Tensor()) == "tensor(undefined)");
}

TEST_CASE("dtypes have sizes and names", "[core]") {
  using enum DType;
  const std::tuple<DType, std::string, std::size_t> types[] = {
      {f32, "f32", 4}, {f64, "f64", 8}, {bf16, "bf16", 2}, {f16, "f16", 2},
      {i32, "i32", 4}, {i64, "i64", 8}, {u8, "u8", 1}};
  for (const auto& [dtype, name, size] : types) {
    CHECK(name_of(dtype) == name);
    CHECK(size_of(dtype) == size);
    CHECK(is_floating(dtype) == (name.find('f') != std::string::npos));
  }
}

// ---- 16-bit formats ----

TEST_CASE("f16 is sign, exponent and mantissa as IEEE 754 says", "[core]") {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const int exponent = static_cast<int>(bits >> 10 & 31), mantissa = static_cast<int>(bits & 1023);
    double expected = exponent == 0    ? std::ldexp(mantissa, -24)
                      : exponent == 31 ? (mantissa == 0 ? INFINITY : NAN)
                                       : std::ldexp(1024 + mantissa, exponent - 25);
    if (bits & 0x8000) expected = -expected;
    const float found = on_cpu::to_float(float16{static_cast<std::uint16_t>(bits)});
    if (!is_close(found, expected, 0))
      FAIL("f16 " << bits << " becomes " << found << ", expected " << expected);
    // and back to the same bits, but for NaN
    if (!std::isnan(expected) && on_cpu::to_float16(found).bits != bits)
      FAIL("f16 " << bits << " does not come back");
  }
}

TEST_CASE("ties go to even, overflow to infinity, and subnormals of f16 are kept", "[core]") {
  const auto f16 = [](double value) {
    return on_cpu::to_float(on_cpu::to_float16(static_cast<float>(value)));
  };
  const auto bf16 = [](double value) {
    return on_cpu::to_float(on_cpu::to_bfloat16(static_cast<float>(value)));
  };
  CHECK(f16(2049) == 2048);  // between 2048 and 2050
  CHECK(f16(2051) == 2052);  // between 2050 and 2052
  CHECK(f16(65519) == 65504);
  CHECK(f16(65520) == INFINITY);
  CHECK(f16(-1e6) == -INFINITY);
  CHECK(f16(0x1p-24) == 0x1p-24f);  // the smallest
  CHECK(f16(0x1p-25) == 0);         // half of it: to even
  CHECK(f16(0x1.8p-24) == 0x1p-23f);
  CHECK(f16(0x1.004p-25) == 0x1p-24f);
  CHECK(bf16(257) == 256);  // between 256 and 258
  CHECK(bf16(259) == 260);
  CHECK(bf16(3.4e38) == INFINITY);
  CHECK(bf16(1e-45) == 0);
  CHECK(std::isnan(f16(NAN)));
  CHECK(std::isnan(bf16(NAN)));
  CHECK(std::isnan(
      on_cpu::to_float(on_cpu::to_bfloat16(on_cpu::float_from_bits(0x7f800001)))));  // all payload cut off
  CHECK(std::signbit(f16(-0.0)));
  CHECK(std::signbit(bf16(-0.0)));
}

// ---- random numbers ----

TEST_CASE(
    "a seed fixes the results of rand and randn, and each operation continues where the last one stopped",
    "[core]") {
  manual_seed(7);
  const Values first = rand({1000}).to_doubles();
  const Values second = rand({1000}).to_doubles();
  manual_seed(7);
  CHECK(rand({1000}).to_doubles() == first);
  CHECK(rand({1000}).to_doubles() == second);
  CHECK(first != second);
  manual_seed(8);
  CHECK(rand({1000}).to_doubles() != first);

  Generator generator(7);
  CHECK(rand({1000}, DType::f32, {}, 0, 1, generator).to_doubles() == first);
  CHECK(generator.offset == 250);  // four values a counter
  rand({5}, DType::f32, {}, 0, 1, generator);
  CHECK(generator.offset == 252);
  // A longer tensor starts with the values of a shorter one.
  Generator again(7);
  Values longer = rand({1001}, DType::f32, {}, 0, 1, again).to_doubles();
  longer.pop_back();
  CHECK(longer == first);

  manual_seed(7);
  const Values normal = randn({1000}).to_doubles();
  manual_seed(7);
  CHECK(randn({1000}).to_doubles() == normal);
}

TEST_CASE("rand and randn have the moments of their distributions", "[core]") {
  manual_seed(3);
  const std::int64_t n = 1 << 18;
  const auto moments = [&](const Tensor& x) {
    double sum = 0, squares = 0;
    for (double value : x.to_doubles()) {
      sum += value;
      squares += value * value;
    }
    const double mean = sum / n;
    return std::pair(mean, squares / n - mean * mean);
  };
  const double deviations =
      5 / std::sqrt(n);  // of a mean of n; more than 5 deviations: once in two million runs
  const Tensor uniform = rand({n}, DType::f32, {}, -1, 3);
  const auto [uniform_mean, uniform_variance] = moments(uniform);
  CHECK(std::abs(uniform_mean - 1) < deviations * 4 / std::sqrt(12));
  CHECK(std::abs(uniform_variance - 16.0 / 12) < deviations * 16 / std::sqrt(180));
  CHECK(largest_of(uniform.to_doubles()) < 3);
  const auto [normal_mean, normal_variance] = moments(randn({n}, DType::f32, {}, 1, 2));
  CHECK(std::abs(normal_mean - 1) < deviations * 2);
  CHECK(std::abs(normal_variance - 4) < deviations * 4 * std::sqrt(2));
}

// ---- memory ----

struct LimitScope {
  explicit LimitScope(std::size_t bytes) { set_memory_limit({}, bytes); }
  ~LimitScope() { set_memory_limit({}, 0); }
};

TEST_CASE("memory is counted when it is allocated and freed, 256 bytes at a time", "[core]") {
  empty_cache({});
  const MemoryStats before = memory_stats({});
  CHECK(before.reserved == before.live);
  {
    const Tensor x = empty({1000});  // 4000 bytes
    CHECK(memory_stats({}).live == before.live + 4096);
    const Tensor alias = x.alias({10});
    CHECK(memory_stats({}).live == before.live + 4096);
    CHECK(memory_stats({}).allocations == before.allocations + 1);
    CHECK(reinterpret_cast<std::uintptr_t>(x.raw()) % 256 == 0);
    CHECK(empty({0}).raw() != nullptr);
  }
  reset_peak_memory({});
  CHECK(memory_stats({}).live == before.live);
  CHECK(memory_stats({}).peak == before.live);
  {
    const Tensor x = empty({1000});
    { const Tensor y = empty({1000}); }
    CHECK(memory_stats({}).peak == before.live + 2 * 4096);
    CHECK(memory_stats({}).live == before.live + 4096);
  }
  CHECK(memory_stats({}).peak == before.live + 2 * 4096);
}

TEST_CASE("freed memory is kept for reuse until empty_cache", "[core]") {
  empty_cache({});
  const MemoryStats before = memory_stats({});
  { const Tensor x = empty({100000}); }
  const std::size_t kept = memory_stats({}).reserved - before.live;
#if defined(__SANITIZE_ADDRESS__)
  CHECK(kept == 0);  // nothing is reused, so that AddressSanitizer sees a use after free
#else
  CHECK(kept == 400128);
  { const Tensor x = empty({100000}); }
  CHECK(memory_stats({}).reserved == before.live + 400128);
#endif
  empty_cache({});
  CHECK(memory_stats({}).reserved == before.live);
}

TEST_CASE("more memory than the limit is an OutOfMemoryError that names the bytes, and changes nothing",
          "[core]") {
  const std::size_t live = memory_stats({}).live;
  const LimitScope limit(live + 1024);
  const Tensor fits = empty({256});
  CHECK_THROWS_AS(empty({1}), OutOfMemoryError);
  const std::string text = "out of memory on cpu: 40 bytes requested, " + std::to_string(live + 1024) +
                           " live, limit " + std::to_string(live + 1024);
  CHECK_THROWS_WITH(empty({10}), text);
  CHECK(memory_stats({}).live == live + 1024);
}

// ---- devices, streams, events ----

TEST_CASE("devices are parsed, and anything else is refused by name", "[core]") {
  CHECK(Device::parse("cpu") == Device{});
  CHECK(to_string(Device{}) == "cpu");
  CHECK(to_string(Device{DeviceType::cuda, 2}) == "cuda:2");
  CHECK(Device::parse("auto").is_cuda() == (cuda_device_count() > 0));
  for (const char* text : {"", "gpu", "CPU", "cpu:0", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda:+1", "3",
                           "cuda 0", "cuda:-99999999999", "cuda:99999999999x"}) {
    CHECK_THROWS_WITH(Device::parse(text),
                      ContainsSubstring("device '" + std::string(text) + "' is unknown: expected"));
  }
  for (const char* text : {"cuda:99", "cuda:99999999999"}) {
    CHECK_THROWS_WITH(Device::parse(text),
                      ContainsSubstring("device '" + std::string(text) + "' was requested, but this "));
  }
}

TEST_CASE("streams and events work on the CPU, where work runs at once", "[core]") {
  const Stream stream = Stream::create({});
  CHECK(stream.device() == Device{});
  CHECK(stream.native() == nullptr);
  const StreamScope scope(stream);
  Event start{Device{}}, end{Device{}};
  start.record(stream);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  end.record(stream);
  end.wait_on(stream);
  end.synchronize();
  stream.synchronize();
  CHECK(end.elapsed_ms_since(start) >= 5);
}

GPU_TEST_CASE("streams, events and copies work on the GPU", "[core]") {
  const Device gpu = Device::parse("cuda");
  const Stream stream = Stream::create(gpu);
  const StreamScope scope(stream);
  CHECK(Stream::current(gpu).native() == stream.native());
  Event start(gpu), end(gpu);
  const auto before = std::chrono::steady_clock::now();
  start.record(stream);
  const Values values = random_doubles(100000, 1);
  const Tensor x = tensor_of(values, {100000}, DType::f32, gpu);
  CHECK(x.device() == gpu);
  CHECK(copy_to(x, Device{}).to_doubles() == tensor_of(values, {100000}).to_doubles());
  end.record(stream);
  const double elapsed = end.elapsed_ms_since(start);  // waits for the end
  const std::chrono::duration<double, std::milli> around = std::chrono::steady_clock::now() - before;
  CHECK(elapsed > 0);
  CHECK(elapsed <= around.count() + 1e-3);  // a GPU's events are half a microsecond apart
  CHECK_THROWS_WITH(Event(gpu).record(Stream::current({})), ContainsSubstring("event of cuda:0"));
}

GPU_TEST_CASE("a GPU keeps f64 elements, and has no operations on them", "[core]") {
  const Device gpu = Device::parse("cuda");
  const Tensor x = tensor_of({1, 0x1p-40, -3}, {3}, DType::f64, gpu);
  CHECK(x.to_doubles() == Values{1, 0x1p-40, -3});
  CHECK(copy_to(x, Device{}).to_vector<double>() == Values{1, 0x1p-40, -3});
  CHECK_THROWS_WITH(add(x, x), ContainsSubstring("f64"));
}

GPU_TEST_CASE("random tensors have the same bits on the CPU and the GPU", "[core]") {
  const Device gpu = Device::parse("cuda");
  Generator a(5), b(5);
  CHECK(rand({100003}, DType::f32, {}, -1, 2, a).to_doubles() ==
        rand({100003}, DType::f32, gpu, -1, 2, b).to_doubles());
  CHECK(randn({100003}, DType::f32, gpu, 0, 1, b).to_doubles() ==
        randn({100003}, DType::f32, {}, 0, 1, a).to_doubles());
}

GPU_TEST_CASE("memory of the GPU is counted and limited", "[core]") {
  const Device gpu = Device::parse("cuda");
  const std::size_t live = memory_stats(gpu).live;
  {
    const Tensor x = empty({1000}, DType::f32, gpu);
    CHECK(memory_stats(gpu).live == live + 4096);
    CHECK(memory_stats(gpu).reserved >= memory_stats(gpu).live);
    set_memory_limit(gpu, live + 4096);
    CHECK_THROWS_AS(empty({1}, DType::f32, gpu), OutOfMemoryError);
    set_memory_limit(gpu, 0);
  }
  CHECK(memory_stats(gpu).live == live);
}

}  // namespace
}  // namespace ringtape::test
