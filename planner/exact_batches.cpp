#include "planner/exact_batches.h"

#include <algorithm>
#include <numeric>

#include "planner/numbers.h"

namespace ringtape::planner {
namespace {

/// All divisors, in ascending order.
std::vector<std::int64_t> divisors_of(std::int64_t number) {
  std::vector<std::int64_t> small, large;
  for (std::int64_t d = 1; d <= number / d; ++d) {
    if (number % d != 0) continue;
    small.push_back(d);
    if (d != number / d) large.push_back(number / d);
  }
  small.insert(small.end(), large.rbegin(), large.rend());
  return small;
}

class Search {
 public:
  Search(const BatchShape& asked, const std::vector<BatchPart>& given, const BatchPart& missing,
         std::int64_t max_accumulation)
      : given_(given), missing_(missing), max_accumulation_(max_accumulation) {
    for (const BatchPart& part : given) asked_.*part.value = asked.*part.value;
  }

  /// The same target with another value of `part`, if the other given numbers divide it.
  void change(std::int64_t target, const BatchPart& part) { change(target, part, asked_); }

  /// The same, with each other given number reduced to its greatest common divisor with the target.
  void change_all(std::int64_t target, const BatchPart& part) {
    BatchShape shape;
    for (const BatchPart& other : given_) {
      if (other.value == part.value) continue;
      shape.*other.value = std::gcd(asked_.*other.value, target / shape.global_batch());
    }
    change(target, part, shape);
  }

  /// Another global batch: `value` times the given numbers.
  void change_batch(std::int64_t value) {
    BatchShape shape = asked_;
    shape.*missing_.value = value;
    if (value > 0 && shape.accumulation <= max_accumulation_) add(shape);
  }

  std::int64_t product_of_given() const { return asked_.global_batch(); }
  const std::vector<BatchShape>& found() const { return found_; }

 private:
  void change(std::int64_t target, const BatchPart& part, BatchShape shape) {
    shape.*part.value = 1;
    const std::int64_t others = shape.global_batch();
    if (target % others != 0) return;
    std::optional<BatchShape> below, above;
    for (std::int64_t value : divisors_of(target / others)) {
      shape.*part.value = value;
      shape.*missing_.value = target / others / value;
      if (shape.accumulation > max_accumulation_) continue;
      if (value <= asked_.*part.value) below = shape;
      if (value > asked_.*part.value && !above) above = shape;
    }
    add(below);
    add(above);
  }

  void add(const std::optional<BatchShape>& shape) {
    if (!shape || std::find(found_.begin(), found_.end(), *shape) != found_.end()) return;
    found_.push_back(*shape);
  }

  BatchShape asked_;  // the given numbers; 1 elsewhere
  const std::vector<BatchPart>& given_;
  BatchPart missing_;
  std::int64_t max_accumulation_;
  std::vector<BatchShape> found_;
};

}  // namespace

std::vector<BatchShape> exact_batches(std::int64_t target, const BatchShape& asked,
                                      const std::vector<BatchPart>& given, const BatchPart& missing,
                                      std::int64_t max_accumulation) {
  Search search(asked, given, missing, max_accumulation);
  for (const BatchPart& part : given) search.change(target, part);
  if (search.found().empty()) {
    for (const BatchPart& part : given) search.change_all(target, part);
  }
  const std::int64_t whole = target / search.product_of_given();
  search.change_batch(whole);
  search.change_batch(whole + 1);
  return search.found();
}

}  // namespace ringtape::planner
