#pragma once

#include <cstdint>
#include <string>

/// Numbers formatted for people.
namespace ringtape {

/// `value`; a NaN loses its sign, which has no meaning and would be printed as "-nan".
double without_nan_sign(double value);

/// At most `digits` significant digits, with k, M, G and T for large ones: "0.0002", "1.5M", "3e-5", "0".
std::string short_number(double value, int digits = 3);

/// "512 B", "1.5 KiB", "20.4 MiB": at most `digits` significant digits, but 4 for numbers from 1000 on.
std::string bytes_text(double bytes, int digits = 3);

/// A number of bytes in MiB, 2^20 bytes.
template <class Bytes>
constexpr double mebibytes(Bytes bytes) {
  return static_cast<double>(bytes) / 0x1p20;
}

/// "15 us", "2.31 ms", "1.2 s", "3 min 20 s"
std::string time_text(double seconds);

/// "1,234,567"
std::string grouped(std::int64_t number);

/// "1 step", "1,024 steps"
std::string grouped(std::int64_t number, const char* noun);

/// "1 step", "1024 steps"
std::string counted(std::int64_t count, const char* noun);

}  // namespace ringtape
