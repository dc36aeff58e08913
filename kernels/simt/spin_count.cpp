#include "kernels/simt/spin_count.h"

namespace ringtape::simt {

#define RINGTAPE_SPIN_COUNT 3000
#define RINGTAPE_TEXT_OF(number) #number
#define RINGTAPE_ASSIGNMENT(name, number) name "=" RINGTAPE_TEXT_OF(number)

const int kSpinCount = RINGTAPE_SPIN_COUNT;

// libgomp reads the variable in its constructor, before any code of the program, and has no call that sets it
// later. Only what stands in .preinit_array runs before constructors. There the C library has no environment
// to add to yet: it takes up the array of this process' variables afterwards, which ends where other things
// begin. So one of the variables lends its place until the first constructor of the program, when libgomp has
// read them.
#if !defined(__PIC__) || defined(__PIE__)  // a shared object cannot have a .preinit_array

namespace {

char setting[] = RINGTAPE_ASSIGNMENT("GOMP_SPINCOUNT", RINGTAPE_SPIN_COUNT);
char** place = nullptr;
char* lent = nullptr;

// Sanitizers and the C library are not ready when these run.
#define RINGTAPE_EARLY __attribute__((no_sanitize("address", "undefined", "thread")))

RINGTAPE_EARLY bool begins(const char* variable, const char* name) {
  while (*name != 0 && *variable == *name) ++variable, ++name;
  return *name == 0;
}

RINGTAPE_EARLY void lend_place(int, char**, char** variables) {
  for (char** variable = variables; *variable != nullptr; ++variable) {
    if (begins(*variable, "GOMP_SPINCOUNT=") || begins(*variable, "OMP_WAIT_POLICY=")) return;
    // Not a variable that other constructors may look for.
    if (!begins(*variable, "OMP_") && !begins(*variable, "GOMP_") && !begins(*variable, "LD_"))
      place = variable;
  }
  if (place == nullptr) return;
  lent = *place;
  *place = setting;
}

__attribute__((section(".preinit_array"), used)) void (*const first)(int, char**, char**) = lend_place;

__attribute__((constructor(101))) RINGTAPE_EARLY void give_back_place() {
  if (place != nullptr && *place == setting) *place = lent;
}

}  // namespace

#endif

}  // namespace ringtape::simt
