#include "dist/slow_link.h"

#include "core/error.h"
#include "tests/support/catch.h"

using namespace ringtape;

namespace {

Call call_of(CommOperation operation, std::int64_t elements, DType dtype = DType::f32) {
  Call call;
  call.operation = operation;
  call.elements = elements;
  call.dtype = dtype;
  return call;
}

double seconds(LinkSchedule::Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

TEST_CASE("slow link: the bytes that go over it", "[slow_link]") {
  // 300 f32 are 1200 bytes; of four ranks each sends 2 x 3/4 of them round the ring.
  CHECK(bytes_on_link(call_of(CommOperation::all_reduce, 300), 4) == 1800);
  CHECK(bytes_on_link(call_of(CommOperation::all_reduce, 300), 2) == 1200);
  CHECK(bytes_on_link(call_of(CommOperation::all_reduce, 300, DType::bf16), 4) == 900);
  CHECK(bytes_on_link(call_of(CommOperation::all_reduce, 300), 1) == 0);
  for (const CommOperation operation : {CommOperation::all_gather, CommOperation::reduce_scatter,
                                        CommOperation::gather, CommOperation::scatter}) {
    CHECK(bytes_on_link(call_of(operation, 300), 4) == 900);
  }
  for (const CommOperation operation :
       {CommOperation::broadcast, CommOperation::reduce, CommOperation::exchange}) {
    CHECK(bytes_on_link(call_of(operation, 300), 4) == 1200);
  }
  CHECK(bytes_on_link(call_of(CommOperation::barrier, 0), 4) == 0);
}

TEST_CASE("slow link: the latency, and the time that the bandwidth makes", "[slow_link]") {
  const SlowLink link = parse_slow_link("100,250");
  CHECK(link.latency.count() == Approx(100e-6));
  CHECK(link.bytes_per_second == 250e6);
  // 2^20 f32 on 3 ranks: 4/3 of 4194304 bytes at 250 MB/s are 22.3696 ms.
  const double bytes = bytes_on_link(call_of(CommOperation::all_reduce, 1 << 20), 3);
  CHECK(link.transfer_time(bytes).count() == Approx(0.0223696213));
  CHECK(link.transfer_time(0).count() == 0);
  CHECK(SlowLink().transfer_time(bytes).count() == 0);
  CHECK(parse_slow_link("0,0.5").bytes_per_second == 0.5e6);
}

TEST_CASE("slow link: bytes go one after the other, latencies together", "[slow_link]") {
  LinkSchedule link;
  const LinkSchedule::Clock::time_point start{std::chrono::seconds(1000)};
  const Seconds latency(0.5);
  CHECK(seconds(link.send(start, latency, Seconds(2)) - start) == Approx(2.5));
  // A second later the link is still busy for one more.
  CHECK(seconds(link.send(start + std::chrono::seconds(1), latency, Seconds(3)) - start) == Approx(5.5));
  // It has been free since 5.
  CHECK(seconds(link.send(start + std::chrono::seconds(7), latency, Seconds(1)) - start) == Approx(8.5));
}

TEST_CASE("slow link: invalid values of the flag are refused", "[slow_link]") {
  for (const char* text : {"", "100", ",", "100,", ",250", "100,250,1", "100,0", "100,-1", "-1,250", "a,250",
                           "100,b", "100, 250", "nan,250", "100,nan", "inf,250", "100,inf", "100,250x"}) {
    INFO(text);
    CHECK_THROWS_WITH(parse_slow_link(text), ContainsSubstring("expected LATENCY_US,MBYTES_PER_S"));
  }
}
