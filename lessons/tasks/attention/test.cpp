#include <algorithm>
#include <cmath>
#include <vector>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "lessons/tasks/attention/task.h"
#include "lessons/tasks/model.h"
#include "lessons/tasks/tests.h"

namespace ringtape::tasks {
namespace {

using Attend = decltype(::attend);
using Finish = decltype(::finish);
using Values = std::vector<float>;

struct Learners {
  Attend* attend;
  Finish* finish;
};

/// A query of `width` elements against keys and values that come in tiles. Each tile is a copy, which is
/// overwritten when the call returns.
Values result_of(const Learners& learners, const Values& query, const Values& keys, const Values& values,
                 std::size_t tile) {
  const std::size_t width = query.size(), count = keys.size() / width;
  Attention state;
  state.result.assign(width, 0.0F);
  for (std::size_t first = 0; first < count; first += tile) {
    const std::size_t rows = std::min(tile, count - first);
    const auto part = [&](const Values& all) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first * width);
      return Values(begin, begin + static_cast<std::ptrdiff_t>(rows * width));
    };
    Values some_keys = part(keys), some_values = part(values);
    learners.attend(state, query.data(), some_keys.data(), some_values.data(), static_cast<int>(rows));
    std::fill(some_keys.begin(), some_keys.end(), NAN);
    std::fill(some_values.begin(), some_values.end(), NAN);
  }
  Values out(width, NAN);
  learners.finish(state, out.data());
  return out;
}

/// The weighted sum of the values, in double; with `scaled` the scores are divided by the root of the width,
/// with `normed` the sum is divided by that of the weights.
std::vector<double> reference(const Values& query, const Values& keys, const Values& values,
                              bool scaled = true, bool normed = true) {
  const std::size_t width = query.size(), count = keys.size() / width;
  std::vector<double> scores(count), result(width);
  for (std::size_t key = 0; key < count; ++key) {
    for (std::size_t i = 0; i < width; ++i)
      scores[key] += static_cast<double>(query[i]) * static_cast<double>(keys[key * width + i]);
    if (scaled) scores[key] /= std::sqrt(static_cast<double>(width));
  }
  const double maximum = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (std::size_t key = 0; key < count; ++key) {
    const double weight = std::exp(scores[key] - maximum);
    sum += weight;
    for (std::size_t i = 0; i < width; ++i)
      result[i] += weight * static_cast<double>(values[key * width + i]);
  }
  if (normed)
    for (double& element : result) element /= sum;
  return result;
}

bool same(const Values& found, const std::vector<double>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (!close(found[i], expected[i], 1e-4)) return false;
  return true;
}

void test_one_key(const Learners& learners) {
  const Values found = result_of(learners, {1, 2}, {3, 4}, {5, 6}, 1);
  if (std::isnan(found[0])) wrong("one key: finish writes nothing, or NaN");
  if (found[0] == 0) wrong("one key: the result is 0, expected the key's value, 5 and 6");
  if (!same(found, {5, 6})) {
    wrong("one key: the result is {:g} and {:g}, expected the key's value, 5 and 6: its weight is 1",
          found[0], found[1]);
  }
}

void check_result(const Learners& learners, const char* what, const Values& query, const Values& keys,
                  const Values& values, std::size_t tile) {
  const Values found = result_of(learners, query, keys, values, tile);
  const std::vector<double> expected = reference(query, keys, values);
  if (same(found, expected)) return;
  if (same(found, reference(query, keys, values, false))) {
    wrong("{}: the scores have to be divided by the root of the number of elements, sqrt({})", what,
          query.size());
  }
  if (same(found, reference(query, keys, values, true, false))) {
    wrong(
        "{}: the result is {:.5f}, the weighted sum of the values; finish has to divide by the sum of the "
        "weights",
        what, found[0]);
  }
  wrong(
      "{}: the result is {:.5f}, expected {:.5f}: does each key have its own row of `keys` and of `values`, "
      "and "
      "the weight e^(its score - the largest score so far), and is that kept?",
      what, found[0], expected[0]);
}

/// Scores 3, 2, 1 and then 1, 2, 3: with the largest first, no maximum changes.
void test_order_of_scores(const Learners& learners) {
  const Values query = {1, 0, 0, 0};
  const Values falling = {6, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0}, rising = {2, 0, 0, 0, 4, 0, 0, 0, 6, 0, 0, 0};
  const Values values = {1, 0, 0, 0, 10, 0, 0, 0, 100, 0, 0, 0};
  check_result(learners, "scores 3, 2 and 1", query, falling, values, 3);
  const Values found = result_of(learners, query, rising, values, 3);
  const std::vector<double> expected = reference(query, rising, values);
  if (!same(found, expected)) {
    wrong(
        "scores 1, 2 and 3: the result is {:.5f}, expected {:.5f}, and with scores 3, 2 and 1 it is right: "
        "when "
        "the maximum rises, the sum and the result so far have to be multiplied by e^(old maximum - new "
        "maximum)",
        found[0], expected[0]);
  }
}

