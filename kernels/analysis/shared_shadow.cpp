#include "kernels/analysis/shared_shadow.h"

#include <algorithm>

namespace ringtape::analysis {

void BarrierTimes::sync_warp(int warp, unsigned lanes) {
  Warp& met = warps_[warp];
  ++met.syncs;
  for (int a = 0; a < 32; ++a) {
    for (int b = 0; b < 32; ++b) {
      if ((lanes >> a & lanes >> b & 1u) != 0) met.together[a][b] = met.syncs;
    }
  }
}

bool BarrierTimes::ordered(int earlier, Time time, int later) const {
  if (earlier == later || time.barriers < barriers_) return true;
  return earlier / 32 == later / 32 && warps_[later / 32].together[earlier % 32][later % 32] > time.syncs;
}

SharedShadow::Problem SharedShadow::race_with(const Mark& mark, const Mark& now, const BarrierTimes& times) {
  if (!times.in_this_block(mark.time)) return {};
  const bool arrives = mark.copy_begin && mark.thread == now.thread && now.writes && !now.copy_begin;
  if (mark.copy_begin && !arrives) return {Problem::under_way, mark.site, mark.thread};
  const bool conflict = !(mark.atomic && now.atomic) && !times.ordered(mark.thread, mark.time, now.thread);
  return conflict ? Problem{Problem::race, mark.site, mark.thread} : Problem{};
}

SharedShadow::Problem SharedShadow::note(Byte& byte, Access access, const Mark& now,
                                         const BarrierTimes& times) {
  Problem problem = race_with(byte.writer, now, times);
  if (access != Access::write && !times.in_this_block(byte.writer.time)) problem.kind = Problem::unwritten;
  if (access == Access::read) {
    const bool first = !times.in_this_block(byte.first_reader.time) ||
                       times.ordered(byte.first_reader.thread, byte.first_reader.time, now.thread);
    (first ? byte.first_reader : byte.last_reader) = now;
  } else {
    for (const Mark& reader : {byte.first_reader, byte.last_reader}) {
      if (problem.kind == Problem::none) problem = race_with(reader, now, times);
    }
    byte.writer = now;
    byte.first_reader = byte.last_reader = {};
  }
  return problem;
}

SharedShadow::Problem SharedShadow::access(std::size_t offset, std::size_t bytes, Access access, int thread,
                                           int site, const BarrierTimes& times) {
  return note_all(offset, bytes, access,
                  {times.now(thread), static_cast<std::uint16_t>(thread), static_cast<std::uint16_t>(site),
                   access == Access::atomic, access == Access::write, false},
                  times);
}

SharedShadow::Problem SharedShadow::begin_copy(std::size_t offset, std::size_t bytes, int thread, int site,
                                               const BarrierTimes& times) {
  return note_all(offset, bytes, Access::write,
                  {times.now(thread), static_cast<std::uint16_t>(thread), static_cast<std::uint16_t>(site),
                   false, true, true},
                  times);
}

std::size_t SharedShadow::used(std::size_t first) const {
  return static_cast<std::size_t>(
      std::count_if(bytes_.begin() + static_cast<std::ptrdiff_t>(first), bytes_.end(), [](const Byte& byte) {
        return byte.writer.time.barriers != 0 || byte.first_reader.time.barriers != 0;
      }));
}

SharedShadow::Problem SharedShadow::note_all(std::size_t offset, std::size_t bytes, Access access,
                                             const Mark& now, const BarrierTimes& times) {
  Problem first;
  for (std::size_t i = offset; i < offset + bytes && i < bytes_.size(); ++i) {
    const Problem problem = note(bytes_[i], access, now, times);
    if (first.kind == Problem::none) first = problem;
  }
  return first;
}

}  // namespace ringtape::analysis
