#include "dist/used_parameters.h"

#include <algorithm>

#include "autograd/tape.h"
#include "core/stream.h"
#include "kernels/elementwise.h"

namespace ringtape {
namespace {

bool has_grad(const ArenaEntry& entry) {
  return entry.meta->grad_written && entry.meta->requires_grad;
}

}  // namespace

UsedParameters::UsedParameters(const ParameterArena& arena)
    : arena_(arena), is_used_(arena.entries().size(), 0), was_absent_(arena.entries().size(), 0) {}

void UsedParameters::add_bucket(const GradientBucket& bucket) {
  for (std::size_t i = bucket.first_entry; i < bucket.first_entry + bucket.entries; ++i) {
    if (!has_grad(arena_.entries()[i])) {
      was_absent_[i] = 1;
    } else if (was_absent_[i] == 0) {
      is_used_[i] = 1;
    }
  }
}

void UsedParameters::add_bucket_and_fill(const GradientBucket& bucket) {
  add_bucket(bucket);
  for (std::size_t i = bucket.first_entry; i < bucket.first_entry + bucket.entries; ++i) {
    if (has_grad(arena_.entries()[i])) continue;
    AutogradMeta& meta = *arena_.entries()[i].meta;
    fill(Stream::current(arena_.device()), DType::f32, meta.grad.raw(), meta.grad.elements(), 0.0);
    meta.grad_written = meta.requires_grad;
  }
}

std::vector<std::int32_t> UsedParameters::take() {
  std::vector<std::int32_t> is_used = is_used_;
  std::fill(is_used_.begin(), is_used_.end(), 0);
  std::fill(was_absent_.begin(), was_absent_.end(), 0);
  return is_used;
}

}  // namespace ringtape
