#include "apps/collectives/ring_trace.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "autograd/ops.h"
#include "core/error.h"
#include "core/numbers.h"
#include "plot/canvas.h"

namespace ringtape {
namespace {

constexpr int kElements = 4;   // in a chunk
constexpr int kMaxRanks = 24;  // f32 represents the sums of 2^0 to 2^23 exactly

/// The sum in each chunk on this rank. The values of rank r are 2^r, so the bits of a sum tell its ranks.
std::vector<std::int64_t> held_by(const Tensor& tensor, int world_size) {
  const std::vector<double> values = tensor.to_doubles();
  std::vector<std::int64_t> held;
  for (int chunk = 0; chunk < world_size; ++chunk) held.push_back(std::llround(values[chunk * kElements]));
  return held;
}

/// "0+1+3", or "all".
std::string names_of(unsigned held, int world_size) {
  if (std::popcount(held) == world_size) return "all";
  std::string names;
  for (int rank = 0; rank < world_size; ++rank) {
    if (held >> rank & 1) names += fmt::format("{}{}", names.empty() ? "" : "+", rank);
  }
  return names;
}

std::string table_of(const RingTrace& trace, int step) {
  const int column = std::max(9, 2 * trace.world_size);
  std::string text = "          ";
  for (int chunk = 0; chunk < trace.world_size; ++chunk) {
    text += chunk == trace.world_size - 1 ? fmt::format(" chunk {}", chunk)
                                          : fmt::format(" {:<{}}", fmt::format("chunk {}", chunk), column);
  }
  text += "\n";
  for (int rank = 0; rank < trace.world_size; ++rank) {
    text += fmt::format("   rank {:<2}", rank);
    for (int chunk = 0; chunk < trace.world_size; ++chunk) {
      const std::string names = names_of(trace.held[step][rank][chunk], trace.world_size);
      text += chunk == trace.world_size - 1 ? " " + names : fmt::format(" {:<{}}", names, column);
    }
    text += "\n";
  }
  return text;
}

// ---- the picture, in pixels ----

constexpr int kCellHeight = 24, kRowHeight = 58, kTop = 56, kLeft = 66, kGap = 46;

/// Wide enough for the numbers of all ranks but one.
int cell_width(const RingTrace& trace) {
  return std::max(34, 14 * trace.world_size);
}

int panel_width(const RingTrace& trace) {
  return trace.world_size * cell_width(trace) + kGap;
}

/// An arrow downwards.
void draw_arrow(svg::Canvas& canvas, int x, int from, int to) {
  canvas.path(fmt::format("M{0} {1}V{2}m-4 -5l4 5l4 -5", x, from, to), "line l3");
}

void draw_panel(svg::Canvas& canvas, const RingTrace& trace, int step) {
  const int left = kLeft + step * panel_width(trace), width = cell_width(trace);
  const bool is_end = step == trace.steps;
  canvas.text(left, 34,
              is_end                        ? "result"
              : step < trace.world_size - 1 ? fmt::format("step {}: add", step)
                                            : fmt::format("step {}: take", step));
  for (int rank = 0; rank < trace.world_size; ++rank) {
    const int y = kTop + rank * kRowHeight;
    for (int chunk = 0; chunk < trace.world_size; ++chunk) {
      const bool moves = !is_end && trace.moves[step][rank].chunk == chunk;
      const unsigned held = trace.held[step][rank][chunk];
      const int cell = left + chunk * width, middle = cell + width / 2 - 2;
      // Coloured if the sum is complete.
      const bool is_whole = std::popcount(held) == trace.world_size;
      canvas.rectangle(cell, y, width - 4, kCellHeight, is_whole ? "leaf" : "box");
      if (moves) canvas.rectangle(cell, y, width - 4, kCellHeight, "line l3");
      canvas.text(middle, y + 16, names_of(held, trace.world_size), "small middle");
      if (!moves) continue;
      const int below = y + kCellHeight + 1;
      if (rank + 1 < trace.world_size) {
        draw_arrow(canvas, middle, below, y + kRowHeight - 3);
      } else {  // The last rank's arrow goes to the first rank: out at the bottom, in at the top.
        canvas.line(middle, below, middle, y + kRowHeight - 23, "line l3");
        draw_arrow(canvas, middle, kTop - 16, kTop - 3);
      }
    }
  }
}

}  // namespace

RingTrace trace_ring(Communicator& comm) {
  const int size = comm.size();
  check(size >= 2 && size <= kMaxRanks, "--trace-ring: found {}, expected 2 to {}", counted(size, "rank"),
        kMaxRanks);
  const Tensor tensor = full({size * kElements}, 1 << comm.rank(), DType::f32, comm.device());
  // For each step: the chunk that is sent, its number of elements, and the sums in all chunks; after the last
  // step, the sums once more.
  std::vector<std::int64_t> own;
  const auto note = [&](std::int64_t chunk, std::int64_t elements) {
    own.push_back(chunk);
    own.push_back(elements);
    for (std::int64_t held : held_by(tensor, size)) own.push_back(held);
  };
  const auto trace_step = [&](const RingTransfer& transfer) {
    note(transfer.sent_chunk, transfer.sent_elements);
  };
  ring_all_reduce(comm, tensor, ReduceOp::sum,
                  {.segment_bytes = kElements * 4, .in_flight = 1, .trace = trace_step});
  note(0, 0);
  for (double sum : tensor.to_doubles()) {
    check(sum == (1 << size) - 1, "ring_all_reduce: a sum is {}, expected {}", sum, (1 << size) - 1);
  }

  const auto numbers = static_cast<std::int64_t>(own.size());
  const Tensor gathered = empty({size * numbers}, DType::i64, comm.device());
  comm.gather(from_vector(own, {numbers}, comm.device()), gathered, 0).wait();
  if (comm.rank() != 0) return {};
  const std::vector<std::int64_t> all = gathered.to_vector<std::int64_t>();

  RingTrace trace;
  trace.world_size = size;
  trace.steps = 2 * (size - 1);
  for (int step = 0; step <= trace.steps; ++step) {
    trace.moves.emplace_back();
    trace.held.emplace_back();
    for (int rank = 0; rank < size; ++rank) {
      const auto row = all.begin() + rank * numbers + step * (2 + size);
      trace.moves[step].push_back({static_cast<int>(row[0]), row[1]});
      trace.held[step].emplace_back(row + 2, row + 2 + size);
    }
  }
  return trace;
}

std::string to_text(const RingTrace& trace) {
  std::string text = fmt::format(
      "ring_all_reduce, {} ranks, {} chunks, 2 ({} - 1) = {} steps. Each rank begins with its own values "
      "in\n"
      "every chunk; the tables list the ranks whose values are in the sum of each chunk.\n\n{}\n",
      trace.world_size, trace.world_size, trace.world_size, trace.steps, table_of(trace, 0));
  std::int64_t elements = 0;
  for (int step = 0; step < trace.steps; ++step) {
    const bool adds = step < trace.world_size - 1;
    if (step == 0) text += "Reduce-scatter: the receiver adds the received chunk to its own.\n\n";
    if (step == trace.world_size - 1)
      text += "All-gather: the receiver replaces its own chunk by the received one.\n\n";
    text += fmt::format("step {}  {}", step, adds ? "add " : "take");
    for (int rank = 0; rank < trace.world_size; ++rank) {
      const auto [chunk, count] = trace.moves[step][rank];
      text += fmt::format("  {} -> {}: chunk {}", rank, (rank + 1) % trace.world_size, chunk);
      if (rank == 0) elements += count;
    }
    text += "\n\n" + table_of(trace, step + 1) + "\n";
  }
  text += fmt::format("Rank 0 sent {} elements: 2 ({} - 1) / {} of {}.\n", elements, trace.world_size,
                      trace.world_size, trace.world_size * kElements);
  return text;
}

std::string to_svg(const RingTrace& trace) {
  const int width = kLeft + (trace.steps + 1) * panel_width(trace),
            height = kTop + trace.world_size * kRowHeight + 16;
  svg::Canvas canvas(width, height, "the steps of ring_all_reduce");
  for (int rank = 0; rank < trace.world_size; ++rank) {
    canvas.text(8, kTop + rank * kRowHeight + 17, fmt::format("rank {}", rank));
  }
  for (int step = 0; step <= trace.steps; ++step) draw_panel(canvas, trace, step);
  return canvas.file();
}

}  // namespace ringtape