void test_tiles(const Learners& learners) {
  Values query, keys, values;
  for (int i = 0; i < 8; ++i) query.push_back(static_cast<float>(i % 3) - 0.5F);
  for (int i = 0; i < 8 * 11; ++i) {
    keys.push_back(static_cast<float>(i * 7 % 13) / 4 - 1.5F);
    values.push_back(static_cast<float>(i * 5 % 17) - 8);
  }
  for (const std::size_t tile : {11, 4, 1})
    check_result(learners,
                 tile == 11  ? "11 keys in one tile"
                 : tile == 4 ? "11 keys in tiles of 4"
                             : "11 keys one by one",
                 query, keys, values, tile);
}

void test_large_scores(const Learners& learners) {
  const Values query = {40, 0, 0, 0}, values = {1, 0, 0, 0, 2, 0, 0, 0};
  const Values high = {50, 0, 0, 0, 50.05F, 0, 0, 0}, low = {-50, 0, 0, 0, -50.05F, 0, 0, 0};
  const Values of_high = result_of(learners, query, high, values, 1);
  const std::vector<double> expected_of_high = reference(query, high, values);
  if (!close(of_high[0], expected_of_high[0], 1e-3)) {
    wrong("scores 1000 and 1001: the result is {:g}, expected {:.5f}: no exponent may be above 0", of_high[0],
          expected_of_high[0]);
  }
  const Values of_low = result_of(learners, query, low, values, 1);
  const std::vector<double> expected_of_low = reference(query, low, values);
  if (!close(of_low[0], expected_of_low[0], 1e-3)) {
    wrong(
        "scores -1000 and -1001: the result is {:g}, expected {:.5f}: the largest score so far may be below "
        "0, and its weight is 1",
        of_low[0], expected_of_low[0]);
  }
}

/// A causal model of text: the loss of its tokens' successors.
struct TextModel {
  static constexpr std::int64_t kTokens = 24, kVocabulary = 8, kWidth = 16;

  TextModel() {
    manual_seed(0);
    for (Tensor* parameter : {&embeddings, &projection, &output}) parameter->set_requires_grad(true);
    std::vector<std::int64_t> some;
    for (std::int64_t i = 0; i <= kTokens; ++i) some.push_back(i * i % kVocabulary);
    tokens = from_vector(std::vector(some.begin(), some.end() - 1), {1, kTokens});
    successors = from_vector(std::vector(some.begin() + 1, some.end()), {kTokens});
  }
  Tensor qkv() const { return linear(embedding(tokens, embeddings), projection); }
  Tensor loss(const Tensor& attended) const {
    return cross_entropy(linear(view(attended, {kTokens, kWidth}), output), successors);
  }

  Tensor embeddings = randn({kVocabulary, kWidth}),
         projection = randn({3 * kWidth, kWidth}, DType::f32, {}, 0, 0.25),
         output = randn({kVocabulary, kWidth}, DType::f32, {}, 0, 0.25);
  Tensor tokens, successors;
};

/// The library's causal_self_attention of one head, by the learner's functions.
Tensor attention_of(const Learners& learners, const Tensor& qkv) {
  constexpr std::size_t kWidth = TextModel::kWidth;
  const auto* const row = qkv.data<float>();
  const auto part = [&](std::size_t token, std::size_t which) {
    const float* const begin = row + (token * 3 + which) * kWidth;
    return Values(begin, begin + kWidth);
  };
  Values keys, values, result;
  for (std::size_t token = 0; token < static_cast<std::size_t>(TextModel::kTokens); ++token) {
    const Values key = part(token, 1), value = part(token, 2);
    keys.insert(keys.end(), key.begin(), key.end());
    values.insert(values.end(), value.begin(), value.end());
    const Values out = result_of(learners, part(token, 0), keys, values, 4);
    result.insert(result.end(), out.begin(), out.end());
  }
  return from_vector(result, {1, TextModel::kTokens, TextModel::kWidth});
}

}  // namespace

void test_attention(const LearnersFile& file) {
  const Learners learners = {file.function<Attend>("attend"), file.function<Finish>("finish")};
  test_one_key(learners);
  test_order_of_scores(learners);
  test_tiles(learners);
  test_large_scores(learners);
}

void run_attention(const LearnersFile& file) {
  const Learners learners = {file.function<Attend>("attend"), file.function<Finish>("finish")};
  TextModel model;
  std::vector<double> by_mine, by_library;
  for (int step = 0; step < 60; ++step) {
    {
      const NoGrad no_grad;
      by_mine.push_back(model.loss(attention_of(learners, model.qkv())).item());
    }
    const Tensor loss = model.loss(causal_self_attention(model.qkv(), 1, 1));
    loss.backward();
    by_library.push_back(loss.item());
    for (Tensor* parameter : {&model.embeddings, &model.projection, &model.output}) {
      const Values gradient = parameter->grad().to_vector<float>();
      Values values = parameter->to_vector<float>();
      for (std::size_t i = 0; i < values.size(); ++i) values[i] -= 0.3F * gradient[i];
      *parameter = from_vector(values, parameter->shape());
      parameter->set_requires_grad(true);
    }
  }
  show_losses("your attention", by_mine, "the library's", by_library);
}

}  // namespace ringtape::tasks
