// CUPTI documentation: "CUPTI Activity API", "CUPTI Callback API".
#include <cupti.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "tests/gpu_model/support.h"

namespace gpu_model::test {
namespace {

/// The records that the client of these tests has received.
struct Received {
  std::vector<CUpti_ActivityKernel9> kernels;
  std::vector<CUpti_ActivityMemcpy5> copies;
  std::vector<CUpti_ActivityMemset3> fills;
  std::vector<CUpti_ActivityExternalCorrelation> regions;
  std::vector<CUpti_ActivityAPI> calls;
  int buffers = 0;
  bool in_calling_thread = false;
};
Received received;
std::thread::id client_thread;
std::size_t buffer_bytes = 1 << 16, max_records = 0;

void give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most) {
  *buffer = buffer_bytes == 0 ? nullptr : static_cast<std::uint8_t*>(std::aligned_alloc(8, buffer_bytes));
  *bytes = buffer_bytes;
  *most = max_records;
}

template <class Record>
void keep(std::vector<Record>& records, const CUpti_Activity* record) {
  records.push_back(*reinterpret_cast<const Record*>(record));
}

void take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid_bytes) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  ++received.buffers;
  received.in_calling_thread |= std::this_thread::get_id() == client_thread;
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid_bytes, &record) == CUPTI_SUCCESS) {
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) keep(received.kernels, record);
    if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) keep(received.copies, record);
    if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) keep(received.fills, record);
    if (record->kind == CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) keep(received.regions, record);
    if (record->kind == CUPTI_ACTIVITY_KIND_RUNTIME) keep(received.calls, record);
  }
  std::free(buffer);
}

constexpr std::uint64_t kClock = 1'000'000'000'000'000'000;
std::uint64_t a_clock() {
  return kClock;
}

/// A client with these kinds enabled, by default all, until the end of the scope.
class Client {
 public:
  explicit Client(std::initializer_list<CUpti_ActivityKind> kinds = kAll) : kinds_(kinds) {
    received = {};
    client_thread = std::this_thread::get_id();
    REQUIRE(cuptiActivityRegisterTimestampCallback(a_clock) == CUPTI_SUCCESS);
    REQUIRE(cuptiActivityRegisterCallbacks(give_buffer, take_buffer) == CUPTI_SUCCESS);
    REQUIRE(cuptiActivityFlushAll(0) == CUPTI_SUCCESS);  // what others have left
    received = {};
    for (const CUpti_ActivityKind kind : kinds_) REQUIRE(cuptiActivityEnable(kind) == CUPTI_SUCCESS);
  }
  ~Client() {
    for (const CUpti_ActivityKind kind : kinds_) cuptiActivityDisable(kind);
    cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    buffer_bytes = 1 << 16;
    max_records = 0;
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  static const Received& flush() {
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    REQUIRE(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) == CUPTI_SUCCESS);
    return received;
  }

 private:
  static constexpr std::initializer_list<CUpti_ActivityKind> kAll = {
      CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,    CUPTI_ACTIVITY_KIND_MEMCPY,  CUPTI_ACTIVITY_KIND_MEMSET,
      CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_DRIVER};
  std::vector<CUpti_ActivityKind> kinds_;
};

constexpr auto kRegion = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;

