#include "apps/plan/output.h"

#include <fmt/format.h>

#include "io/file.h"

namespace ringtape::planner {

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
