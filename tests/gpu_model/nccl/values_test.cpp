#include <algorithm>
#include <string>

#include "tests/gpu_model/nccl/elements.h"
#include "tests/gpu_model/nccl/ranks.h"

namespace gpu_model::test {
namespace {

constexpr ncclRedOp_t kOps[] = {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg};

/// A rank's elements: 1, 2 or 3. Sums and products of four ranks are exact in every type, and so are the
/// averages of 1, 2 or 4 ranks in every floating-point type.
double value_of(int rank, std::size_t i) {
  return static_cast<double>((static_cast<std::size_t>(rank) * 2 + i) % 3 + 1);
}

double combined(ncclRedOp_t op, int ranks, std::size_t i) {
  double result = value_of(0, i);
  for (int rank = 1; rank < ranks; ++rank) {
    const double x = value_of(rank, i);
    result = op == ncclProd  ? result * x
             : op == ncclMax ? std::max(result, x)
             : op == ncclMin ? std::min(result, x)
                             : result + x;
  }
  return op == ncclAvg ? result / ranks : result;
}

std::vector<double> values_of(int rank, std::size_t first, std::size_t count) {
  std::vector<double> values;
  for (std::size_t i = first; i < first + count; ++i) values.push_back(value_of(rank, i));
  return values;
}

std::vector<double> combined_values(ncclDataType_t type, ncclRedOp_t op, int ranks, std::size_t first,
                                    std::size_t count) {
  std::vector<double> values;
  for (std::size_t i = first; i < first + count; ++i) {
    const double exact = combined(op, ranks, i);
    values.push_back(is_floating(type) ? exact : std::trunc(exact));
  }
  return values;
}

/// Device memory with elements of a type.
class Elements {
 public:
  Elements(const Rank& rank, ncclDataType_t type, const std::vector<double>& values)
      : type_(type), array_(rank, bytes_from(type, values)) {}
  void* get() const { return array_.get(); }
  void* at(std::size_t element) const { return array_.get() + element * bytes_of(type_); }
  std::vector<double> values() const { return doubles_from(type_, array_.values()); }

