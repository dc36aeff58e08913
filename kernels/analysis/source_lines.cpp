#include "kernels/analysis/source_lines.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace ringtape::analysis {
namespace {

/// The lines that a program writes to standard output; none where it cannot be started. It runs without a
/// shell, so arguments need no quoting.
std::vector<std::string> output_of(const std::vector<std::string>& command) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  std::vector<char*> arguments;
  for (const std::string& each : command) arguments.push_back(const_cast<char*>(each.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int failure = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string text;
  std::array<char, 4096> part;
  for (ssize_t got = 0; (got = read(ends[0], part.data(), part.size())) > 0;) {
    text.append(part.data(), static_cast<std::size_t>(got));
  }
  close(ends[0]);
  if (failure == 0) waitpid(child, nullptr, 0);
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

void say_once_that_lines_are_unknown() {
  [[maybe_unused]] static const bool said = [] {
    fmt::print(stderr,
               "analysis: addr2line (binutils) gives nothing: names and lines of kernels are unknown\n");
    return true;
  }();
}

std::string program_path() {
  std::array<char, 4096> path;
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  return length < 0 ? "" : std::string(path.data(), static_cast<std::size_t>(length));
}

/// "ringtape::on_cpu::(anonymous namespace)::naive(float const*)" as "naive".
std::string short_name(std::string name) {
  for (const char* space : {"ringtape::on_cpu::", "(anonymous namespace)::", "ringtape::"}) {
    for (auto at = name.find(space); at != std::string::npos; at = name.find(space)) {
      name.erase(at, std::string_view(space).size());
    }
  }
  if (name.starts_with("void ")) name.erase(0, 5);  // a template's name has its result type before it
  // Parameters begin at the first parenthesis outside of template arguments.
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
/// of inlining, innermost first. The line is the innermost one of the kernel's own file: a .cu file, or the
/// file of the outermost level.
CodeLocation parse_location(const std::vector<std::string>& text, std::size_t& at) {
  CodeLocation location{"?", {"?", 0}, false};
  std::vector<SourceLine> levels;
  for (++at; at + 1 < text.size() && !text[at].starts_with("0x"); at += 2) {
    levels.push_back(parse_line(text[at + 1]));
    if (location.function == "?") {
      location = {short_name(text[at]), {}, text[at + 1].find("/kernels/simt/") != std::string::npos};
    }
  }
  if (levels.empty()) return location;
  const auto in_cu_file = [](const SourceLine& line) { return line.file.ends_with(".cu"); };
  const auto in_outermost_file = [&](const SourceLine& line) { return line.file == levels.back().file; };
  auto level = std::find_if(levels.begin(), levels.end(), in_cu_file);
  if (level == levels.end()) level = std::find_if(levels.begin(), levels.end(), in_outermost_file);
  location.line = *level;
  return location;
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
        return 1;  // stop: the program itself is the first object
      },
      &image);
  return image;
}

std::vector<CodeLocation> locations_of(const std::vector<std::uintptr_t>& addresses) {
  const std::uintptr_t base = program_image().begin;
  std::vector<CodeLocation> locations;
  constexpr std::size_t kAtOnce = 1000;  // far below a command line's limit
  for (std::size_t first = 0; first < addresses.size(); first += kAtOnce) {
    const std::size_t last = std::min(first + kAtOnce, addresses.size());
    std::vector<std::string> command = {"addr2line", "-a", "-f", "-C", "-i", "-e", program_path()};
    for (std::size_t i = first; i < last; ++i) command.push_back(fmt::format("{:#x}", addresses[i] - base));
    const std::vector<std::string> text = output_of(command);
    if (text.empty()) say_once_that_lines_are_unknown();
    for (std::size_t at = 0; at < text.size();) locations.push_back(parse_location(text, at));
    locations.resize(last, CodeLocation{"?", {"?", 0}, false});
  }
  return locations;
}

}  // namespace ringtape::analysis
