#include "dist/self_communicator.h"

#include "core/error.h"
#include "core/memory.h"
#include "core/stream.h"

namespace ringtape {
namespace {

Work copy(const Tensor& from, const Tensor& to) {
  if (from.raw() != to.raw()) copy_bytes(to.raw(), to.device(), from.raw(), from.device(), from.bytes());
  return {};
}

}  // namespace

Work SelfCommunicator::do_all_reduce(const Call&, const Tensor& input, const Tensor& output) {
  return copy(input, output);
}

Work SelfCommunicator::do_reduce(const Call&, const Tensor& input, const Tensor& output) {
  return copy(input, output);
}

Work SelfCommunicator::do_broadcast(const Call&, const Tensor&) {
  return {};
}

Work SelfCommunicator::do_all_gather(const Parts& parts) {
  return copy(parts.input, parts.output);
}

Work SelfCommunicator::do_reduce_scatter(const Parts& parts) {
  return copy(parts.input, parts.output);
}

Work SelfCommunicator::do_exchange(const Call&, std::vector<Transfer> sends, std::vector<Transfer> receives) {
  check(sends.size() == receives.size(),
        "exchange: {} sends and {} receives with one rank, expected the same number", sends.size(),
        receives.size());
  for (std::size_t i = 0; i < sends.size(); ++i) {
    const Tensor &from = sends[i].tensor, &to = receives[i].tensor;
    check(from.elements() == to.elements(),
          "exchange: {} sent and {} received, expected the same number of elements", describe(from),
          describe(to));
    copy(from, to);
  }
  return {};
}

void SelfCommunicator::do_barrier(const Call&, Seconds) {
  Stream::current(device()).synchronize();
}

std::shared_ptr<Communicator> SelfCommunicator::do_split(const Call&, int color, int) {
  if (color < 0) return nullptr;
  return std::make_shared<SelfCommunicator>(device(), timeout());
}

}  // namespace ringtape
