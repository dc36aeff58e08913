#include "kernels/analysis/recorder.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>

#include "core/ceil_div.h"
#include "core/error.h"
#include "kernels/analysis/source_lines.h"
#include "kernels/simt/worker.h"

namespace ringtape::analysis {
namespace {

Recorder* the_active = nullptr;

std::uintptr_t number_of(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

std::string thread_text(int rank) {
  return fmt::format("thread {} of block ({}, {}, {})", rank, simt::blockIdx.x, simt::blockIdx.y,
                     simt::blockIdx.z);
}

/// threadIdx, blockIdx and so on, which are memory here and registers on a GPU. They are adjacent
/// thread-local variables, except for alignment.
bool is_index(std::uintptr_t address) {
  const auto [low, high] = std::minmax({number_of(&simt::threadIdx), number_of(&simt::blockIdx),
                                        number_of(&simt::blockDim), number_of(&simt::gridDim)});
  return address >= low && address < high + sizeof(simt::dim3);
}

}  // namespace

Recorder* Recorder::active() {
  return the_active;
}

Recorder::Recorder()
    : branches_(simt::kMaxThreads),
      accesses_(simt::kMaxThreads),
      gone_(simt::kMaxThreads / simt::kWarp),
      copies_(simt::kMaxThreads) {
  check(the_active == nullptr, "analysis: there is one already, and only one can exist at a time");
  the_active = this;
  simt::set_observer(this);
}

Recorder::~Recorder() {
  simt::set_observer(nullptr);
  the_active = nullptr;
}

void Recorder::add_buffer(const std::string& name, const void* data, std::size_t bytes, bool written) {
  const std::uint8_t flags = written ? Buffer::written : 0;
  buffers_.push_back({name, number_of(data), std::vector<std::uint8_t>(bytes, flags)});
}

// ---- calls of the executor ----

void Recorder::launch_begins(const simt::Launch& launch) {
  launches_.push_back(
      {launch.kernel, launch.grid, launch.block, launch.shared_bytes, 0, {}, {}, {}, {}, 0, 0});
  launch_ = &launches_.back();
  threads_ = static_cast<int>(launch.block.x * launch.block.y * launch.block.z);
  site_numbers_.clear();
  finding_numbers_.clear();
  branches_.clear_counts();
  for (Buffer& buffer : buffers_) {
    for (std::uint8_t& flags : buffer.flags) flags &= Buffer::written;
  }

  const simt::StaticShared statics = simt::static_shared();
  static_begin_ = number_of(statics.begin);
  static_bytes_ = static_cast<std::size_t>(statics.end - statics.begin);
  dynamic_bytes_ = launch.shared_bytes;
  shadow_.resize(dynamic_bytes_ + static_bytes_);

  pthread_attr_t attributes;
  void* stack = nullptr;
  std::size_t stack_bytes = 0;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &stack, &stack_bytes);
  pthread_attr_destroy(&attributes);
  stack_begin_ = number_of(stack);
  stack_end_ = stack_begin_ + stack_bytes;
  const ProgramImage image = program_image();
  image_begin_ = image.begin;
  image_end_ = image.end;
}

void Recorder::launch_ends() {
  for (auto& accesses : accesses_) accesses.clear();  // not empty if the launch failed
  launch_->branches = branches_.counts();
  launch_->static_shared_bytes = shadow_.used(dynamic_bytes_);
  launch_ = nullptr;
}

void Recorder::block_begins() {
  dynamic_begin_ = number_of(simt::dynamic_shared_bytes());
  times_.begin_block();
  branches_.begin_block();
  std::fill(gone_.begin(), gone_.end(), 0);
  std::fill(copies_.begin(), copies_.end(), 0);
}

void Recorder::thread_returns(int rank) {
  const int warp = rank / simt::kWarp;
  branches_.enters(rank, 0);
  gone_[warp] |= 1u << rank % simt::kWarp;
  const int lanes = std::min(simt::kWarp, threads_ - warp * simt::kWarp);
  if (std::popcount(gone_[warp]) == lanes) line_up(warp, ~0u);
}

void Recorder::block_arrived(simt::SourceLocation location) {
  ++launch_->barriers[{location.file, location.line}];
  for (int warp = 0; warp * simt::kWarp < threads_; ++warp) line_up(warp, ~0u);
  times_.sync_block();
}

void Recorder::warp_arrived(int warp, unsigned lanes, bool orders_memory) {
  line_up(warp, lanes);
  if (orders_memory) times_.sync_warp(warp, lanes);
}

void Recorder::copies_under_way(int rank, int count) {
  copies_[rank] = count;
}

void Recorder::copy_begins(int rank, void* shared, std::size_t bytes, const void* code) {
  std::size_t offset = 0;
  if (launch_ == nullptr || !shared_offset(number_of(shared), offset)) return;
  const int site = site_of(number_of(code) - 1, Space::shared, Access::write);
  add_shared_problem(shadow_.begin_copy(offset, bytes, rank, site, times_), offset, site);
}

/// Combines the accesses of a warp's `lanes` into requests, and counts them.
void Recorder::line_up(int warp, unsigned lanes) {
  branches_.line_up(warp, lanes);
  std::vector<Site>& sites = launch_->sites;
  for (int lane = 0; lane < simt::kWarp; ++lane) {
    if (!simt::contains(lanes, lane)) continue;
    std::vector<Entry>& accesses = accesses_[warp * simt::kWarp + lane];
    for (const Entry& entry : accesses) {
      Site& site = sites[entry.site];
      if (site.visits == site.requests.size()) site.requests.emplace_back();
      Request& request = site.requests[site.visits++];
      request.lanes |= 1u << lane;
      request.bytes = static_cast<int>(entry.bytes);
      request.address[lane] = entry.address;
      request.while_copying |= entry.while_copying;
    }
    for (const Entry& entry : accesses) sites[entry.site].visits = 0;
    accesses.clear();
  }
  for (Site& site : sites) {
    LineCounts& counts = site.counts;
    for (const Request& request : site.requests) {
      const bool global = counts.space == Space::global;
      const int bytes = distinct_bytes(request);
      ++counts.requests;
      counts.lanes += std::popcount(request.lanes);
      counts.bytes += bytes;
      counts.while_copying += request.while_copying;
      counts.transactions += global ? sectors(request) : bank_cycles(request);
      counts.ideal += global ? ceil_div(bytes, kSectorBytes) : phases(request);
    }
    site.requests.clear();
  }
}

// ---- accesses ----

int Recorder::site_of(std::uintptr_t code, Space space, Access access) {
  const auto kind = static_cast<std::uint64_t>(space) * 4 + static_cast<std::uint64_t>(access);
  const auto [at, is_new] =
      site_numbers_.try_emplace(code << 3 | kind, static_cast<int>(launch_->sites.size()));
  if (is_new) {
    LineCounts counts;
    counts.space = space;
    counts.access = access;
    launch_->sites.push_back({code, counts, 0, {}});
  }
  return at->second;
}

bool Recorder::shared_offset(std::uintptr_t address, std::size_t& offset) const {
  if (address - dynamic_begin_ < dynamic_bytes_) {
    offset = address - dynamic_begin_;
    return true;
  }
  offset = dynamic_bytes_ + (address - static_begin_);
  return address - static_begin_ < static_bytes_;
}

/// Memory that a GPU keeps in registers or constant memory: a thread's local variables, arguments, indices,
/// and constants. The program's static data are all treated as constants.
bool Recorder::belongs_to_thread(std::uintptr_t address) const {
  const simt::Stack& stack = simt::Worker::current().stack();
  return (address >= number_of(stack.bottom()) && address < number_of(stack.top())) || is_index(address) ||
         (address >= stack_begin_ && address < stack_end_) ||
         (address >= image_begin_ && address < image_end_);
}

Buffer* Recorder::buffer_at(std::uintptr_t address) {
  for (Buffer& buffer : buffers_) {
    if (address - buffer.begin < buffer.flags.size()) return &buffer;
  }
  return nullptr;
}

void Recorder::access(Access access, const void* memory, std::size_t bytes, const void* code) {
  if (launch_ == nullptr) return;
  const std::uintptr_t address = number_of(memory);
  std::size_t offset = 0;
  Space space = Space::global;
  Buffer* buffer = nullptr;
  if (shared_offset(address, offset)) {
    space = Space::shared;
  } else {
    buffer = buffer_at(address);
    if (buffer == nullptr && belongs_to_thread(address)) return;
  }
  // The return address is the address of the next instruction.
  const int site = site_of(number_of(code) - 1, space, access);
  if (space == Space::shared) {
    add_shared_problem(shadow_.access(offset, bytes, access, simt::thread_rank(), site, times_), offset,
                       site);
  } else if (buffer != nullptr) {
    note_global(*buffer, address, bytes, access, site);
  } else {
    add_finding(FindingKind::outside, site, site,
                fmt::format("is outside of every buffer ({})", thread_text(simt::thread_rank())));
  }
  const int rank = simt::thread_rank();
  std::vector<Entry>& accesses = accesses_[rank];
  for (std::size_t done = 0; done < bytes; done += Request::kMaxBytes) {
    const std::size_t part = std::min<std::size_t>(bytes - done, Request::kMaxBytes);
    accesses.push_back({address + done, static_cast<std::uint32_t>(site), static_cast<std::uint16_t>(part),
                        copies_[rank] > 0});
  }
}

void Recorder::compares(const void* code) {
  if (launch_ != nullptr) branches_.compares(simt::thread_rank(), number_of(code) - 1);
}

void Recorder::enters(const void* code) {
  if (launch_ != nullptr) branches_.enters(simt::thread_rank(), number_of(code));
}

void Recorder::add_shared_problem(const SharedShadow::Problem& problem, std::size_t offset, int site) {
  const int thread = simt::thread_rank();
  if (problem.kind == SharedShadow::Problem::race) {
    add_finding(FindingKind::race, site, problem.site,
                fmt::format("with no barrier between: thread {} and {} at byte {} of shared memory",
                            problem.thread, thread_text(thread), offset));
  } else if (problem.kind == SharedShadow::Problem::under_way) {
    add_finding(FindingKind::race, site, problem.site,
                fmt::format("with a copy that is under way: of thread {}, and {} at byte {} of shared memory",
                            problem.thread, thread_text(thread), offset));
  } else if (problem.kind == SharedShadow::Problem::unwritten) {
    add_finding(FindingKind::unwritten_read, site, site,
                fmt::format("byte {} of shared memory, which no thread of the block has written ({})", offset,
                            thread_text(thread)));
  }
}

void Recorder::note_global(Buffer& buffer, std::uintptr_t address, std::size_t bytes, Access access,
                           int site) {
  const std::size_t first = address - buffer.begin;
  const std::size_t last = std::min(first + bytes, buffer.flags.size());
  for (std::size_t i = first; i < last; ++i) {
    std::uint8_t& flags = buffer.flags[i];
    if (access != Access::write) {
      if ((flags & Buffer::written) == 0) {
        add_finding(FindingKind::unwritten_read, site, site,
                    fmt::format("byte {} of '{}', which nothing has written ({})", i, buffer.name,
                                thread_text(simt::thread_rank())));
      }
      launch_->needed_read += (flags & Buffer::read_by_launch) == 0;
      flags |= Buffer::read_by_launch;
    }
    if (access != Access::read) {
      launch_->needed_written += (flags & Buffer::written_by_launch) == 0;
      flags |= Buffer::written | Buffer::written_by_launch;
    }
  }
}

void Recorder::add_finding(FindingKind kind, int site, int earlier_site, const std::string& text) {
  const auto [at, is_new] =
      finding_numbers_.try_emplace(std::tuple(kind, site, earlier_site), launch_->findings.size());
  if (is_new) launch_->findings.push_back({kind, site, earlier_site, 0, text});
  ++launch_->findings[at->second].count;
}

}  // namespace ringtape::analysis
