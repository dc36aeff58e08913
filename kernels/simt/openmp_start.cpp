#include "kernels/simt/openmp_start.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>

namespace ringtape::simt {

const int kMaxThreadsOfCore = 4;

// libgomp reads its variables in a constructor, before any code of the program, and has no function to set
// the spin count later. Only functions in .preinit_array run before constructors. At that time setenv() does
// not work yet, and the array of environment variables cannot grow, because other data follows it. So one
// variable's slot is replaced temporarily, and restored by the first constructor of the program, after
// libgomp has read the environment.
#if !defined(__PIC__) || defined(__PIE__)  // a shared object cannot have a .preinit_array

namespace {

char spin_count[] = "GOMP_SPINCOUNT=2000";
char** place = nullptr;  // slot of the replaced variable
char* lent = nullptr;

constexpr char kThreads[] = "OMP_NUM_THREADS=";
char threads_of_cores[sizeof kThreads + 8];
long threads_asked_for = 0, cores = 0;

// The C library and sanitizers are not ready yet.
#define RINGTAPE_EARLY __attribute__((no_sanitize("address", "undefined", "thread")))

/// The text after `name` in the variable; null for another variable.
RINGTAPE_EARLY const char* value_of(const char* variable, const char* name) {
  while (*name != 0 && *variable == *name) ++variable, ++name;
  return *name == 0 ? variable : nullptr;
}

/// A whole number of no more than nine digits; 0 for other text.
RINGTAPE_EARLY long number_in(const char* text) {
  long number = 0;
  for (int digits = 0; *text != 0; ++text, ++digits) {
    if (*text < '0' || *text > '9' || digits == 9) return 0;
    number = number * 10 + (*text - '0');
  }
  return number;
}

RINGTAPE_EARLY long usable_cores() {
  unsigned long set[128] = {};
  const long bytes = syscall(SYS_sched_getaffinity, 0, sizeof set, set);
  long count = 0;
  for (long i = 0; i * static_cast<long>(sizeof *set) < bytes; ++i) count += __builtin_popcountl(set[i]);
  return count;
}

RINGTAPE_EARLY void limit_threads(char** variable, const char* value) {
  threads_asked_for = number_in(value);
  cores = usable_cores();
  if (cores < 1 || cores > 99999 || threads_asked_for <= kMaxThreadsOfCore * cores) {
    threads_asked_for = 0;
    return;
  }
  char* text = threads_of_cores;
  for (const char* letter = kThreads; *letter != 0;) *text++ = *letter++;
  long power = 1;
  while (power * 10 <= cores) power *= 10;
  for (; power > 0; power /= 10) *text++ = static_cast<char>('0' + cores / power % 10);
  *variable = threads_of_cores;
}

RINGTAPE_EARLY void before_constructors(int, char**, char** variables) {
  bool user_says_how_to_wait = false;
  for (char** variable = variables; *variable != nullptr; ++variable) {
    if (const char* const value = value_of(*variable, kThreads)) limit_threads(variable, value);
    if (value_of(*variable, "GOMP_SPINCOUNT=") || value_of(*variable, "OMP_WAIT_POLICY="))
      user_says_how_to_wait = true;
    // Other constructors may read these variables.
    const bool is_early =
        value_of(*variable, "OMP_") || value_of(*variable, "GOMP_") || value_of(*variable, "LD_");
    if (!is_early) place = variable;
  }
  if (user_says_how_to_wait) place = nullptr;
  if (place == nullptr) return;
  lent = *place;
  *place = spin_count;
}

__attribute__((section(".preinit_array"), used)) void (*const before)(int, char**,
                                                                      char**) = before_constructors;

__attribute__((constructor(101))) RINGTAPE_EARLY void after_libgomp() {
  if (place != nullptr && *place == spin_count) *place = lent;
  if (threads_asked_for == 0) return;
  char text[200];
  const int length =
      std::snprintf(text, sizeof text,
                    "warning: OMP_NUM_THREADS=%ld, but this process may use %ld cores: using %ld "
                    "threads (at most %d for each core)\n",
                    threads_asked_for, cores, cores, kMaxThreadsOfCore);
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, static_cast<std::size_t>(length));
}

}  // namespace

#endif

}  // namespace ringtape::simt