TEST_CASE("CUPTI: the records of a kernel, a copy and a fill describe them") {
  const Client client;
  const OwnStream stream;
  const DeviceInts x(8);
  int out[8];
  REQUIRE(launch_on(stream, [] {}, {{3, 2, 1}, {64, 4, 1}, 512}) == cudaSuccess);
  REQUIRE(cudaMemsetAsync(x.get(), 7, 8 * sizeof(int), stream) == cudaSuccess);
  REQUIRE(cudaMemcpyAsync(out, x.get(), 8 * sizeof(int), cudaMemcpyDefault, stream) == cudaSuccess);
  const Received& all = Client::flush();
  REQUIRE(all.kernels.size() == 1);
  REQUIRE(all.fills.size() == 1);
  REQUIRE(all.copies.size() == 1);
  const CUpti_ActivityKernel9& kernel = all.kernels[0];
  CHECK_THAT(kernel.name, ContainsSubstring("any_kernel"));
  CHECK(kernel.gridX == 3);
  CHECK(kernel.gridY == 2);
  CHECK(kernel.blockX == 64);
  CHECK(kernel.blockY == 4);
  CHECK(kernel.dynamicSharedMemory == 512);
  CHECK(kernel.graphNodeId == 0);
  CHECK(kernel.streamId == all.copies[0].streamId);
  CHECK(kernel.start <= kernel.end);
  CHECK(kernel.end <= all.fills[0].start);
  CHECK(all.fills[0].end <= all.copies[0].start);
  CHECK(kernel.start + 60'000'000'000 >
        kClock);  // on the client's clock, which stands still, within a minute
  CHECK(kernel.start < kClock + 60'000'000'000);
  CHECK(all.fills[0].bytes == 32);
  CHECK(all.copies[0].bytes == 32);
  CHECK(int{all.copies[0].copyKind} == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH);
}

TEST_CASE("CUPTI: the direction of a copy, and two devices") {
  const Client client;
  const FirstDeviceAfterwards back;
  const DeviceInts x, y;
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  const DeviceInts other;
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  int host = 1;
  REQUIRE(cudaMemcpy(x.get(), &host, sizeof host, cudaMemcpyHostToDevice) == cudaSuccess);
  REQUIRE(cudaMemcpy(y.get(), x.get(), sizeof host, cudaMemcpyDefault) == cudaSuccess);
  REQUIRE(cudaMemcpy(other.get(), x.get(), sizeof host, cudaMemcpyDefault) == cudaSuccess);
  const Received& all = Client::flush();
  REQUIRE(all.copies.size() == 3);
  CHECK(int{all.copies[0].copyKind} == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD);
  CHECK(int{all.copies[1].copyKind} == CUPTI_ACTIVITY_MEMCPY_KIND_DTOD);
  CHECK(int{all.copies[2].copyKind} == CUPTI_ACTIVITY_MEMCPY_KIND_PTOP);
}

TEST_CASE("CUPTI: calls have their region's id, and work the correlation id of its call, in every schedule") {
  for_each_schedule([] {
    const Client client;
    const OwnStream a, b;
    REQUIRE(cuptiActivityPushExternalCorrelationId(kRegion, 10) == CUPTI_SUCCESS);
    REQUIRE(launch_on(a, [] {}) == cudaSuccess);
    REQUIRE(cuptiActivityPushExternalCorrelationId(kRegion, 11) == CUPTI_SUCCESS);
    REQUIRE(launch_on(b, [] {}) == cudaSuccess);
    std::uint64_t last = 0;
    REQUIRE(cuptiActivityPopExternalCorrelationId(kRegion, &last) == CUPTI_SUCCESS);
    CHECK(last == 11);
    REQUIRE(cuptiActivityPopExternalCorrelationId(kRegion, nullptr) == CUPTI_SUCCESS);
    REQUIRE(launch_on(a, [] {}) == cudaSuccess);
    const Received& all = Client::flush();
    REQUIRE(all.kernels.size() == 3);
    REQUIRE(all.regions.size() == 2);
    REQUIRE(all.calls.size() == 3);
    auto kernels = all.kernels;
    std::sort(kernels.begin(), kernels.end(),
              [](const auto& x, const auto& y) { return x.correlationId < y.correlationId; });
    CHECK(all.regions[0].externalId == 10);
    CHECK(all.regions[0].correlationId == kernels[0].correlationId);
    CHECK(all.regions[1].externalId == 11);
    CHECK(all.regions[1].correlationId == kernels[1].correlationId);
    CHECK(all.calls[2].correlationId == kernels[2].correlationId);
    CHECK(kernels[0].streamId == kernels[2].streamId);
    CHECK(kernels[0].streamId != kernels[1].streamId);
  });
}

TEST_CASE("CUPTI: a graph's nodes have node ids, and the correlation id of the launch") {
  const Client client;
  const OwnStream stream;
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  for (int i = 0; i < 2; ++i) REQUIRE(launch_on(stream, [] {}) == cudaSuccess);
  cudaGraph_t graph;
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  cudaGraphExec_t executable;
  REQUIRE(cudaGraphInstantiate(&executable, graph) == cudaSuccess);
  CHECK(Client::flush().kernels.empty());  // a capture runs nothing
  for (int i = 0; i < 2; ++i) REQUIRE(cudaGraphLaunch(executable, stream) == cudaSuccess);
  const auto kernels = Client::flush().kernels;
  REQUIRE(kernels.size() == 4);
  CHECK(kernels[0].correlationId == kernels[1].correlationId);
  CHECK(kernels[0].correlationId != kernels[2].correlationId);
  CHECK(kernels[0].graphNodeId != 0);
  CHECK(kernels[0].graphNodeId != kernels[1].graphNodeId);
  CHECK(kernels[0].graphNodeId == kernels[2].graphNodeId);
  REQUIRE(cudaGraphExecDestroy(executable) == cudaSuccess);
  REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
}

TEST_CASE("CUPTI: full buffers are given back in another thread, and records without a buffer are counted") {
  const OwnStream stream;
  {
    max_records = 2;
    const Client client({CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL});
    for (int i = 0; i < 5; ++i) REQUIRE(launch_on(stream, [] {}) == cudaSuccess);
    const Received& all = Client::flush();
    CHECK(all.buffers == 3);
    CHECK(all.kernels.size() == 5);
    CHECK_FALSE(all.in_calling_thread);
  }
  {
    buffer_bytes = 2 * sizeof(CUpti_ActivityKernel9) + 8;
    const Client client({CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL});
    for (int i = 0; i < 5; ++i) REQUIRE(launch_on(stream, [] {}) == cudaSuccess);
    CHECK(Client::flush().buffers == 3);
    CHECK(received.kernels.size() == 5);
  }
  buffer_bytes = 0;
  const Client client({CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL});
  for (int i = 0; i < 5; ++i) REQUIRE(launch_on(stream, [] {}) == cudaSuccess);
  CHECK(Client::flush().kernels.empty());
  std::size_t dropped = 0;
  REQUIRE(cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped) == CUPTI_SUCCESS);
  CHECK(dropped == 5);
  REQUIRE(cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped) == CUPTI_SUCCESS);
  CHECK(dropped == 0);
}

