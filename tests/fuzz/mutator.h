#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace ringtape::fuzz {

/// Damages valid files as disks, networks and faulty writers do: flipped bits, cuts, insertions, parts of
/// another file, and edited length fields and numbers. Depends only on the seed.
class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  /// One of `seeds` after one to five changes.
  std::string mutate(const std::vector<std::string>& seeds);
  /// True in one of `n` calls.
  bool one_in(std::size_t n) { return below(n) == 0; }

 private:
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }
  void change(std::string& bytes, const std::vector<std::string>& seeds);
  void change_number(std::string& bytes);
  void change_length_field(std::string& bytes);

  std::mt19937_64 random_;
};

}  // namespace ringtape::fuzz
