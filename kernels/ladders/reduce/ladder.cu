#include "kernels/common/kernel.h"
//
#include "kernels/ladders/reduce/reduce.h"

namespace ringtape::RINGTAPE_TARGET {

void reduce_rung(const Stream& stream, int version, const ReduceProblem& problem) {
  constexpr void (*kRungs[])(const Stream&, const ReduceProblem&) = {reduce_interleaved, reduce_packed,
                                                                     reduce_sequential,  reduce_first_add,
                                                                     reduce_shuffle,     reduce_single_pass};
  kRungs[version - 1](stream, problem);
}

}  // namespace ringtape::RINGTAPE_TARGET
