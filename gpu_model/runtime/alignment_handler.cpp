// What code that is compiled with -fsanitize=alignment calls; in builds with UBSan, UBSan answers.
#include "gpu_model/runtime/alignment.h"

extern "C" void __ubsan_handle_type_mismatch_v1(const gpu_model::Misaligned* where, std::uintptr_t address) {
  gpu_model::note_misaligned(*where, address);
}
