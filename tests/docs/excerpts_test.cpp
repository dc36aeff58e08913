// The programs that the docs quote (tests/docs/excerpts_test.py), run.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "autograd/creation.h"
#include "autograd/ops.h"
#include "autograd/tape_graph.h"
#include "nn/arena.h"
#include "nn/layers.h"
#include "optim/lamb.h"
#include "profile/tape_picture.h"
#include "tests/support/catch.h"
#include "tests/support/xml.h"

namespace ringtape::test {
namespace {

/// Two layers, of which the second is the head.
class Classifier : public Module {
 public:
  Classifier() {
    body_ = register_module("body", std::make_shared<Linear>(4, 8));
    head_ = register_module("head", std::make_shared<Linear>(8, 3));
  }
  Tensor forward(const Tensor& x) override { return (*head_)((*body_)(x)); }

 private:
  std::shared_ptr<Linear> body_, head_;
};

/// |now - before| / |before|
double relative_change(const std::vector<float>& before, const Tensor& now) {
  const std::vector<float> after = now.to_vector<float>();
  double change = 0, norm = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    change += std::pow(double{after[i]} - before[i], 2);
    norm += std::pow(before[i], 2);
  }
  return std::sqrt(change / norm);
}

}  // namespace

TEST_CASE("docs/report.md: the tape as a picture", "[docs]") {
  Classifier model;
  const TapeScope scope;
  const Tensor x = ones({5, 4});
  const Tensor labels = from_vector<std::int32_t>({0, 1, 2, 0, 1}, {5});
  const Tensor loss = cross_entropy(model(x), labels);
  const std::string picture = tape_svg(graph_of(Tape::current())).file();  // before backward() clears it
  CHECK(xml_error(picture) == "");
  CHECK(picture.find("cross_entropy") != std::string::npos);
}

TEST_CASE("docs/optimizers.md: a parameter group's factor of the learning rate", "[docs]") {
  Classifier model;
  ParameterArena parameters(model, Device{});
  const auto in_head = [](const ArenaEntry& entry) { return entry.name.starts_with("head."); };
  Lamb optimizer(parameters, {.learning_rate = 0.01, .weight_decay = 0.01},
                 {no_decay_below_two_dimensions(), {.name = "head", .contains = in_head, .lr_scale = 10}});
  // An update of a matrix by LAMB is as long as the learning rate times the matrix' norm.
  const std::vector<float> body = model.parameter("body.weight").to_vector<float>();
  const std::vector<float> head = model.parameter("head.weight").to_vector<float>();
  optimizer.zero_grad();
  sum(model(rand({5, 4}))).backward();
  optimizer.step();
  CHECK(relative_change(body, model.parameter("body.weight")) == Approx(0.01).epsilon(1e-4));
  CHECK(relative_change(head, model.parameter("head.weight")) == Approx(0.1).epsilon(1e-4));
}

}  // namespace ringtape::test
