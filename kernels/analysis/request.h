#pragma once

#include <cstdint>

/// The hardware's cost of one memory instruction of a warp, in Nsight Compute's metrics.
namespace ringtape::analysis {

/// Global memory moves in pieces of this size.
inline constexpr int kSectorBytes = 32;

/// One instruction executed once by the lanes of a warp: each active lane has an address.
struct Request {
  unsigned lanes = 0;  ///< bit i: lane i is active
  int bytes = 0;       ///< of each lane, at most kMaxBytes
  std::uint64_t address[32] = {};
  bool while_copying = false;  ///< a lane has asynchronous copies in flight

  static constexpr int kMaxBytes = 16;
};

/// The number of distinct sectors of global memory that the lanes touch (Nsight's "sectors per
/// request"). 32 lanes with neighbouring floats touch 4, with floats far apart 32.
int sectors(const Request& request);

/// Distinct bytes that the lanes request: several lanes with one address count once.
int distinct_bytes(const Request& request);

/// Shared memory has 32 banks, each 4 bytes wide; word w lies in bank w % 32. In one cycle a bank serves one
/// word, to all lanes that request it. So the cycles of a request are the number of distinct words in its
/// busiest bank. Lanes with 8 bytes each go in two phases (lanes 0 to 15, then 16 to 31), with 16 bytes in
/// four phases of eight lanes, each phase on its own.
int bank_cycles(const Request& request);

/// Cycles of the request without conflicts: its phases with an active lane.
int phases(const Request& request);

}  // namespace ringtape::analysis
