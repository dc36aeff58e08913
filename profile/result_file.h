#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>

#include "core/device.h"
#include "io/json.h"
#include "profile/core_wait.h"

/// The file that a benchmark program writes with --json. All programs write one format:
/// scripts/readme_figures.py makes the tables of the docs from it, and scripts/compare_results.py compares
/// two files:
///
///   {"program": "bench_kernels", "date": "2026-11-20T15:50:00Z", "revision": "1e8b84d",
///    "machine": {"device": "cpu", "cpu": "AMD EPYC", ...},           from describe_machine()
///    "waited_for_core": 0.003,      largest share of the run's time that a thread waited (core_wait.h)
///    "settings": {"dtype": "f32"},                                   other settings of the run
///    "rows": [{"name": "relu_forward", "size": "16777216 f32", "seconds": 0.0024, ...}]}
///
/// Rows of two files are matched by name and size, which are unique within a file.
namespace ringtape {

/// One measurement. Members that are empty or 0 are left out of the file.
struct ResultRow {
  std::string name;
  std::string size;                          ///< of the work, in words: "8192 x 1000 f32"
  std::optional<double> seconds = {};        ///< median, where the program does not say otherwise
  double flops = 0;                          ///< floating-point operations of the work
  double bytes = 0;                          ///< least bytes to read and write
  std::optional<double> limit_seconds = {};  ///< least time that the machine needs, or an estimate of it
  Json more = {};                            ///< fields of this program only
};

/// The rows of a run.
class Results {
 public:
  /// save() writes the file at `path`; an empty path means no file. Throws Error where it cannot be written,
  /// before anything is measured.
  Results(std::string program, Device device, std::string path);

  /// A setting of the run, such as a dtype.
  void setting(const std::string& name, Json value) { settings_[name] = std::move(value); }
  /// Appends a row, with the rates that follow from its time: "gflop_per_s" and "gb_per_s". Throws Error for
  /// a second row of one name and size.
  void add(const ResultRow& row);
  /// Counts the time that threads wait for a core; pause it where the benchmark itself makes load.
  CoreWait& core_wait() { return core_wait_; }
  /// Writes the file, where the path is not empty. Throws Error when it cannot be written. Warns on standard
  /// error if the machine was too busy for reliable figures, or if that is not known.
  void save() const;
  Json to_json() const;

 private:
  std::string program_;
  Device device_;
  std::string path_;
  CoreWait core_wait_;
  Json settings_ = Json::Object{};
  Json rows_ = Json::Array{};
  std::set<std::pair<std::string, std::string>> names_and_sizes_;
};

/// The text of --help for --json.
inline constexpr const char* kJsonHelp = "also write the rows and the machine's description to this file";

}  // namespace ringtape
