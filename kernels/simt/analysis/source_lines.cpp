#include "kernels/simt/analysis/source_lines.h"

#include <fmt/format.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

namespace ringtape::analysis {
namespace {

/// The output of a shell command, by lines; what it got to when it fails.
std::vector<std::string> output_of(const std::string& command) {
  std::vector<std::string> lines;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return lines;
  std::array<char, 4096> text;
  while (std::fgets(text.data(), text.size(), pipe) != nullptr) {
    std::string line = text.data();
    if (line.ends_with('\n')) line.pop_back();
    lines.push_back(line);
  }
  pclose(pipe);
  return lines;
}

std::string program_path() {
  std::array<char, 4096> path;
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  return length < 0 ? "" : std::string(path.data(), static_cast<std::size_t>(length));
}

/// "ringtape::in_analysis::(anonymous namespace)::naive(float const*)" as "naive".
std::string short_name(std::string name) {
  for (const char* space : {"ringtape::in_analysis::", "(anonymous namespace)::", "ringtape::"}) {
    for (auto at = name.find(space); at != std::string::npos; at = name.find(space)) {
      name.erase(at, std::string_view(space).size());
    }
  }
  if (name.starts_with("void ")) name.erase(0, 5);  // the result's type stands before a template's name
  // Parameters begin at the first parenthesis that is not within template arguments.
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    depth += name[i] == '<' ? 1 : name[i] == '>' ? -1 : 0;
    if (name[i] == '(' && depth == 0) return name.substr(0, i);
  }
  return name;
}

/// "/path/to/file.cu:12 (discriminator 3)" as its file name and line.
SourceLine parse_line(const std::string& text) {
  const auto colon = text.rfind(':', text.find(" (") == std::string::npos ? text.size() : text.find(" ("));
  if (colon == std::string::npos || text.starts_with("??")) return {"?", 0};
  const auto slash = text.rfind('/', colon);
  const auto begin = slash == std::string::npos ? 0 : slash + 1;
  return {text.substr(begin, colon - begin), std::atoi(text.c_str() + colon + 1)};
}

/// One address in the output of addr2line -a -f -C -i: the address, then a function and a line for each level
/// of inlining, innermost first.
CodePlace parse_place(const std::vector<std::string>& text, std::size_t& at) {
  CodePlace place{"?", {"?", 0}};
  bool in_kernel_file = false;
  for (++at; at + 1 < text.size() && !text[at].starts_with("0x"); at += 2) {
    const SourceLine line = parse_line(text[at + 1]);
    if (place.function == "?") place = {short_name(text[at]), line};
    if (!in_kernel_file && line.file.ends_with(".cu")) {
      place.line = line;
      in_kernel_file = true;
    }
  }
  return place;
}

}  // namespace

ProgramImage program_image() {
  ProgramImage image;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        ProgramImage& result = *static_cast<ProgramImage*>(data);
        result.begin = info->dlpi_addr;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& part = info->dlpi_phdr[i];
          if (part.p_type == PT_LOAD) {
            result.end = std::max(result.end, info->dlpi_addr + part.p_vaddr + part.p_memsz);
          }
        }
        return 1;  // the program comes first, and nothing else is wanted
      },
      &image);
  return image;
}

std::vector<CodePlace> places_of(const std::vector<std::uintptr_t>& addresses) {
  const std::uintptr_t base = program_image().begin;
  std::vector<CodePlace> places;
  constexpr std::size_t kAtOnce = 1000;  // what a command line holds easily
  for (std::size_t first = 0; first < addresses.size(); first += kAtOnce) {
    const std::size_t last = std::min(first + kAtOnce, addresses.size());
    std::string command = fmt::format("addr2line -a -f -C -i -e '{}'", program_path());
    for (std::size_t i = first; i < last; ++i) command += fmt::format(" {:#x}", addresses[i] - base);
    const std::vector<std::string> text = output_of(command + " 2>/dev/null");
    for (std::size_t at = 0; at < text.size();) places.push_back(parse_place(text, at));
    places.resize(last, CodePlace{"?", {"?", 0}});
  }
  return places;
}

}  // namespace ringtape::analysis
