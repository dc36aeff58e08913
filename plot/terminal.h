#pragma once

namespace ringtape {

/// The abilities of standard output.
struct Terminal {
  int columns = 80;
  bool has_utf8 = true;
};

/// Columns by the variable COLUMNS, else by the terminal, else 80. The encoding is named by the locale's
/// variables (POSIX: the first of LC_ALL, LC_CTYPE and LANG that is set); without any it is ASCII.
Terminal standard_output();

}  // namespace ringtape
