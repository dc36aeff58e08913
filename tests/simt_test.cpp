#include "tests/simt_kernels.h"

#include <vector>

#include "tests/catch.h"

namespace ringtape {

TEST_CASE("a sum over blocks is right for any length", "[simt]") {
  const Stream stream = Stream::current({});
  for (const std::int64_t n : {1, 31, 33, 257, 4096, 100003}) {
    std::vector<float> x(n), partial(1024);
    double expected = 0;
    for (std::int64_t i = 0; i < n; ++i) expected += x[i] = static_cast<float>(i % 7);
    unsigned counter = 0;
    float total = -1;
    test_sum(stream, x.data(), n, partial.data(), &counter, &total);
    CHECK(total == expected);  // every partial sum is an integer below 2^24
    CHECK(counter == 0);
  }
}

}  // namespace ringtape
