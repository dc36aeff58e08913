#pragma once

#include <cupti.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace gpu_model {

/// The client's buffers of records: requested when a record needs one, and given back in a separate thread,
/// as CUPTI does, when they are full or at a flush.
class RecordBuffers {
 public:
  /// False if one of them is null.
  bool set_callbacks(CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete);
  /// Appends a record, or counts it as dropped where the client gives no buffer for it.
  void append(const void* record, std::size_t bytes);
  template <class Record>
  void append(const Record& record) {
    append(&record, sizeof record);
  }
  /// Gives back all buffers, and returns when the client has them. False without callbacks.
  bool flush();
  /// The number of records dropped since the last call.
  std::size_t take_dropped();

 private:
  void give_back();

  std::mutex mutex_;
  CUpti_BuffersCallbackRequestFunc request_ = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete_ = nullptr;
  std::uint8_t* buffer_ = nullptr;  ///< the one that is being filled
  std::size_t bytes_ = 0, filled_ = 0, records_ = 0, max_records_ = 0;
  std::size_t dropped_ = 0;
  std::vector<std::thread> deliveries_;
};

/// The size of a record with this kind; 0 for a kind that the model does not know.
std::size_t bytes_of_record(CUpti_ActivityKind kind);

}  // namespace gpu_model
