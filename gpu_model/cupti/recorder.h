#pragma once

#include <cupti.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "gpu_model/cupti/buffers.h"
#include "gpu_model/runtime/engine.h"

namespace gpu_model {

/// The open regions of a thread, by kind, the innermost last.
using ExternalIds = std::map<CUpti_ExternalCorrelationKind, std::vector<std::uint64_t>>;
ExternalIds& external_ids();

/// Makes CUPTI's records of the engine's operations, of the kinds that are enabled.
class Recorder final : public Observer {
 public:
  RecordBuffers buffers;

  /// Begins, or ceases, to make records of this kind.
  void enable(CUpti_ActivityKind kind);
  void disable(CUpti_ActivityKind kind);
  /// The clock of records that are made after the next enable(): by default the system's.
  void set_clock(CUpti_TimestampCallbackFunc clock);

  void queued(std::uint64_t correlation, const Operation& operation) override;
  void finished(const Activity& activity) override;

 private:
  std::uint64_t time_of(std::int64_t steady) const { return static_cast<std::uint64_t>(steady + shift_); }
  /// A copy of the name that is never destroyed: records point to it.
  const char* keep(const std::string& name) { return names_.insert(name).first->c_str(); }
  /// The members common to the records of a device's work.
  template <class Record>
  Record record_of(const Activity& activity, CUpti_ActivityKind kind) const;

  std::mutex mutex_;
  std::set<CUpti_ActivityKind> kinds_;
  CUpti_TimestampCallbackFunc clock_ = nullptr;
  std::int64_t shift_ = 0;  ///< nanoseconds from the engine's clock to the client's
  std::uint64_t last_call_ = 0;
  std::set<std::string> names_;
};

}  // namespace gpu_model
