// Warps and shuffles: what each lane holds after each step, and how lanes vote.
#include "lessons/22-warps/warps.h"

#include <fmt/format.h>

#include <bit>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autograd/creation.h"
#include "cli/command_line.h"
#include "core/error.h"

namespace {

using namespace ringtape;

struct Options {
  std::optional<Shuffle> shuffle;  ///< none: all of them
  int width = 8;
  int of = 3;  ///< the lanes vote on multiples of this
};

const std::vector<std::pair<std::string, std::optional<Shuffle>>> kShuffles = {
    {"down", Shuffle::down}, {"xor", Shuffle::exclusive}, {"up", Shuffle::up}, {"all", {}}};

void show_shuffle(const std::string& name, Shuffle shuffle, int width) {
  const int steps = std::countr_zero(static_cast<unsigned>(width));
  const Tensor values = zeros({steps + 1, 32});
  lesson_shuffles(Stream::current({}), shuffle, width, values.data<float>());
  fmt::print("{}: each lane adds what it gets\n  {:<10}", name, "lane");
  for (int lane = 0; lane < width; ++lane) fmt::print(" {:>4}", lane);
  fmt::print("\n  {:<10}", "begins");
  for (int lane = 0; lane < width; ++lane) fmt::print(" {:>4}", lane + 1);
  for (int i = 0; i < steps; ++i) {
    const int step = shuffle == Shuffle::up ? 1 << i : width >> (i + 1);
    fmt::print("\n  {:<10}", fmt::format("step {}", step));
    for (int lane = 0; lane < width; ++lane) fmt::print(" {:>4}", values.data<float>()[32 * i + lane]);
  }
  fmt::print("\n\n");
}

void show_vote(int of) {
  const Tensor packed = zeros({32}, DType::i32), places = zeros({32}, DType::i32);
  unsigned votes = 0;
  lesson_pack(Stream::current({}), of, packed.data<std::int32_t>(), &votes, places.data<std::int32_t>());
  fmt::print("vote: the multiples of {} among 1 to 32, packed\n  ballot 0x{:08x}: {} lanes say yes\n", of,
             votes, std::popcount(votes));
  for (int lane = 0; lane < 32; ++lane) {
    const int place = places.data<std::int32_t>()[lane];
    if (place < 0) continue;
    fmt::print("  lane {:>2} writes {:>2} to place {}\n", lane, packed.data<std::int32_t>()[place], place);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine app(
      "Shuffles of a warp, lane by lane, and a vote.\nExample: warps --shuffle up --shuffle-width 16");
  app.option("--shuffle", named_option_value(options.shuffle, kShuffles), "down, xor, up or all");
  app.option("--shuffle-width", between(options.width, 2, 32), "lanes of a group: 2, 4, 8, 16 or 32");
  app.option("--multiple-of", between(options.of, 1, 32), "the lanes vote on multiples of this");
  return app.run(argc, argv, [&] {
    check(std::has_single_bit(static_cast<unsigned>(options.width)),
          "--shuffle-width must be a power of two, found {}", options.width);
    for (const auto& [name, shuffle] : kShuffles) {
      if (shuffle && options.shuffle.value_or(*shuffle) == *shuffle)
        show_shuffle(name, *shuffle, options.width);
    }
    show_vote(options.of);
  });
}
