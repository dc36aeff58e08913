#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>

#include "core/device.h"
#include "io/json.h"
#include "profile/core_wait.h"

/// What a program that measures writes with --json. All of them write one format, so that one script makes
/// the tables of the docs (scripts/readme_figures.py) and another compares two files
/// (scripts/compare_results.py):
///
///   {"program": "bench_kernels", "date": "2026-11-20T15:50:00Z", "revision": "1e8b84d",
///    "machine": {"device": "cpu", "cpu": "AMD EPYC", ...},           as describe_machine() has it
///    "waited_for_core": 0.003,                                       share of the run's time (core_wait.h)
///    "settings": {"dtype": "f32"},                                   what else the figures hold for
///    "rows": [{"name": "relu_forward", "size": "16777216 f32", "seconds": 0.0024, ...}]}
///
/// A row is found again in another file by its name and size, which no two rows of a file share.
namespace ringtape::benchmarks {

/// One measurement. What is empty or 0 is left out of the file.
struct Row {
  std::string name;
  std::string size;                          ///< of the work, as a person writes it: "8192 x 1000 f32"
  std::optional<double> seconds = {};        ///< median
  double flops = 0;                          ///< floating-point operations of the work
  double bytes = 0;                          ///< that must be read and written at least
  std::optional<double> limit_seconds = {};  ///< that the machine needs at least
  Json more = {};                            ///< what only this program's rows have
};

/// The rows of a run.
class Results {
 public:
  /// Of a run whose file save() writes at `path`; where that is empty there will be none. Throws Error where
  /// it cannot be written, before anything is measured.
  Results(std::string program, Device device, std::string path);

  /// What the figures hold for besides the machine, such as a dtype.
  void setting(const std::string& name, Json value) { settings_[name] = std::move(value); }
  /// Appends a row, with the rates that follow from its time: "gflop_per_s" and "gb_per_s". Throws Error for
  /// a second row of one name and size.
  void add(const Row& row);
  /// Counts what this thread waits for a core; to be paused where a benchmark makes load of its own.
  CoreWait& core_wait() { return core_wait_; }
  /// Writes the file, where the path is not empty. Throws Error when it cannot be written. A note on standard
  /// error says where the machine was too busy for figures that one can rely on.
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

/// What --help says of --json.
inline constexpr const char* kJsonHelp = "also write the rows and the machine's description to this file";

}  // namespace ringtape::benchmarks
