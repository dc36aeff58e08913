#pragma once

#include <cstdint>
#include <vector>

/// The memory that a kernel touches while it runs, for exact ranges: the instrumented code of a kernel calls
/// note_access() of gpu_model/model.h at each of its accesses.
namespace gpu_model {

/// Neighbouring bytes of device memory.
struct Touched {
  std::uintptr_t begin, end;
  bool writes;
};

/// Begins to record the accesses of all threads.
void begin_access_record();
/// Ends the record. Returns the bytes touched since begin_access_record(), in as few pieces as possible;
/// bytes that were read and written are in two pieces.
std::vector<Touched> end_access_record();

}  // namespace gpu_model
