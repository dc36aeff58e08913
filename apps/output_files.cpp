#include "apps/output_files.h"

#include <fmt/format.h>

#include <utility>

#include "core/error.h"
#include "core/file.h"

namespace ringtape::apps {

void check_output_files(const TrainOptions& options, bool writes) {
  const std::pair<const char*, const std::string*> files[] = {{"--save", &options.save},
                                                              {"--metrics", &options.metrics},
                                                              {"--timeline", &options.timeline},
                                                              {"--save-tape", &options.save_tape},
                                                              {"--report", &options.report}};
  for (const auto& [flag, file] : files) {
    for (const auto& [other_flag, other_file] : files) {
      check(flag == other_flag || file->empty() || *file != *other_file,
            "{} and {} both name '{}': expected two files", flag, other_flag, *file);
    }
  }
  for (const std::string& file : {options.save, options.save_tape, options.report}) {
    if (writes && !file.empty()) AtomicFile{file};
  }
}

void save_tape(const std::optional<TapeGraph>& tape, const std::string& file) {
  check(tape.has_value(), "--save-tape: nothing was recorded, as the run had no update");
  save_text(file, file.ends_with(".svg") ? tape_svg(*tape).file() : tape_dot(*tape));
  fmt::print("tape written to {}\n", file);
}

}  // namespace ringtape::apps
