#include <algorithm>
#include <cmath>
#include <functional>

#include "plot/line_chart.h"
#include "train/report/document.h"

namespace ringtape::report {
namespace {

using svg::Point;
using svg::Series;

std::vector<Point> over_steps(const RunReport& report,
                              const std::function<double(const StepRecord&)>& value) {
  std::vector<Point> points;
  for (const StepRecord& step : report.curves.steps) {
    points.push_back({static_cast<double>(step.step), value(step)});
  }
  return points;
}

std::vector<Point> over_tests(const RunReport& report, double EvaluationPoint::*value, double factor = 1) {
  std::vector<Point> points;
  for (const EvaluationPoint& test : report.curves.evaluations) {
    points.push_back({static_cast<double>(test.step), test.*value * factor});
  }
  return points;
}

bool has_figures(const std::vector<Point>& points) {
  return std::any_of(points.begin(), points.end(), [](const Point& p) { return std::isfinite(p.y); });
}

Json chart(const char* caption, const std::string& y_name, bool from_zero,
           const std::vector<Series>& series) {
  const svg::Canvas canvas = svg::line_chart({.title = caption,
                                              .x_name = "step",
                                              .y_name = y_name,
                                              .width = 480,
                                              .height = 260,
                                              .from_zero = from_zero},
                                             series);
  return {{"caption", caption}, {"svg", canvas.element()}};
}

double percent_correct(const StepRecord& step) {
  if (step.correct < 0 || step.targets == 0) return std::nan("");
  return 100.0 * static_cast<double>(step.correct) / static_cast<double>(step.targets);
}

}  // namespace

Json curves_of(const RunReport& report) {
  if (report.curves.steps.empty()) return {};
  Json::Array charts = {chart("Loss", "", false,
                              {{"training", over_steps(report, [](const auto& s) { return s.loss; })},
                               {"test", over_tests(report, &EvaluationPoint::loss), true}})};
  const std::vector<Point> accuracy = over_steps(report, percent_correct);
  if (has_figures(accuracy)) {
    charts.push_back(chart(
        "Accuracy", "%", false,
        {{"training batch", accuracy}, {"test", over_tests(report, &EvaluationPoint::accuracy, 100), true}}));
  }
  charts.push_back(
      chart("Learning rate", "", true, {{"rate", over_steps(report, [](const auto& s) { return s.rate; })}}));
  const std::vector<Point> norms = over_steps(report, [](const auto& s) { return s.grad_norm; });
  if (has_figures(norms)) charts.push_back(chart("Gradient norm", "", false, {{"norm", norms}}));
  const std::vector<Point> rates = over_steps(report, [](const auto& s) { return s.samples_per_second; });
  if (has_figures(rates)) charts.push_back(chart("Throughput", "samples/s", true, {{"rate", rates}}));
  return {{"charts", charts}, {"has_bands", report.curves.steps.size() > svg::kMaxGroups}};
}

}  // namespace ringtape::report
