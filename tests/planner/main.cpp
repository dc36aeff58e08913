// Catch2's main program, for version 2 (Debian 12) and version 3 (Ubuntu 24.04).
#define CATCH_CONFIG_RUNNER
#include "tests/catch.h"

int main(int argc, char** argv) {
  return Catch::Session().run(argc, argv);
}
