#include "dist/communicator.h"

#include <functional>
#include <numeric>
#include <utility>

#include "core/error.h"

namespace ringtape {
namespace {

bool is_reducible(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::f16 || dtype == DType::bf16 ||
         dtype == DType::i32 || dtype == DType::i64;
}

/// `count` elements of `tensor` from `first` on.
Tensor part_of(const Tensor& tensor, std::int64_t first, std::int64_t count) {
  return tensor.alias({count}, first);
}

bool overlap(const Tensor& a, const Tensor& b) {
  const auto begin = [](const Tensor& t) { return static_cast<const char*>(t.raw()); };
  const std::less<const char*> before;
  return a.bytes() > 0 && b.bytes() > 0 && before(begin(a), begin(b) + b.bytes()) &&
         before(begin(b), begin(a) + a.bytes());
}

/// `whole` and `part` share no memory, or `part` is the elements of `whole` from `first` on.
bool is_apart_or_in_place(const Tensor& whole, const Tensor& part, std::int64_t first) {
  if (!overlap(whole, part)) return true;
  return part.raw() ==
         static_cast<char*>(whole.raw()) + first * static_cast<std::int64_t>(size_of(whole.dtype()));
}

std::int64_t sum(std::span<const std::int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

}  // namespace

Communicator::Communicator(int rank, int size, Device device, Seconds timeout)
    : rank_(rank), size_(size), device_(device), timeout_(timeout) {
  check(timeout.count() > 0, "communicator: timeout of {} s, expected more than 0", timeout.count());
}

Call Communicator::next_call(CommOperation operation, DType dtype, std::int64_t elements, int root) {
  Call call;
  call.operation = operation;
  call.dtype = dtype;
  call.root = root;
  call.elements = elements;
  call.sequence = operation == CommOperation::exchange ? exchanges_++ : collectives_++;
  CollectiveCount& count = counts_[static_cast<std::size_t>(operation)];
  ++count.calls;
  count.bytes += static_cast<std::uint64_t>(elements) * size_of(dtype);
  return call;
}

Call Communicator::next_call_of_parts(CommOperation operation, DType dtype,
                                      std::span<const std::int64_t> counts, int root) {
  Call call = next_call(operation, dtype, sum(counts), root);
  call.counts = hash_of_counts(counts);
  return call;
}

Call Communicator::next_reduction(CommOperation operation, DType dtype, std::int64_t elements, ReduceOp op,
                                  int root) {
  check(op != ReduceOp::mean || is_floating(dtype), "{}: mean of {}, expected a floating dtype",
        name_of(operation), name_of(dtype));
  Call call = next_call(operation, dtype, elements, root);
  call.op = op;
  call.reduces = 1;
  return call;
}

void Communicator::check_tensor(CommOperation operation, const char* name, const Tensor& tensor) const {
  check(tensor.defined(), "{}: {} is undefined", name_of(operation), name);
  check(tensor.device() == device_ && is_reducible(tensor.dtype()),
        "{}: {} is {}, expected f32, f64, f16, bf16, i32 or i64 on {}", name_of(operation), name,
        describe(tensor), to_string(device_));
  // Waits here for a gather of its values: the thread that runs operations must not wait for one.
  tensor.raw();
}

void Communicator::check_pair(CommOperation operation, const Tensor& input, const Tensor& output) const {
  check_tensor(operation, "input", input);
  check_tensor(operation, "output", output);
  check(input.dtype() == output.dtype(), "{}: input is {} and output {}, expected the same dtype",
        name_of(operation), describe(input), describe(output));
}

void Communicator::check_root(CommOperation operation, int root) const {
  check(root >= 0 && root < size_, "{}: root is rank {}, expected 0 to {}", name_of(operation), root,
        size_ - 1);
}

std::vector<std::int64_t> Communicator::parts(CommOperation operation, std::span<const std::int64_t> counts,
                                              std::int64_t own) const {
  if (counts.empty()) return std::vector<std::int64_t>(static_cast<std::size_t>(size_), own);
  check(std::ssize(counts) == size_, "{}: {} counts for {} ranks", name_of(operation), counts.size(), size_);
  for (std::int64_t count : counts) check(count >= 0, "{}: a count of {}", name_of(operation), count);
  check(counts[rank_] == own, "{}: rank {} has {} elements, but its count is {}", name_of(operation), rank_,
        own, counts[rank_]);
  return {counts.begin(), counts.end()};
}

Work Communicator::all_reduce(const Tensor& input, const Tensor& output, ReduceOp op) {
  check_pair(CommOperation::all_reduce, input, output);
  check(input.elements() == output.elements() && is_apart_or_in_place(output, input, 0),
        "all_reduce: input is {} and output {}, expected the same number of elements, in the same memory or "
        "separate",
        describe(input), describe(output));
  output.bump_version();
  return do_all_reduce(next_reduction(CommOperation::all_reduce, input.dtype(), input.elements(), op), input,
                       output);
}

Work Communicator::reduce(const Tensor& input, const Tensor& output, ReduceOp op, int root) {
  check_root(CommOperation::reduce, root);
  check_tensor(CommOperation::reduce, "input", input);
  if (rank_ == root) {
    check_pair(CommOperation::reduce, input, output);
    check(input.elements() == output.elements() && is_apart_or_in_place(output, input, 0),
          "reduce: input is {} and output {}, expected the same number of elements, in the same memory or "
          "separate",
          describe(input), describe(output));
    output.bump_version();
  }
  return do_reduce(next_reduction(CommOperation::reduce, input.dtype(), input.elements(), op, root), input,
                   output);
}

Work Communicator::broadcast(const Tensor& tensor, int root) {
  check_root(CommOperation::broadcast, root);
  check_tensor(CommOperation::broadcast, "tensor", tensor);
  if (rank_ != root) tensor.bump_version();
  return do_broadcast(next_call(CommOperation::broadcast, tensor.dtype(), tensor.elements(), root), tensor);
}

Work Communicator::all_gather(const Tensor& input, const Tensor& output,
                              std::span<const std::int64_t> counts) {
  check_pair(CommOperation::all_gather, input, output);
  std::vector<std::int64_t> of_ranks = parts(CommOperation::all_gather, counts, input.elements());
  const std::int64_t all = sum(of_ranks), first = sum(std::span(of_ranks).first(rank_));
  check(output.elements() == all && is_apart_or_in_place(output, input, first),
        "all_gather: output is {}, expected {} elements, with the input separate or in the part of rank {}",
        describe(output), all, rank_);
  output.bump_version();
  const Call call = next_call_of_parts(CommOperation::all_gather, input.dtype(), of_ranks);
  return do_all_gather({call, input, output, std::move(of_ranks)});
}

Work Communicator::reduce_scatter(const Tensor& input, const Tensor& output, ReduceOp op,
                                  std::span<const std::int64_t> counts) {
  check_pair(CommOperation::reduce_scatter, input, output);
  std::vector<std::int64_t> of_ranks = parts(CommOperation::reduce_scatter, counts, output.elements());
  const std::int64_t all = sum(of_ranks), first = sum(std::span(of_ranks).first(rank_));
  check(
      input.elements() == all && is_apart_or_in_place(input, output, first),
      "reduce_scatter: input is {}, expected {} elements, with the output separate or in the part of rank {}",
      describe(input), all, rank_);
  output.bump_version();
  Call call = next_reduction(CommOperation::reduce_scatter, input.dtype(), all, op);
  call.counts = hash_of_counts(of_ranks);
  return do_reduce_scatter({call, input, output, std::move(of_ranks)});
}

Work Communicator::gather(const Tensor& input, const Tensor& output, int root,
                          std::span<const std::int64_t> counts) {
  check_root(CommOperation::gather, root);
  check_tensor(CommOperation::gather, "input", input);
  const std::vector<std::int64_t> of_ranks = parts(CommOperation::gather, counts, input.elements());
  const std::int64_t all = sum(of_ranks);
  std::vector<Transfer> sends, receives;
  if (rank_ != root) {
    sends.push_back({input, root});
  } else {
    check_pair(CommOperation::gather, input, output);
    const std::int64_t own = sum(std::span(of_ranks).first(rank_));
    check(output.elements() == all && is_apart_or_in_place(output, input, own),
          "gather: output is {}, expected {} elements, with the input separate or in the part of rank {}",
          describe(output), all, rank_);
    output.bump_version();
    std::int64_t first = 0;
    for (int peer = 0; peer < size_; first += of_ranks[peer++]) {
      Tensor part = part_of(output, first, of_ranks[peer]);
      if (peer != rank_) {
        receives.push_back({part, peer});
      } else if (part.raw() != input.raw()) {
        part.copy_from(input.alias(part.shape()));
      }
    }
  }
  return exchange_as(next_call_of_parts(CommOperation::gather, input.dtype(), of_ranks, root),
                     std::move(sends), std::move(receives));
}

Work Communicator::scatter(const Tensor& input, const Tensor& output, int root,
                           std::span<const std::int64_t> counts) {
  check_root(CommOperation::scatter, root);
  check_tensor(CommOperation::scatter, "output", output);
  const std::vector<std::int64_t> of_ranks = parts(CommOperation::scatter, counts, output.elements());
  const std::int64_t all = sum(of_ranks);
  std::vector<Transfer> sends, receives;
  if (rank_ != root) {
    receives.push_back({output, root});
  } else {
    check_pair(CommOperation::scatter, input, output);
    const std::int64_t own = sum(std::span(of_ranks).first(rank_));
    check(input.elements() == all && is_apart_or_in_place(input, output, own),
          "scatter: input is {}, expected {} elements, with the output separate or in the part of rank {}",
          describe(input), all, rank_);
    std::int64_t first = 0;
    for (int peer = 0; peer < size_; first += of_ranks[peer++]) {
      const Tensor part = part_of(input, first, of_ranks[peer]);
      if (peer != rank_) {
        sends.push_back({part, peer});
      } else if (part.raw() != output.raw()) {
        output.alias(part.shape()).copy_from(part);
      }
    }
  }
  output.bump_version();
  return exchange_as(next_call_of_parts(CommOperation::scatter, output.dtype(), of_ranks, root),
                     std::move(sends), std::move(receives));
}

Work Communicator::exchange(std::vector<Transfer> sends, std::vector<Transfer> receives) {
  if (sends.empty() && receives.empty()) return {};
  const DType dtype = (sends.empty() ? receives : sends).front().tensor.dtype();
  std::int64_t elements = 0;
  for (const std::vector<Transfer>* transfers : {&sends, &receives}) {
    for (const Transfer& transfer : *transfers) {
      check_tensor(CommOperation::exchange, "a tensor", transfer.tensor);
      check(transfer.tensor.dtype() == dtype, "exchange: {} and {} in one call, expected one dtype",
            name_of(dtype), name_of(transfer.tensor.dtype()));
      check(transfer.peer >= 0 && transfer.peer < size_, "exchange: peer {}, expected 0 to {}", transfer.peer,
            size_ - 1);
    }
  }
  for (const Transfer& transfer : sends) elements += transfer.tensor.elements();
  for (const Transfer& transfer : receives) transfer.tensor.bump_version();
  const Call call = next_call(CommOperation::exchange, dtype, elements);
  if (sends.empty()) --counts_[static_cast<std::size_t>(CommOperation::exchange)].calls;
  return exchange_as(call, std::move(sends), std::move(receives));
}

Work Communicator::exchange_as(const Call& call, std::vector<Transfer> sends,
                               std::vector<Transfer> receives) {
  for (const Transfer& transfer : sends) traffic_.sent += transfer.tensor.bytes();
  for (const Transfer& transfer : receives) traffic_.received += transfer.tensor.bytes();
  return do_exchange(call, std::move(sends), std::move(receives));
}

void Communicator::barrier(Seconds deadline) {
  check(deadline.count() > 0, "barrier: deadline of {} s, expected more than 0", deadline.count());
  do_barrier(next_call(CommOperation::barrier, DType::i32, 0), deadline);
}

std::shared_ptr<Communicator> Communicator::split(int color, int key) {
  const std::shared_ptr<Communicator> part =
      do_split(next_call(CommOperation::split, DType::i32, 0), color, key);
  if (part != nullptr) part->set_group(group_);
  return part;
}

std::function<void(const Tensor&)> all_reduce_over(std::shared_ptr<Communicator> comm, ReduceOp op) {
  return [comm = std::move(comm), op](const Tensor& tensor) { comm->all_reduce(tensor, op).wait(); };
}

}  // namespace ringtape
