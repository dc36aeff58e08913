#include "train/output_files.h"

#include <fmt/format.h>

#include <filesystem>
#include <vector>

#include "core/error.h"
#include "io/file.h"
#include "optim/checkpoint_folder.h"
#include "profile/tape_picture.h"

namespace ringtape {
namespace {

/// How the run uses a file or folder. A growing file is opened by its writer before training; a replaced file
/// is written at the end of the run.
enum class Use { read, grows, replaced };

/// An option that names a file or folder of this run.
struct NamedPath {
  const char* flag;
  std::string path;
  Use use;
};

/// The only pair that may be the same file: --load and --save, as weights are read before they are written.
bool is_trained_in_place(const NamedPath& a, const NamedPath& b) {
  const std::string_view first = a.flag, second = b.flag;
  return (first == "--load" && second == "--save") || (first == "--save" && second == "--load");
}

/// Whether a file would stand among those of the checkpoint folder.
bool is_checkpoint_file(const std::filesystem::path& file, const std::string& folder) {
  return !folder.empty() && CheckpointFolder::has_own_name(file.filename().string()) &&
         are_same_file(std::filesystem::absolute(file).parent_path(), folder);
}

}  // namespace

void check_output_files(const TrainerOptions& options, const std::vector<std::string>& input_files,
                        bool writes) {
  const ObservationOptions& see = options.observation;
  std::vector<NamedPath> paths;
  for (const std::string& file : input_files) paths.push_back({"the data", file, Use::read});
  paths.insert(paths.end(), {{"--load", options.model.load, Use::read},
                             {"--checkpoint", options.checkpoint.folder, Use::grows},
                             {"--save", options.model.save, Use::replaced},
                             {"--metrics", see.metrics, Use::grows},
                             {"--record-values", see.record_values, Use::grows},
                             {"--timeline", see.timeline, Use::replaced},
                             {"--save-graph", see.save_graph, Use::replaced},
                             {"--save-tape", see.save_tape, Use::replaced},
                             {"--report", see.report, Use::replaced}});
  for (std::size_t i = 0; i < paths.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const NamedPath &a = paths[j], &b = paths[i];
      if (a.path.empty() || b.path.empty() || (a.use == Use::read && b.use == Use::read)) continue;
      check(is_trained_in_place(a, b) || !are_same_file(a.path, b.path),
            "{} and {} both name '{}': expected different paths", a.flag, b.flag, b.path);
    }
  }
  for (const NamedPath& output : paths) {
    if (output.use == Use::read || output.path.empty()) continue;
    check(!is_checkpoint_file(output.path, options.checkpoint.folder),
          "{}: found '{}', expected another name than those of the files of --checkpoint", output.flag,
          output.path);
  }
  if (!writes) return;
  for (const auto& [flag, file, use] : paths) {
    if (use != Use::replaced || file.empty()) continue;
    try {
      AtomicFile{file};
    } catch (const Error& error) {
      fail("{}: {}", flag, error.what());
    }
  }
}

void save_tape(const std::optional<TapeGraph>& tape, const std::string& file, Console console) {
  check(tape.has_value(), "found no tape, as the run had no update");
  save_text(file, file.ends_with(".svg") ? tape_svg(*tape).file() : tape_dot(*tape));
  console.print("tape written to {}\n", file);
}

}  // namespace ringtape
