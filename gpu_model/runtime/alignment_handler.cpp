// The function that code compiled with -fsanitize=alignment calls; in builds with UBSan, UBSan provides it.
#include <cstddef>

#include "gpu_model/include/gpu_model/model.h"

namespace {

/// GCC's description of a misaligned access (TypeMismatchData of libsanitizer/ubsan/ubsan_handlers.h).
struct TypeMismatch {
  const char* file;
  unsigned line, column;
  const void* type;
  unsigned char log_alignment;
  unsigned char kind;
};

}  // namespace

extern "C" void __ubsan_handle_type_mismatch_v1(const TypeMismatch* where, const void* address) {
  gpu_model::note_misaligned(address, std::size_t{1} << where->log_alignment, where->file, where->line);
}
