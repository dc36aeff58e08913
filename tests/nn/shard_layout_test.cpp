#include "nn/shard_layout.h"

#include <numeric>

#include "core/ceil_div.h"
#include "core/error.h"
#include "kernels/arena.h"
#include "tests/support/catch.h"

using namespace ringtape;

namespace {

/// Entries of the given multiples of 64 elements.
std::vector<std::int64_t> entries_of(const std::vector<std::int64_t>& blocks) {
  std::vector<std::int64_t> sizes;
  for (const std::int64_t n : blocks) sizes.push_back(n * kTileAlignment);
  return sizes;
}

}  // namespace

TEST_CASE("buckets end with the entry that fills them, and are padded for the ranks", "[shards]") {
  // 64 elements are 256 bytes. The first bucket is full with 512 bytes, the others with 1024.
  const std::vector<std::int64_t> sizes = entries_of({1, 1, 3, 2, 9, 1});
  const std::vector<GradientBucket> buckets = cut_into_buckets(sizes, {.first_bytes = 512, .bytes = 1024}, 3);
  // Blocks in a bucket: 2 -> 3; 5 -> 6; 9 -> 9; 1 -> 3.
  REQUIRE(buckets.size() == 4);
  const std::vector<std::size_t> first = {0, 2, 4, 5}, count = {2, 2, 1, 1};
  const std::vector<std::int64_t> offset = {0, 3, 9, 18}, blocks = {3, 6, 9, 3};
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    INFO("bucket " << b);
    CHECK(buckets[b].first_entry == first[b]);
    CHECK(buckets[b].entries == count[b]);
    CHECK(buckets[b].offset == offset[b] * 64);
    CHECK(buckets[b].elements == blocks[b] * 64);
  }
  CHECK(cut_into_buckets({}, {}, 4).empty());
}

TEST_CASE("buckets do not go beyond a run", "[shards]") {
  const std::vector<std::int64_t> sizes = entries_of({1, 1, 3, 2, 9, 1});
  const std::vector<std::size_t> runs = {1, 3, 2};
  const std::vector<GradientBucket> buckets =
      cut_into_buckets(sizes, {.first_bytes = 512, .bytes = 1024}, 3, runs);
  // As above, but the first ends after one block; then 1 and 3 blocks are full, 2 end the run, 9, and 1.
  const std::vector<std::size_t> count = {1, 2, 1, 1, 1};
  REQUIRE(buckets.size() == count.size());
  for (std::size_t b = 0; b < buckets.size(); ++b) CHECK(buckets[b].entries == count[b]);
  CHECK(buckets[4].offset == (3 + 6 + 3 + 9) * 64);
  const ArenaLayout units = arena_layout(sizes, runs, 3, 3, {});
  REQUIRE(units.buckets.size() == runs.size());
  for (std::size_t b = 0; b < runs.size(); ++b) CHECK(units.buckets[b].entries == runs[b]);
}

TEST_CASE("one rank pays for no padding", "[shards]") {
  const std::vector<std::int64_t> sizes = entries_of({1, 5, 2, 7, 1});
  for (const std::int64_t bytes : {1, 512, 1 << 20}) {
    const std::vector<GradientBucket> buckets =
        cut_into_buckets(sizes, {.first_bytes = bytes, .bytes = bytes}, 1);
    CHECK(buckets.back().offset + buckets.back().elements == 16 * 64);
  }
}

TEST_CASE("shards are disjoint, aligned, equally long, and cover every bucket", "[shards]") {
  const std::vector<std::int64_t> sizes = entries_of({1, 2, 17, 3, 1, 1, 40, 5});
  for (int world_size = 1; world_size <= 7; ++world_size) {
    for (const std::int64_t bytes : {1, 700, 5000, 1 << 20}) {
      INFO(world_size << " ranks, buckets of " << bytes << " bytes");
      const std::vector<GradientBucket> buckets =
          cut_into_buckets(sizes, {.first_bytes = bytes, .bytes = bytes}, world_size);
      const std::int64_t whole = buckets.back().offset + buckets.back().elements;
      std::vector<int> owners(static_cast<std::size_t>(whole / kTileAlignment), 0);
      for (int rank = 0; rank < world_size; ++rank) {
        const std::vector<ShardSlice> slices = slices_of_rank(buckets, rank, world_size);
        REQUIRE(slices.size() == buckets.size());
        std::int64_t in_shard = 0;
        for (std::size_t b = 0; b < slices.size(); ++b) {
          const ShardSlice& slice = slices[b];
          // The closed formula: slice r of a bucket of e entries' elements, padded.
          const auto begin = sizes.begin() + static_cast<std::ptrdiff_t>(buckets[b].first_entry);
          const std::int64_t used = std::accumulate(
              begin, begin + static_cast<std::ptrdiff_t>(buckets[b].entries), std::int64_t{0});
          CHECK(slice.elements == round_up(used, world_size * kTileAlignment) / world_size);
          CHECK(slice.offset == buckets[b].offset + rank * slice.elements);
          CHECK(slice.in_shard == in_shard);
          CHECK((slice.offset % kTileAlignment == 0 && slice.in_shard % kTileAlignment == 0));
          in_shard += slice.elements;
          for (std::int64_t i = slice.offset; i < slice.offset + slice.elements; i += kTileAlignment) {
            ++owners[static_cast<std::size_t>(i / kTileAlignment)];
          }
        }
        CHECK(in_shard * world_size == whole);
      }
      CHECK(owners == std::vector<int>(owners.size(), 1));
    }
  }
}

TEST_CASE("shards: what cannot be cut is an error", "[shards]") {
  const std::vector<std::int64_t> sizes = entries_of({1, 2});
  CHECK_THROWS_WITH(cut_into_buckets(sizes, {.first_bytes = 0, .bytes = 1}, 1),
                    "gradient buckets: sizes of 0 and 1 bytes, expected at least 1");
  CHECK_THROWS_WITH(cut_into_buckets(sizes, {.first_bytes = 1, .bytes = -1}, 1),
                    "gradient buckets: sizes of 1 and -1 bytes, expected at least 1");
  CHECK_THROWS_WITH(cut_into_buckets(sizes, {}, 0), "gradient buckets: 0 ranks, expected at least 1");
  const std::vector<GradientBucket> buckets = cut_into_buckets(sizes, {}, 1);  // 3 blocks
  CHECK_THROWS_WITH(slices_of_rank(buckets, 0, 2),
                    "shard of rank 0: a bucket of 192 elements, expected a multiple of 2 ranks x 64");
  CHECK_THROWS_WITH(slices_of_rank(buckets, 3, 3), "shard of rank 3: expected 0 to 2");
  CHECK_THROWS_WITH(slices_of_rank(buckets, -1, 3), "shard of rank -1: expected 0 to 2");
  CHECK(slices_of_rank(buckets, 2, 3).front().offset == 128);
}
