#include "kernels/analysis/request.h"

#include <algorithm>
#include <array>

namespace ringtape::analysis {
namespace {

constexpr int kWarp = 32;
constexpr int kBanks = 32;
constexpr int kBankBytes = 4;

/// A set of numbers, for counting distinct ones.
class Numbers {
 public:
  void add(std::uint64_t number) { numbers_[count_++] = number; }
  int distinct() {
    std::sort(numbers_.begin(), numbers_.begin() + count_);
    return static_cast<int>(std::unique(numbers_.begin(), numbers_.begin() + count_) - numbers_.begin());
  }
  const std::uint64_t* begin() const { return numbers_.data(); }
  void clear() { count_ = 0; }

 private:
  std::array<std::uint64_t, kWarp * Request::kMaxBytes> numbers_;
  int count_ = 0;
};

bool takes_part(const Request& request, int lane) {
  return (request.lanes >> lane & 1u) != 0;
}

/// Calls body(number) for the units of `unit` bytes that the lanes [first, last) touch.
template <class Body>
void for_each_unit(const Request& request, int first, int last, std::uint64_t unit, const Body& body) {
  for (int lane = first; lane < last; ++lane) {
    if (!takes_part(request, lane)) continue;
    const std::uint64_t begin = request.address[lane];
    const std::uint64_t end = begin + static_cast<std::uint64_t>(request.bytes);
    for (std::uint64_t number = begin / unit; number * unit < end; ++number) body(number);
  }
}

int distinct_units(const Request& request, std::uint64_t unit) {
  Numbers numbers;
  for_each_unit(request, 0, kWarp, unit, [&](std::uint64_t number) { numbers.add(number); });
  return numbers.distinct();
}

int lanes_of_phase(const Request& request) {
  return request.bytes <= 4 ? 32 : request.bytes <= 8 ? 16 : 8;
}

}  // namespace

int sectors(const Request& request) {
  return distinct_units(request, kSectorBytes);
}

int distinct_bytes(const Request& request) {
  // Word by word if all accesses are aligned, as nearly always, else byte by byte.
  std::uint64_t all = static_cast<std::uint64_t>(request.bytes);
  for (int lane = 0; lane < kWarp; ++lane) {
    if (takes_part(request, lane)) all |= request.address[lane];
  }
  const std::uint64_t unit = all % 4 == 0 ? 4 : 1;
  return distinct_units(request, unit) * static_cast<int>(unit);
}

int bank_cycles(const Request& request) {
  int cycles = 0;
  const int lanes = lanes_of_phase(request);
  Numbers words;
  for (int first = 0; first < kWarp; first += lanes) {
    words.clear();
    for_each_unit(request, first, first + lanes, kBankBytes, [&](std::uint64_t word) { words.add(word); });
    const int count = words.distinct();
    int in_bank[kBanks] = {};
    for (int i = 0; i < count; ++i) ++in_bank[words.begin()[i] % kBanks];
    cycles += *std::max_element(in_bank, in_bank + kBanks);
  }
  return cycles;
}

int phases(const Request& request) {
  int count = 0;
  const int lanes = lanes_of_phase(request);
  for (int first = 0; first < kWarp; first += lanes) {
    count += (request.lanes >> first & (lanes == 32 ? ~0u : (1u << lanes) - 1)) != 0;
  }
  return count;
}

}  // namespace ringtape::analysis
