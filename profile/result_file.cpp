#include "profile/result_file.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "core/error.h"
#include "io/file.h"
#include "profile/machine.h"
#include "revision.h"  // made by cmake/revision.cmake at each build

namespace ringtape {

Results::Results(std::string program, Device device, std::string path)
    : program_(std::move(program)), device_(device), path_(std::move(path)) {
  if (!path_.empty()) AtomicFile writable(path_);
}

void Results::add(const ResultRow& row) {
  check(names_and_sizes_.emplace(row.name, row.size).second, "{}: two rows have the name '{}' and size '{}'",
        program_, row.name, row.size);
  Json json = {{"name", row.name}, {"size", row.size}};
  if (row.seconds) json["seconds"] = *row.seconds;
  if (row.flops > 0) json["flops"] = row.flops;
  if (row.bytes > 0) json["bytes"] = row.bytes;
  if (row.seconds && row.flops > 0) json["gflop_per_s"] = row.flops / *row.seconds * 1e-9;
  if (row.seconds && row.bytes > 0) json["gb_per_s"] = row.bytes / *row.seconds * 1e-9;
  if (row.limit_seconds) json["limit_seconds"] = *row.limit_seconds;
  if (!row.more.is_null()) {
    for (const auto& [name, value] : row.more.as_object()) json[name] = value;
  }
  rows_.push_back(std::move(json));
}

Json Results::to_json() const {
  Json json = {{"program", program_}, {"date", fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr)))}};
  if (const std::string revision = RINGTAPE_REVISION; !revision.empty()) json["revision"] = revision;
  for (const Fact& fact : describe_machine(device_)) json["machine"][fact.name] = fact.value;
  if (const std::optional<double> share = core_wait_.share()) json["waited_for_core"] = *share;
  json["settings"] = settings_;
  json["rows"] = rows_;
  return json;
}

void Results::save() const {
  const std::string remark = too_busy(core_wait_.share());
  if (!remark.empty()) fmt::print(stderr, "note: {}\n", remark);
  if (!path_.empty()) save_text(path_, to_json().dump(1) + '\n');
}

}  // namespace ringtape
