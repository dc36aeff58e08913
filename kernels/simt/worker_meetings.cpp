#include <bit>
#include <cstring>

#include "core/error.h"
#include "kernels/simt/worker.h"

/// How the threads of a block meet, and what ends a block that cannot go on.
namespace ringtape::simt {
namespace {

bool same(Place a, Place b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

}  // namespace

/// Puts the running thread into the meeting's list; wait() must follow.
void Worker::join(Meeting& meeting, Place place) {
  if (cancelled_) throw Cancelled{};
  if (meeting.arrived == 0) {
    meeting.place = place;
  } else if (!same(meeting.place, place)) {
    fail("{}: thread ({}, {}, {}) waits at {}:{} while others wait at {}:{}", block_text(), threadIdx.x,
         threadIdx.y, threadIdx.z, place.file, place.line, meeting.place.file, meeting.place.line);
  }
  // From here on nothing may throw: a thread in a list must not unwind.
  if (begun_ < threads_ && idle_.empty()) add_idle_runner();
  ++meeting.arrived;
  meeting.waiting.push(running_);
}

void Worker::release(Meeting& meeting) {
  meeting.arrived = 0;
  ready_.take_all(meeting.waiting);
}

void Worker::finish_block_meeting() {
  if (launch_->observer != nullptr) launch_->observer->block_meets(block_meeting_.place);
  if (block_combine_ != nullptr) {
    if (live_ < threads_) {
      return fail_block(fmt::format("{} of {} threads have returned without the others, which wait at {}:{}",
                                    threads_ - live_, threads_, block_meeting_.place.file,
                                    block_meeting_.place.line));
    }
    result_ = block_combine_(words_.data(), threads_);
  }
  release(block_meeting_);
}

void Worker::sync_block(Place place) {
  join(block_meeting_, place);
  block_combine_ = nullptr;
  if (block_meeting_.arrived == live_) finish_block_meeting();
  wait();
}

std::uint64_t Worker::meet_block(std::uint64_t word, Combine combine, Place place) {
  words_[running_->rank] = word;
  join(block_meeting_, place);
  block_combine_ = combine;
  if (block_meeting_.arrived == live_) finish_block_meeting();
  wait();
  return result_;
}

bool Worker::everybody_present(const Warp& warp, const WarpMeeting& meeting) const {
  return (meeting.mask & ~meeting.present & ~warp.gone) == 0;
}

void Worker::finish_warp_meeting(Warp& warp, WarpMeeting& meeting) {
  const unsigned missing = meeting.mask & ~meeting.present;
  if (missing != 0 && (kCheck || meeting.result == result_of_combine)) {
    return fail_block(fmt::format("{}:{} names lane {}, which has returned or which the block does not have",
                                  meeting.place.file, meeting.place.line, std::countr_zero(missing)));
  }
  if (launch_->observer != nullptr) {
    const int number = static_cast<int>(&warp - warps_.data());
    launch_->observer->warp_meets(number, meeting.present, meeting.result == result_of_sync);
  }
  meeting.result(warp, meeting.present, meeting.combine);
  warp.active &= ~warp.bit_of(meeting);
  release(meeting);
}

std::uint64_t Worker::meet_warp(unsigned mask, std::uint64_t word, int source, WarpResult result,
                                Combine combine, Place place) {
  Warp& warp = warps_[running_->rank / kWarp];
  const int lane = running_->rank % kWarp;
  if (!contains(mask, lane)) {
    fail("{}: lane {} calls {}:{} with mask {:#010x}, which leaves it out", block_text(), lane, place.file,
         place.line, mask);
  }
  WarpMeeting& meeting = warp.meeting_of(mask);
  if (meeting.arrived == 0) {
    meeting.mask = mask;
    meeting.present = 0;
    meeting.result = result;
    meeting.combine = combine;
  }
  join(meeting, place);
  warp.active |= warp.bit_of(meeting);
  meeting.present |= 1u << lane;
  warp.words[lane] = word;
  warp.sources[lane] = source;
  if (everybody_present(warp, meeting)) finish_warp_meeting(warp, meeting);
  wait();
  return warp.results[lane];
}

/// Called by a thread that is in a meeting's list. Returns when it has been released and its turn has come.
void Worker::wait() {
  const Runner* self = running_;
  Runner* next = next_runner();
  if (next == nullptr) {
    fail_block(deadlock());
    next = next_runner();
  }
  switch_to(next);
  threadIdx = self->index;
  if (cancelled_) throw Cancelled{};
}

/// Who goes on when the running thread waits: a thread that may, or a runner on which another thread can
/// begin.
Runner* Worker::next_runner() {
  if (Runner* runner = ready_.pop()) return runner;
  return begun_ < threads_ ? idle_runner() : nullptr;
}

void Worker::switch_to(Runner* runner) {
  Runner* self = running_;
  if (runner == self) return;
  running_ = runner;
  Fiber::switch_to(self->fiber, runner->fiber);
}

// ---- errors ----

/// Ends the block: threads that have not begun never do, those that wait are woken to unwind.
void Worker::fail_block(std::exception_ptr error) {
  launch_->report(error, block_number_);
  cancelled_ = true;
  live_ -= threads_ - begun_;
  begun_ = threads_;
  release(block_meeting_);
  for (int number = 0; number * kWarp < threads_; ++number) {
    Warp& warp = warps_[number];
    for (; warp.active != 0; warp.active &= warp.active - 1) {
      release(warp.meetings[std::countr_zero(warp.active)]);
    }
  }
}

void Worker::fail_block(const std::string& text) {
  fail_block(std::make_exception_ptr(Error(block_text() + ": " + text)));
}

std::string Worker::block_text() const {
  return fmt::format("block ({}, {}, {})", blockIdx.x, blockIdx.y, blockIdx.z);
}

std::string Worker::deadlock() const {
  std::string text = "threads wait for one another for ever:";
  const auto add = [&](const Meeting& meeting) {
    text += fmt::format(" {} at {}:{},", meeting.arrived, meeting.place.file, meeting.place.line);
  };
  if (block_meeting_.arrived > 0) add(block_meeting_);
  for (int number = 0; number * kWarp < threads_; ++number) {
    const Warp& warp = warps_[number];
    for (unsigned rest = warp.active; rest != 0; rest &= rest - 1) {
      add(warp.meetings[std::countr_zero(rest)]);
    }
  }
  text.pop_back();
  return text;
}

}  // namespace ringtape::simt
