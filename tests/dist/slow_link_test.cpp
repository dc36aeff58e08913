#include "dist/slow_link.h"

#include "core/error.h"
#include "dist/gather_text.h"
#include "tests/dist/ranks.h"
#include "tests/dist/zero_trainer.h"
#include "tests/support/catch.h"
#include "trace/spans.h"
#ifdef RINGTAPE_WITH_MPI
#include "dist/mpi_communicator.h"
#endif

using namespace ringtape;
using namespace ringtape::test;

TEST_CASE("gather_text: each rank's text arrives", "[dist][slow_link]") {
  for (const auto& [name, comm] : all_communicators()) {
    INFO(name);
    const auto text_of = [](int rank) {
      return rank == 2 ? std::string() : fmt::format("{} of rank {}", std::string(rank, 'x'), rank);
    };
    const std::vector<std::string> texts = gather_text(*comm, text_of(comm->rank()));
    REQUIRE(std::ssize(texts) == (comm->rank() == 0 ? comm->size() : 0));
    for (int rank = 0; rank < std::ssize(texts); ++rank) CHECK(texts[rank] == text_of(rank));
  }
}

#ifdef RINGTAPE_WITH_MPI

namespace {

/// 20 ms and 1 MB/s.
const SlowLink kLink{.latency = Seconds(0.02), .bytes_per_second = 1e6};

std::shared_ptr<Communicator> slow_ranks() {
  if (all_communicators().front().communicator->size() == 1 || all_communicators().size() == 1)
    return nullptr;
  return MpiCommunicator::connect(Seconds(120), MpiCommunicator::kMaxPiece, kLink);
}

template <class Function>
double seconds_of(const Function& function) {
  const auto start = std::chrono::steady_clock::now();
  function();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

TEST_CASE("slow link: an operation takes at least as long as the link needs", "[dist][slow_link]") {
  const std::shared_ptr<Communicator> comm = slow_ranks();
  if (comm == nullptr) return;
  const int n = comm->size();
  const Tensor tensor = tensor_of(values_of(comm->rank(), 5000), {5000});
  const double all_reduce = seconds_of([&] { comm->all_reduce(tensor, ReduceOp::sum).wait(); });
  CHECK(all_reduce >= 0.02 + 2.0 * (n - 1) / n * 20000 / 1e6);
  CHECK(tensor.to_doubles() == reduced(ReduceOp::sum, n, 5000));
  CHECK(seconds_of([&] { comm->barrier(); }) >= 0.02);

  // The bytes of two concurrent exchanges are sent one after the other.
  const int next = (comm->rank() + 1) % n, previous = (comm->rank() + n - 1) % n;
  const Tensor out = tensor_of(values_of(comm->rank(), 5000), {5000}), in = empty({2, 5000});
  const double exchanges = seconds_of([&] {
    const Work first = comm->exchange({{out, next}}, {{in.alias({5000}), previous}});
    const Work second = comm->exchange({{out, next}}, {{in.alias({5000}, 5000), previous}});
    first.wait();
    second.wait();
  });
  CHECK(exchanges >= 0.02 + 2 * 20000 / 1e6);
  CHECK(in.alias({5000}, 5000).to_doubles() == values_of(previous, 5000));
}

TEST_CASE("slow link: the parts of a split have it too", "[dist][slow_link]") {
  const std::shared_ptr<Communicator> comm = slow_ranks();
  if (comm == nullptr) return;
  const std::shared_ptr<Communicator> all = comm->split(0, -comm->rank());
  CHECK(seconds_of([&] { all->barrier(); }) >= 0.02);
}

TEST_CASE("slow link: an exchange of a parameter whose gather is in flight waits for the gather",
          "[dist][slow_link][zero]") {
  const std::shared_ptr<Communicator> slow = slow_ranks();
  if (slow == nullptr) return;
  const auto trained = [](const std::shared_ptr<Communicator>& comm) {
    auto trainer = std::make_unique<ZeroTrainer>(comm, ZeroOptions{.stage = 1});
    trainer->accumulate(Data(8, 1), {{0, 8}}, true);
    trainer->step();
    return trainer;
  };
  const int n = slow->size(), next = (slow->rank() + 1) % n, previous = (slow->rank() + n - 1) % n;
  const std::shared_ptr<Communicator> other = slow->split(0, slow->rank());
  const auto trainer = trained(slow);
  std::vector<std::vector<double>> received;
  for (const ArenaEntry& entry : trainer->arena.entries()) {
    const Tensor in = empty(entry.tensor->shape());
    // An exchange does not wait for the operations of another communicator.
    other->exchange({{entry.tensor->detach(), next}}, {{in, previous}}).wait();
    received.push_back(in.to_doubles());
  }
  CHECK(received == trained(MpiCommunicator::connect(Seconds(120)))->values());
}

TEST_CASE("spans: an operation's data, and the wait for it", "[dist][spans]") {
  const std::shared_ptr<Communicator> comm = slow_ranks();
  if (comm == nullptr) return;
  const Tensor tensor = tensor_of(values_of(comm->rank(), 5000), {5000});
  comm->barrier();
  SpanRecording recording;
  comm->all_reduce(tensor, ReduceOp::sum).wait();
  recording.stop();
  const auto length = [](const Span& span) {
    return std::chrono::duration<double>(span.end - span.begin).count();
  };
  REQUIRE(recording.spans().size() == 2);
  const Span &data = recording.spans()[0], &wait = recording.spans()[1];
  CHECK(data.track == Track::communication);
  CHECK(data.name == "all_reduce #1");  // the barrier was #0
  CHECK(data.arguments.at(0).value == 20000);
  CHECK(data.arguments.at(1).value == 1);
  CHECK(length(data) >= 0.02 + 2.0 * (comm->size() - 1) / comm->size() * 20000 / 1e6);
  CHECK(wait.track == Track::waiting);
  CHECK(wait.end >= data.end);
}

#endif
