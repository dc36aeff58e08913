#include "plot/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

namespace ringtape {
namespace {

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

int terminal_columns() {
  const std::string_view text = variable("COLUMNS");
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number > 0) return number;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return Terminal{}.columns;
}

bool has_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string_view locale = variable(name);
    if (locale.empty()) continue;
    for (const char* codeset : {".UTF-8", ".utf8", ".UTF8", ".utf-8"}) {
      if (locale.find(codeset) != std::string_view::npos) return true;
    }
    return false;
  }
  return false;
}

}  // namespace

Terminal standard_output() {
  return {terminal_columns(), has_utf8()};
}

}  // namespace ringtape
