#include "kernels/simt/analysis/shared_shadow.h"

namespace ringtape::analysis {

void MeetingTimes::sync_warp(int warp, unsigned lanes) {
  Warp& met = warps_[warp];
  ++met.syncs;
  for (int a = 0; a < 32; ++a) {
    for (int b = 0; b < 32; ++b) {
      if ((lanes >> a & lanes >> b & 1u) != 0) met.together[a][b] = met.syncs;
    }
  }
}

bool MeetingTimes::ordered(int earlier, Time time, int later) const {
  if (earlier == later || time.barriers < barriers_) return true;
  return earlier / 32 == later / 32 && warps_[later / 32].together[earlier % 32][later % 32] > time.syncs;
}

SharedShadow::Problem SharedShadow::race_with(const Mark& mark, const Mark& now, const MeetingTimes& times) {
  const bool conflict = times.in_this_block(mark.time) && !(mark.atomic && now.atomic) &&
                        !times.ordered(mark.thread, mark.time, now.thread);
  return conflict ? Problem{Problem::race, mark.site, mark.thread} : Problem{};
}

SharedShadow::Problem SharedShadow::note(Byte& byte, Access access, const Mark& now,
                                         const MeetingTimes& times) {
  Problem problem = race_with(byte.writer, now, times);
  if (access == Access::read) {
    if (!times.in_this_block(byte.writer.time)) problem.kind = Problem::unwritten;
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
                                           int site, const MeetingTimes& times) {
  const Mark now{times.now(thread), static_cast<std::uint16_t>(thread), static_cast<std::uint16_t>(site),
                 access == Access::atomic};
  Problem first;
  for (std::size_t i = offset; i < offset + bytes && i < bytes_.size(); ++i) {
    const Problem problem = note(bytes_[i], access, now, times);
    if (first.kind == Problem::none) first = problem;
  }
  return first;
}

}  // namespace ringtape::analysis
