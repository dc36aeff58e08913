#include "train/value_row.h"

#include <cmath>

#include "autograd/creation.h"
#include "tests/support/catch.h"

namespace ringtape::test {
namespace {

ValueRow row_of(const std::vector<float>& values) {
  ValueRow row;
  set_values(row, from_vector(values, {static_cast<std::int64_t>(values.size())}));
  return row;
}

}  // namespace

TEST_CASE("value row: statistics, hash and samples of a tensor", "[train]") {
  std::vector<float> values(127);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) - 63;
  const ValueRow row = row_of(values);
  CHECK(row.min == -63);
  CHECK(row.max == 63);
  CHECK(row.mean == 0);
  CHECK(row.non_finite == 0);
  REQUIRE(row.samples.size() == 64);
  for (std::size_t i = 0; i < 64; ++i) CHECK(row.samples[i] == 2 * static_cast<double>(i) - 63);
  values[5] = std::nextafter(values[5], 0.0F);
  CHECK(row_of(values).crc32 != row.crc32);
  const ValueRow odd = row_of({1, NAN, INFINITY, 3});
  CHECK(odd.non_finite == 2);
  CHECK(odd.mean == 2);
  CHECK(odd.max == 3);
  CHECK(std::isnan(odd.samples[1]));
}

TEST_CASE("value row: JSON and back", "[train]") {
  ValueRow row = row_of({0.1F, -2, NAN});
  row.step = 3;
  row.micro_batch = 1;
  row.place = 7;
  row.operation = "linear";
  row.layer = "blocks.3.fc";
  row.kind = "gradient";
  const ValueRow back = ValueRow::from_json(Json::parse(row.to_json().dump()));
  CHECK(back.to_json().dump() == row.to_json().dump());
  CHECK(back.samples[0] == static_cast<double>(0.1F));
  CHECK_THROWS_WITH(ValueRow::from_json(Json{{"step", 1}}), ContainsSubstring("micro_batch"));
}

TEST_CASE("value row: a difference by the bits, or beyond a tolerance", "[train]") {
  const ValueRow a = row_of({1, 2, -4}), b = row_of({1, 2.5, -4});
  CHECK_FALSE(difference_of(a, a, 0).differs);
  CHECK(difference_of(a, b, 0).differs);
  CHECK(difference_of(a, b, 0).largest == 0.5);
  CHECK(difference_of(a, b, 0.124).differs);  // 0.5 of values up to 4
  CHECK_FALSE(difference_of(a, b, 0.126).differs);
  const ValueRow nan = row_of({1, NAN, -4});
  CHECK(std::isinf(difference_of(a, nan, 1).largest));
  CHECK(difference_of(a, nan, 1).differs);
  CHECK_FALSE(difference_of(nan, nan, 1).differs);
  CHECK_THROWS_WITH(difference_of(a, row_of({1}), 0), ContainsSubstring("shapes"));
}

}  // namespace ringtape::test
