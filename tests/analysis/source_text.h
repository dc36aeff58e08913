#pragma once

#include <fstream>
#include <stdexcept>
#include <string>

namespace ringtape::test {

/// The number of the first line of a source file in this folder that contains `text`.
inline int line_of(const std::string& file, const std::string& text) {
  std::ifstream source(std::string(RINGTAPE_ANALYSIS_TESTS) + "/" + file);
  std::string line;
  for (int number = 1; std::getline(source, line); ++number) {
    if (line.find(text) != std::string::npos) return number;
  }
  throw std::runtime_error(file + " has no line with '" + text + "'");
}

}  // namespace ringtape::test
