#pragma once

#include <cstdint>

/// What one memory instruction of a warp costs the hardware: the figures that Nsight Compute gives.
namespace ringtape::analysis {

/// Global memory moves in pieces of this size.
inline constexpr int kSectorBytes = 32;

/// One instruction executed once by the lanes of a warp: each lane that takes part has an address.
struct Request {
  unsigned lanes = 0;  ///< bit i: lane i takes part
  int bytes = 0;       ///< of each lane, at most kMaxBytes
  std::uint64_t address[32] = {};
  bool while_copying = false;  ///< a lane has asynchronous copies under way

  static constexpr int kMaxBytes = 16;
};

/// How many different sectors of global memory the lanes touch (Nsight's "sectors per
/// request"). 32 lanes with neighbouring floats touch 4, with floats far apart 32.
int sectors(const Request& request);

/// Different bytes that the lanes ask for: several lanes with one address count once.
int distinct_bytes(const Request& request);

/// Shared memory has 32 banks, each 4 bytes wide; word w lies in bank w % 32. In one cycle a bank serves one
/// word, to all lanes that want it. So a request takes as many cycles as its busiest bank has different
/// words. Lanes with 8 bytes each go in two phases (lanes 0 to 15, then 16 to 31), with 16 bytes in four
/// phases of eight lanes, each phase on its own.
int bank_cycles(const Request& request);

/// Cycles that the request would take without a conflict: its phases in which a lane takes part.
int phases(const Request& request);

}  // namespace ringtape::analysis