TEST_CASE("CUPTI: only enabled kinds are recorded, and regions only with calls") {
  const OwnStream stream;
  const DeviceInts x;
  const Client client({CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION});
  REQUIRE(cuptiActivityPushExternalCorrelationId(kRegion, 1) == CUPTI_SUCCESS);
  REQUIRE(launch_on(stream, [] {}) == cudaSuccess);
  REQUIRE(cudaMemsetAsync(x.get(), 0, sizeof(int), stream) == cudaSuccess);
  REQUIRE(cuptiActivityPopExternalCorrelationId(kRegion, nullptr) == CUPTI_SUCCESS);
  REQUIRE(Client::flush().fills.size() == 1);
  REQUIRE(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_MEMSET) == CUPTI_SUCCESS);
  REQUIRE(cudaMemsetAsync(x.get(), 0, sizeof(int), stream) == cudaSuccess);
  CHECK(Client::flush().fills.size() == 1);
  CHECK(received.kernels.empty());
  CHECK(received.regions.empty());
  CHECK(received.calls.empty());
}

TEST_CASE("CUPTI: the documented errors") {
  CUpti_SubscriberHandle first = nullptr, second = nullptr;
  CHECK(cuptiSubscribe(nullptr, nullptr, nullptr) == CUPTI_ERROR_INVALID_PARAMETER);
  REQUIRE(cuptiSubscribe(&first, nullptr, nullptr) == CUPTI_SUCCESS);
  CHECK(cuptiSubscribe(&second, nullptr, nullptr) == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
  CHECK(cuptiUnsubscribe(second) == CUPTI_ERROR_INVALID_PARAMETER);
  CHECK(cuptiUnsubscribe(first) == CUPTI_SUCCESS);
  CHECK(cuptiUnsubscribe(first) == CUPTI_ERROR_INVALID_PARAMETER);
  CHECK(cuptiActivityRegisterCallbacks(give_buffer, nullptr) == CUPTI_ERROR_INVALID_PARAMETER);
  CHECK(cuptiActivityRegisterTimestampCallback(nullptr) == CUPTI_ERROR_INVALID_PARAMETER);
  CHECK(cuptiActivityEnable(static_cast<CUpti_ActivityKind>(99)) == CUPTI_ERROR_INVALID_KIND);
  CHECK(cuptiActivityDisable(static_cast<CUpti_ActivityKind>(99)) == CUPTI_ERROR_INVALID_KIND);
  CHECK(cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_INVALID, 1) ==
        CUPTI_ERROR_INVALID_PARAMETER);
  CHECK(cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_SIZE, nullptr) ==
        CUPTI_ERROR_INVALID_PARAMETER);
  CHECK(cuptiActivityPopExternalCorrelationId(kRegion, nullptr) == CUPTI_ERROR_QUEUE_EMPTY);
  CHECK(cuptiActivityGetNumDroppedRecords(nullptr, 0, nullptr) == CUPTI_ERROR_INVALID_PARAMETER);
  CUpti_Activity* record = nullptr;
  CHECK(cuptiActivityGetNextRecord(nullptr, 8, &record) == CUPTI_ERROR_INVALID_PARAMETER);
  alignas(8) std::uint8_t none[8] = {99};
  CHECK(cuptiActivityGetNextRecord(none, 0, &record) == CUPTI_ERROR_MAX_LIMIT_REACHED);
  CHECK(cuptiActivityGetNextRecord(none, 8, &record) == CUPTI_ERROR_INVALID_KIND);
  const char* text = nullptr;
  CHECK(cuptiGetResultString(CUPTI_ERROR_QUEUE_EMPTY, &text) == CUPTI_SUCCESS);
  CHECK(std::string(text) == "CUPTI_ERROR_QUEUE_EMPTY");
  CHECK(cuptiGetResultString(static_cast<CUptiResult>(63), &text) == CUPTI_ERROR_INVALID_PARAMETER);
}

}  // namespace
}  // namespace gpu_model::test
