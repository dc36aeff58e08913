#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/spans.h"
#include "dist/communicator.h"

namespace ringtape::apps {

/// What --timeline asks for: some updates of all ranks as one picture, and how much of their communication
/// was hidden behind computation.
class Timeline {
 public:
  /// Records up to `updates` updates, from the second on: the first makes what later ones find. With an empty
  /// `file` nothing is recorded. Throws Error where the file cannot be written, and on a GPU, whose work the
  /// host's clock does not see.
  Timeline(std::string file, std::int64_t updates, Communicator& ranks);

  /// An update begins.
  void begin_update();
  /// Ends the recording: what follows is no update.
  void stop();
  /// Gathers what all ranks have recorded; rank 0 writes the file and prints a row for each rank. Throws
  /// Error where the run had no second update.
  void write();

 private:
  std::string row() const;

  std::string file_;
  std::int64_t wanted_;
  Communicator& ranks_;
  std::int64_t updates_ = 0;  // begun, until the recording ends
  bool is_running_ = false;
  std::optional<SpanRecording> recording_;
  SpanClock::time_point begin_{}, end_{};
};

}  // namespace ringtape::apps
