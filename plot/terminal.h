#pragma once

namespace ringtape {

/// The capabilities of standard output.
struct Terminal {
  int columns = 80;
  bool has_utf8 = true;
};

/// The columns are those of the environment variable COLUMNS, else of the terminal, else 80. The locale's
/// variables tell whether it has UTF-8 (POSIX: the first of LC_ALL, LC_CTYPE and LANG that is set); without
/// any of them it has ASCII only.
Terminal standard_output();

}  // namespace ringtape
