#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "kernels/analysis/analysis.h"
#include "kernels/analysis/branches.h"
#include "kernels/analysis/request.h"
#include "kernels/analysis/shared_shadow.h"
#include "kernels/simt/observer.h"

namespace ringtape::analysis {

/// Global memory that kernels may access, with the state of each byte.
struct Buffer {
  enum Flag : std::uint8_t { written = 1, read_by_launch = 2, written_by_launch = 4 };
  std::string name;
  std::uintptr_t begin;
  std::vector<std::uint8_t> flags;  // one for each byte
};

/// An instruction that accesses memory, and its cost so far.
struct Site {
  std::uintptr_t code;  // of the instruction
  LineCounts counts;    // `where` is looked up for the report
  // While the lanes of a warp are combined: the number of visits of the current lane, and the request of each
  // visit.
  std::size_t visits = 0;
  std::vector<Request> requests;
};

/// A Finding whose lines are not known yet.
struct RawFinding {
  FindingKind kind;
  int site, earlier_site;
  std::int64_t count;
  std::string text;  // text after the lines
};

/// The record of one launch.
struct LaunchRecord {
  const void* kernel;
  simt::dim3 grid, block;
  std::size_t shared_bytes;
  std::size_t static_shared_bytes = 0;
  std::vector<Site> sites;
  std::map<std::pair<std::string, int>, std::int64_t> barriers;  // by file and line
  std::vector<RawFinding> findings;
  std::vector<Branches::Counts> branches;
  std::int64_t needed_read = 0, needed_written = 0;
};

/// Receives every access (tsan_callbacks.cpp) and every barrier of threads, and adds up the costs.
///
/// The threads of a warp run one after another, so a lane's accesses are kept until the warp's lanes are at a
/// barrier or have returned. Then they are combined: the lanes' first accesses by an instruction since the
/// last barrier are one request, their second accesses the next.
class Recorder final : public simt::Observer {
 public:
  /// The active recorder, or null.
  static Recorder* active();

  Recorder();
  ~Recorder() override;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  void add_buffer(const std::string& name, const void* data, std::size_t bytes, bool written);
  const std::vector<LaunchRecord>& launches() const { return launches_; }

  /// A thread of the kernel accesses memory; `code` is the call's return address.
  void access(Access access, const void* memory, std::size_t bytes, const void* code);

  /// A thread compares two values; enters another basic block.
  void compares(const void* code);
  void enters(const void* code);

  void launch_begins(const simt::Launch& launch) override;
  void launch_ends() override;
  void block_begins() override;
  void thread_returns(int rank) override;
  void block_arrived(simt::SourceLocation location) override;
  void warp_arrived(int warp, unsigned lanes, bool orders_memory) override;
  void copies_under_way(int rank, int count) override;
  void copy_begins(int rank, void* shared, std::size_t bytes, const void* code) override;

 private:
  struct Entry {
    std::uint64_t address;
    std::uint32_t site;
    std::uint16_t bytes;
    bool while_copying;
  };

  int site_of(std::uintptr_t code, Space space, Access access);
  bool shared_offset(std::uintptr_t address, std::size_t& offset) const;
  bool belongs_to_thread(std::uintptr_t address) const;
  Buffer* buffer_at(std::uintptr_t address);
  void note_global(Buffer& buffer, std::uintptr_t address, std::size_t bytes, Access access, int site);
  void add_shared_problem(const SharedShadow::Problem& problem, std::size_t offset, int site);
  void add_finding(FindingKind kind, int site, int earlier_site, const std::string& text);
  void line_up(int warp, unsigned lanes);

  std::vector<Buffer> buffers_;
  std::vector<LaunchRecord> launches_;

  // The current launch.
  LaunchRecord* launch_ = nullptr;
  int threads_ = 0;
  std::uintptr_t dynamic_begin_ = 0, static_begin_ = 0;
  std::size_t dynamic_bytes_ = 0, static_bytes_ = 0;
  std::uintptr_t stack_begin_ = 0, stack_end_ = 0;  // of the thread that launches: kernel arguments
  std::uintptr_t image_begin_ = 0, image_end_ = 0;  // of the program: constants
  std::unordered_map<std::uint64_t, int> site_numbers_;
  std::map<std::tuple<FindingKind, int, int>, std::size_t> finding_numbers_;
  Branches branches_;
  BarrierTimes times_;
  SharedShadow shadow_;
  std::vector<std::vector<Entry>> accesses_;  // of each thread, since its last barrier
  std::vector<unsigned> gone_;                // of each warp: lanes that have returned
  std::vector<int> copies_;                   // of each thread: asynchronous copies in flight
};

}  // namespace ringtape::analysis
