// A reduce simulated on one device, compared with the real all_reduce of several ranks.
//
//   mpirun -n 4 simulated_reduce
#include <cmath>
#include <vector>

#include "autograd/ops.h"
#include "cli/command_line.h"
#include "core/error.h"
#include "dist/ring_all_reduce.h"
#include "lessons/ranks.h"

namespace {

using namespace ringtape;
using namespace ringtape::lessons;

using Values = std::vector<float>;

/// A rank's gradient, a function of its number, so that every rank can compute it.
Tensor gradient_of(int rank, std::int64_t elements) {
  Generator generator(static_cast<std::uint64_t>(rank));
  return rand({elements}, DType::f32, {}, 0, 1, generator);
}

/// All ranks' gradients, side by side on this device, added up in the order 0, 1, 2, ...
Values simulate(int world_size, std::int64_t elements) {
  std::vector<Tensor> gradients;
  for (int rank = 0; rank < world_size; ++rank) gradients.push_back(gradient_of(rank, elements));
  return sum(stack(gradients), 0).to_vector<float>();
}

/// The same in the ring's order: chunk c begins on rank c and goes round from there.
Values simulate_ring(int world_size, std::int64_t elements) {
  std::vector<Values> gradients;
  for (int rank = 0; rank < world_size; ++rank)
    gradients.push_back(gradient_of(rank, elements).to_vector<float>());
  Values sum(static_cast<std::size_t>(elements));
  for (int chunk = 0; chunk < world_size; ++chunk) {
    const auto [first, count] = ring_chunk(elements, world_size, chunk);
    for (std::int64_t i = first; i < first + count; ++i) {
      const auto k = static_cast<std::size_t>(i);
      sum[k] = gradients[static_cast<std::size_t>(chunk)][k];
      for (int hop = 1; hop < world_size; ++hop) {
        sum[k] += gradients[static_cast<std::size_t>((chunk + hop) % world_size)][k];
      }
    }
  }
  return sum;
}

/// A reduce to rank 0 and a broadcast, by sends and receives: together an all_reduce.
void reduce_and_broadcast(Communicator& comm, const Tensor& gradient) {
  if (comm.rank() != 0) {
    comm.exchange({{gradient, 0}}, {}).wait();
    comm.exchange({}, {{gradient, 0}}).wait();
    return;
  }
  Tensor sum = gradient;
  for (int rank = 1; rank < comm.size(); ++rank) {
    const Tensor received = empty({gradient.elements()});
    comm.exchange({}, {{received, rank}}).wait();
    sum = add(sum, received);
  }
  for (int rank = 1; rank < comm.size(); ++rank) comm.exchange({{sum, rank}}, {}).wait();
  Tensor(gradient).copy_from(sum);
}

struct Result {
  Values values;
  double sent;  ///< by rank 0, over the bytes of the gradient
};

template <class Operation>
Result run(Communicator& comm, std::int64_t elements, const Operation& operation) {
  const Tensor gradient = gradient_of(comm.rank(), elements);
  const std::uint64_t before = comm.traffic().sent;
  operation(gradient);
  const std::uint64_t sent = comm.traffic().sent - before;
  return {gradient.to_vector<float>(), static_cast<double>(sent) / static_cast<double>(gradient.bytes())};
}

/// `order`: whether both add in the same order, so that every bit has to agree.
void compare(const char* name, const Values& found, const Values& simulated, bool order) {
  double largest = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    largest = std::fmax(largest, std::fabs(found[i] - simulated[i]) / simulated[i]);
  }
  check(order ? largest == 0 : largest < 1e-6, "{} off by {:.1e}", name, largest);
  fmt::print("{:<38} the same {}\n", name, order ? "in every bit" : "but for rounding, below 1e-6");
}

void show(Communicator& comm, std::int64_t elements) {
  const Result simple =
      run(comm, elements, [&](const Tensor& gradient) { reduce_and_broadcast(comm, gradient); });
  const Result ring =
      run(comm, elements, [&](const Tensor& gradient) { ring_all_reduce(comm, gradient, ReduceOp::sum); });
  const Result real =
      run(comm, elements, [&](const Tensor& gradient) { comm.all_reduce(gradient, ReduceOp::sum).wait(); });
  if (!prints(comm)) return;

  const int n = comm.size();
  fmt::print("{} ranks, {} elements each; the first sum is {:.4f}\n", n, elements, real.values[0]);
  compare("reduce and broadcast, order of ranks:", simple.values, simulate(n, elements), true);
  compare("ring_all_reduce, order of the ring:", ring.values, simulate_ring(n, elements), true);
  compare("all_reduce, an order of its own:", real.values, simulate(n, elements), false);
  std::size_t differing = 0;
  const Values in_order = simulate(n, elements);
  for (std::size_t i = 0; i < in_order.size(); ++i) differing += in_order[i] != ring.values[i];
  fmt::print("the two orders differ in {:.0f}% of the sums\n",
             100.0 * static_cast<double>(differing) / static_cast<double>(elements));
  fmt::print("rank 0 sent, in gradients: {:.2f} by reduce and broadcast, {:.2f} by the ring\n", simple.sent,
             ring.sent);
}

}  // namespace

int main(int argc, char** argv) {
  std::int64_t elements = 1'000'000;
  CommandLine app("A reduce on one device, compared with a real one.\nExample: mpirun -n 4 simulated_reduce");
  app.option("--elements", between(elements, 1, 1e8), "elements of each rank's gradient");
  return app.run(argc, argv, [&] {
    const auto comm = connect_ranks();
    if (has_ranks(*comm, 2, "simulated_reduce")) show(*comm, elements);
  });
}
