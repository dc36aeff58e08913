#include "gpu_model/nccl/collective.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "gpu_model/nccl/reduce.h"

namespace gpu_model::nccl {
namespace {

/// The other ranks' contributions to the elements whose result this rank computes, by rank.
using Contributions = std::vector<std::vector<char>>;

struct Plan {
  const NcclCall& call;
  int ranks, rank;
  std::size_t element = size_of(call.shape.type);

  std::size_t whole() const { return call.shape.count * element; }
  char* send_at(std::size_t offset) const { return const_cast<char*>(call.send) + offset; }
  template <class Body>
  void for_each_peer(const Body& body) const {
    for (int peer = 0; peer < ranks; ++peer) {
      if (peer != rank) body(peer);
    }
  }

  /// Adds receives of `bytes` from every peer to the step.
  std::shared_ptr<Contributions> gather(Step& step, std::size_t bytes) const {
    auto contributions = std::make_shared<Contributions>(static_cast<std::size_t>(ranks));
    for_each_peer([&](int peer) {
      std::vector<char>& part = (*contributions)[static_cast<std::size_t>(peer)];
      part.resize(bytes);
      step.transfers.push_back({peer, false, part.data(), bytes});
    });
    return contributions;
  }

  /// Combines the contributions of the peers and of this rank, which is last in the ring's order, in
  /// `result`.
  std::function<void()> combine_to(char* result, const char* own,
                                   std::shared_ptr<Contributions> contributions, std::size_t bytes) const {
    return [shape = call.shape, ranks = ranks, rank = rank, element = element, result, own, bytes,
            contributions = std::move(contributions)] {
      const std::size_t count = bytes / element;
      std::vector<char> sum, next;
      for (int i = 1; i <= ranks; ++i) {
        const int from = (rank + i) % ranks;
        const char* const elements =
            from == rank ? own : (*contributions)[static_cast<std::size_t>(from)].data();
        std::vector<char>& part = i == 1 ? sum : next;
        part.assign(elements, elements + bytes);
        prepare(shape.type, shape.op, ranks, part.data(), count);
        if (i > 1) combine(shape.type, shape.op, sum.data(), next.data(), count);
      }
      finish(shape.type, shape.op, ranks, sum.data(), count);
      if (bytes > 0) std::memcpy(result, sum.data(), bytes);
    };
  }

  std::vector<Step> all_reduce() const {
    const std::size_t n = static_cast<std::size_t>(ranks), count = call.shape.count,
                      part = (count + n - 1) / n;
    const auto begin = [&](int index) {
      return std::min(count, static_cast<std::size_t>(index) * part) * element;
    };
    const std::size_t own = begin(rank), own_bytes = begin(rank + 1) - own;
    Step scatter, gather_all;
    for_each_peer([&](int peer) {
      scatter.transfers.push_back({peer, true, send_at(begin(peer)), begin(peer + 1) - begin(peer)});
    });
    auto contributions = gather(scatter, own_bytes);
    scatter.then = combine_to(call.receive + own, call.send + own, std::move(contributions), own_bytes);
    for_each_peer([&](int peer) {
      gather_all.transfers.push_back({peer, true, call.receive + own, own_bytes});
      gather_all.transfers.push_back(
          {peer, false, call.receive + begin(peer), begin(peer + 1) - begin(peer)});
    });
    return {std::move(scatter), std::move(gather_all)};
  }

  std::vector<Step> broadcast() const {
    Step step;
    if (rank != call.shape.root) {
      step.transfers.push_back({call.shape.root, false, call.receive, whole()});
      return {std::move(step)};
    }
    for_each_peer([&](int peer) { step.transfers.push_back({peer, true, send_at(0), whole()}); });
    step.then = [to = call.receive, from = call.send, bytes = whole()] {
      if (bytes > 0) std::memmove(to, from, bytes);
    };
    return {std::move(step)};
  }

  std::vector<Step> reduce() const {
    Step step;
    if (rank != call.shape.root) {
      step.transfers.push_back({call.shape.root, true, send_at(0), whole()});
      return {std::move(step)};
    }
    auto contributions = gather(step, whole());
    step.then = combine_to(call.receive, call.send, std::move(contributions), whole());
    return {std::move(step)};
  }

  std::vector<Step> all_gather() const {
    Step step;
    for_each_peer([&](int peer) {
      step.transfers.push_back({peer, true, send_at(0), whole()});
      step.transfers.push_back(
          {peer, false, call.receive + static_cast<std::size_t>(peer) * whole(), whole()});
    });
    step.then = [to = call.receive + static_cast<std::size_t>(rank) * whole(), from = call.send,
                 bytes = whole()] {
      if (bytes > 0) std::memmove(to, from, bytes);
    };
    return {std::move(step)};
  }

  std::vector<Step> reduce_scatter() const {
    Step step;
    for_each_peer([&](int peer) {
      step.transfers.push_back({peer, true, send_at(static_cast<std::size_t>(peer) * whole()), whole()});
    });
    auto contributions = gather(step, whole());
    step.then = combine_to(call.receive, call.send + static_cast<std::size_t>(rank) * whole(),
                           std::move(contributions), whole());
    return {std::move(step)};
  }
};

}  // namespace

std::vector<Step> steps_of(const NcclCall& call, int ranks, int rank) {
  const Plan plan{call, ranks, rank};
  switch (call.shape.function) {
    case Function::all_reduce:
      return plan.all_reduce();
    case Function::broadcast:
      return plan.broadcast();
    case Function::reduce:
      return plan.reduce();
    case Function::all_gather:
      return plan.all_gather();
    case Function::reduce_scatter:
      return plan.reduce_scatter();
    case Function::send:
    case Function::receive:
      break;
  }
  return {};
}

}  // namespace gpu_model::nccl