 private:
  ncclDataType_t type_;
  Array<char> array_;
};

TEST_CASE("every reduction of every type by 1 to 4 ranks", "[nccl]") {
  for_schedules([] {
    for (int ranks = 1; ranks <= 4; ++ranks) {
      run_ranks(ranks, [](const Rank& r) {
        constexpr std::size_t n = 7;  // not a multiple of the ranks
        const auto all = static_cast<std::size_t>(r.ranks) * n;
        for (const ncclDataType_t type : all_types()) {
          for (const ncclRedOp_t op : kOps) {
            if (op == ncclAvg && r.ranks == 3 && is_floating(type)) continue;  // rounded: the test below
            const std::string what = "type " + std::to_string(type) + ", op " + std::to_string(op);
            const Elements in(r, type, values_of(r.rank, 0, n)), out(r, type, std::vector<double>(n));
            r.ok(ncclAllReduce(in.get(), out.get(), n, type, op, r.comm, r.stream), "ncclAllReduce");
            r.expect(out.values() == combined_values(type, op, r.ranks, 0, n), "ncclAllReduce, " + what);
            r.expect(in.values() == values_of(r.rank, 0, n), "ncclAllReduce's input, " + what);
            r.ok(ncclAllReduce(in.get(), in.get(), n, type, op, r.comm, r.stream), "ncclAllReduce in place");
            r.expect(in.values() == combined_values(type, op, r.ranks, 0, n),
                     "ncclAllReduce in place, " + what);

            const Elements wide(r, type, values_of(r.rank, 0, all)), part(r, type, std::vector<double>(n));
            const std::size_t own = static_cast<std::size_t>(r.rank) * n;
            r.ok(ncclReduceScatter(wide.get(), part.get(), n, type, op, r.comm, r.stream),
                 "ncclReduceScatter");
            r.expect(part.values() == combined_values(type, op, r.ranks, own, n),
                     "ncclReduceScatter, " + what);
            r.ok(ncclReduceScatter(wide.get(), wide.at(own), n, type, op, r.comm, r.stream),
                 "ncclReduceScatter in place");
            std::vector<double> found = wide.values();
            found = {found.begin() + static_cast<std::ptrdiff_t>(own),
                     found.begin() + static_cast<std::ptrdiff_t>(own + n)};
            r.expect(found == combined_values(type, op, r.ranks, own, n),
                     "ncclReduceScatter in place, " + what);

            for (int root = 0; root < r.ranks; ++root) {
              const Elements from(r, type, values_of(r.rank, 0, n)), to(r, type, std::vector<double>(n, 9));
              const bool is_root = root == r.rank;
              r.ok(ncclReduce(from.get(), is_root ? to.get() : nullptr, n, type, op, root, r.comm, r.stream),
                   "ncclReduce");
              r.expect(to.values() ==
                           (is_root ? combined_values(type, op, r.ranks, 0, n) : std::vector<double>(n, 9)),
                       "ncclReduce, " + what);
            }
          }
        }
      });
    }
  });
}

TEST_CASE("broadcast and all-gather, in place too", "[nccl]") {
  for_schedules([] {
    for (int ranks = 1; ranks <= 4; ++ranks) {
      run_ranks(ranks, [](const Rank& r) {
        constexpr std::size_t n = 5;
        for (const ncclDataType_t type : {ncclInt8, ncclBfloat16, ncclFloat64}) {
          std::vector<double> everything;
          for (int rank = 0; rank < r.ranks; ++rank) {
            const std::vector<double> part = values_of(rank, 0, n);
            everything.insert(everything.end(), part.begin(), part.end());
            const Elements in(r, type, values_of(r.rank, 0, n)), out(r, type, std::vector<double>(n));
            const bool is_root = rank == r.rank;
            r.ok(ncclBroadcast(is_root ? in.get() : nullptr, out.get(), n, type, rank, r.comm, r.stream),
                 "ncclBroadcast");
            r.expect(out.values() == part, "ncclBroadcast");
            r.ok(ncclBroadcast(in.get(), in.get(), n, type, rank, r.comm, r.stream),
                 "ncclBroadcast in place");
            r.expect(in.values() == part, "ncclBroadcast in place");
          }
          const std::size_t all = everything.size();
          const Elements in(r, type, values_of(r.rank, 0, n)), out(r, type, std::vector<double>(all));
          r.ok(ncclAllGather(in.get(), out.get(), n, type, r.comm, r.stream), "ncclAllGather");
          r.expect(out.values() == everything, "ncclAllGather");
          std::vector<double> own(all);
          for (std::size_t i = 0; i < n; ++i)
            own[static_cast<std::size_t>(r.rank) * n + i] = value_of(r.rank, i);
          const Elements same(r, type, own);
          r.ok(ncclAllGather(same.at(static_cast<std::size_t>(r.rank) * n), same.get(), n, type, r.comm,
                             r.stream),
               "ncclAllGather in place");
          r.expect(same.values() == everything, "ncclAllGather in place");
        }
      });
    }
  });
}

TEST_CASE("ncclAvg multiplies by 1 / ranks in the element's type", "[nccl]") {
  // 100 on each of three ranks. bfloat16: 1 / 3 is 0.333984375, 33.3984375 is rounded to 33.5, and 3 * 33.5
  // is 100.5. Half: 1 / 3 is 0.333251953125, 33.3251953125 is rounded to 33.3125, and 3 * 33.3125 is 99.9375.
  run_ranks(3, [](const Rank& r) {
    const Elements bf16(r, ncclBfloat16, {100}), f16(r, ncclFloat16, {100}), f32(r, ncclFloat32, {100}),
        i32(r, ncclInt32, {r.rank == 0 ? 0.0 : -100.0});
    r.ok(ncclAllReduce(bf16.get(), bf16.get(), 1, ncclBfloat16, ncclAvg, r.comm, r.stream), "bf16");
    r.ok(ncclAllReduce(f16.get(), f16.get(), 1, ncclFloat16, ncclAvg, r.comm, r.stream), "f16");
    r.ok(ncclAllReduce(f32.get(), f32.get(), 1, ncclFloat32, ncclAvg, r.comm, r.stream), "f32");
    r.ok(ncclAllReduce(i32.get(), i32.get(), 1, ncclInt32, ncclAvg, r.comm, r.stream), "i32");
    r.expect(bf16.values()[0] == 100.5, "bf16");
    r.expect(f16.values()[0] == 99.9375, "f16");
    const float third = 100.0F * (1.0F / 3.0F);
    r.expect(f32.values()[0] == static_cast<double>(third + third + third), "f32");
    r.expect(i32.values()[0] == -66, "-200 / 3 in integers");
  });
}

TEST_CASE("16-bit sums are rounded after every addition, in the ring's order", "[nccl]") {
  // 256 + 1 is 256 in bfloat16, which has 8 bits; 1 + 1 + 256 is 258.
  run_ranks(3, [](const Rank& r) {
    const Elements x(r, ncclBfloat16, std::vector<double>(3, r.rank == 0 ? 256 : 1));
    r.ok(ncclAllReduce(x.get(), x.get(), 3, ncclBfloat16, ncclSum, r.comm, r.stream), "ncclAllReduce");
    // Element i begins with rank i + 1: (1 + 1) + 256, (1 + 256) + 1, (256 + 1) + 1.
    r.expect(x.values() == std::vector<double>{258, 256, 256}, "ncclAllReduce");
    for (int root = 0; root < 3; ++root) {
      const Elements y(r, ncclBfloat16, {r.rank == 0 ? 256.0 : 1.0});
      r.ok(ncclReduce(y.get(), y.get(), 1, ncclBfloat16, ncclSum, root, r.comm, r.stream), "ncclReduce");
      if (root == r.rank) r.expect(y.values()[0] == (root == 0 ? 258 : 256), "ncclReduce");
    }
  });
}

TEST_CASE("products of 16-bit values are rounded as in double arithmetic", "[nccl]") {
  run_ranks(2, [](const Rank& r) {
    for (const auto& [type, bits] : {std::pair(ncclBfloat16, 8), std::pair(ncclFloat16, 11)}) {
      std::vector<double> a, b, expected;
      for (int i = 0; i < 2000; ++i) {
        a.push_back(rounded_to(std::ldexp(1 + i * 0.00043, i % 9 - 2) * (i % 2 == 0 ? 1 : -1), bits));
        b.push_back(rounded_to(std::ldexp(1.9 - i * 0.00037, (i / 3) % 7 - 2), bits));
        expected.push_back(rounded_to(a.back() * b.back(), bits));
      }
      const Elements x(r, type, r.rank == 0 ? a : b);
      r.ok(ncclAllReduce(x.get(), x.get(), a.size(), type, ncclProd, r.comm, r.stream), "ncclAllReduce");
      r.expect(x.values() == expected, "products, " + std::to_string(bits) + " bits");
    }
  });
}

TEST_CASE("half precision beyond the normal numbers", "[nccl]") {
  // 2^-14 * 2^-3 and 2^-24 * 0.5 are subnormal and 0 (a tie, to even); 3 * 2^-24 * 0.5 is a tie that goes up
  // to 2 * 2^-24; 60000 * 2 is infinite.
  run_ranks(2, [](const Rank& r) {
    const std::vector<std::uint16_t> a{0x0400, 0x0001, 0x0003, 0x7b53}, b{0x3000, 0x3800, 0x3800, 0x4000};
    const Array<std::uint16_t> x(r, r.rank == 0 ? a : b);
    r.ok(ncclAllReduce(x.get(), x.get(), a.size(), ncclFloat16, ncclProd, r.comm, r.stream), "ncclAllReduce");
    r.expect(x.values() == std::vector<std::uint16_t>{0x0080, 0x0000, 0x0002, 0x7c00}, "products");
  });
}

TEST_CASE("more bytes than the ranks' shared memory holds at once", "[nccl]") {
  for_schedules([] {
    for (int ranks = 2; ranks <= 4; ++ranks) {
      run_ranks(ranks, [](const Rank& r) {
        constexpr std::size_t n = 300001;
        std::vector<std::int64_t> in(n), expected(n);
        for (std::size_t i = 0; i < n; ++i) {
          in[i] = static_cast<std::int64_t>(i) * (r.rank + 1);
          expected[i] = static_cast<std::int64_t>(i) * r.ranks * (r.ranks + 1) / 2;
        }
        const Array<std::int64_t> x(r, in);
        r.ok(ncclAllReduce(x.get(), x.get(), n, ncclInt64, ncclSum, r.comm, r.stream), "ncclAllReduce");
        r.expect(x.values() == expected, "ncclAllReduce");
        r.ok(ncclBroadcast(x.get(), x.get(), n, ncclInt64, r.ranks - 1, r.comm, r.stream), "ncclBroadcast");
        r.expect(x.values() == expected, "ncclBroadcast");
      });
    }
  });
}

}  // namespace
}  // namespace gpu_model::test
