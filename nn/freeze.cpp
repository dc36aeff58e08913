#include "nn/freeze.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.h"
#include "core/quote.h"

namespace ringtape {
namespace {

/// The smallest number of characters to insert, remove or replace in the pattern for it to match the name:
/// the Levenshtein distance, with * matching any text.
std::size_t edits_to_match(std::string_view pattern, std::string_view name) {
  // edits[j]: of the pattern so far and the first j characters of the name.
  std::vector<std::size_t> edits(name.size() + 1);
  for (std::size_t j = 0; j < edits.size(); ++j) edits[j] = j;
  for (const char c : pattern) {
    std::vector<std::size_t> next(edits.size());
    next[0] = c == '*' ? edits[0] : edits[0] + 1;
    for (std::size_t j = 1; j < edits.size(); ++j) {
      next[j] = c == '*'
                    ? std::min(edits[j], next[j - 1])
                    : std::min({edits[j - 1] + (c == name[j - 1] ? 0 : 1), edits[j] + 1, next[j - 1] + 1});
    }
    edits = std::move(next);
  }
  return edits.back();
}

/// The names that need the fewest edits of the pattern; at most `count`.
std::vector<std::string> nearest(std::string_view pattern, std::vector<std::string> names,
                                 std::size_t count) {
  std::stable_sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    return edits_to_match(pattern, a) < edits_to_match(pattern, b);
  });
  names.resize(std::min(names.size(), count));
  return names;
}

void freeze_if(Module& model, const std::vector<std::string>& patterns, bool matching) {
  const std::vector<NamedParameter> parameters = model.named_parameters();
  std::vector<std::string> names;
  for (const NamedParameter& parameter : parameters) names.push_back(parameter.name);
  check_patterns("parameter", patterns, names);
  const auto is_chosen = [&](const NamedParameter& parameter) {
    return matches_one_of(patterns, parameter.name) == matching;
  };
  for (const std::string& pattern : patterns) {
    const bool changes_some = std::any_of(parameters.begin(), parameters.end(), [&](const NamedParameter& p) {
      return matches_pattern(pattern, p.name) && p.tensor->requires_grad();
    });
    check(!matching || changes_some, "freezing {}: all parameters that match are frozen already",
          quote(pattern));
  }
  const bool leaves_some = std::any_of(parameters.begin(), parameters.end(), [&](const NamedParameter& p) {
    return !is_chosen(p) && p.tensor->requires_grad();
  });
  check(leaves_some, "{} {} leaves none of the {} parameters to train",
        matching ? "freezing" : "training only", fmt::join(patterns, ","), parameters.size());
  for (const NamedParameter& parameter : parameters) {
    if (is_chosen(parameter)) parameter.tensor->set_requires_grad(false);
  }
}

}  // namespace

bool matches_pattern(std::string_view pattern, std::string_view name) {
  return edits_to_match(pattern, name) == 0;
}

bool matches_one_of(const std::vector<std::string>& patterns, std::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return matches_pattern(pattern, name); });
}

void check_patterns(const char* what, const std::vector<std::string>& patterns,
                    const std::vector<std::string>& names) {
  for (const std::string& pattern : patterns) {
    const bool found = std::any_of(names.begin(), names.end(),
                                   [&](const std::string& name) { return matches_pattern(pattern, name); });
    if (!found)
      fail("no {} matches {}: near are {}", what, quote(pattern),
           fmt::join(nearest(pattern, names, 4), ", "));
  }
}

void freeze(Module& model, const std::vector<std::string>& patterns) {
  freeze_if(model, patterns, true);
}

void train_only(Module& model, const std::vector<std::string>& patterns) {
  freeze_if(model, patterns, false);
}

}  // namespace ringtape
