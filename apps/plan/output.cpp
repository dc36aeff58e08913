#include "apps/plan/output.h"

#include <fmt/format.h>

#include "core/error.h"
#include "io/file.h"

namespace ringtape::planner {

void check_different(const std::string& flag, const std::string& file, const std::string& other_flag,
                     const std::string& other_file) {
  check(file.empty() || other_file.empty() || !are_same_file(file, other_file),
        "{} and {} both name '{}': expected different paths", flag, other_flag, other_file);
}

void add_json_flag(CommandLine& app, std::string& file) {
  app.option("--json", file_or_dash_value(file),
             "also write the plan as JSON to this file; -: print the JSON instead of the text");
}

void print_plan(const std::string& text, const Json& json, const std::string& file) {
  if (file == "-") {
    fmt::print("{}\n", json.dump(2));
    return;
  }
  if (!file.empty()) save_text(file, json.dump(2) + "\n");
  fmt::print("{}", text);
}

}  // namespace ringtape::planner
