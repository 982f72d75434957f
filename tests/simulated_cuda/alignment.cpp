// Reads and writes at addresses that are no multiple of what their type requires, which fault on a device: where
// kernels are compiled with -fsanitize=alignment -fno-sanitize-recover=alignment, compilers call this function there.
#include <cstdint>

#include "simulated_cuda/block.hpp"

namespace {

// What compilers write down for each place; see compiler-rt/lib/ubsan/ubsan_value.h and ubsan_handlers.h of LLVM, which
// g++ follows.
struct TypeDescriptor {
  std::uint16_t kind, info;
  char name[1];  // quoted, and longer
};
struct Mismatch {
  const char* file;
  std::uint32_t line, column;
  const TypeDescriptor* type;
  std::uint8_t log_alignment, access;
};

}  // namespace

extern "C" [[noreturn]] void __ubsan_handle_type_mismatch_v1_abort(const Mismatch* at, const void* pointer);

extern "C" void __ubsan_handle_type_mismatch_v1_abort(const Mismatch* at, const void* pointer) {
  simulated::fatal("%s:%u reads or writes %s at the misaligned address %p; it must be a multiple of %u", at->file,
                   at->line, static_cast<const char*>(at->type->name), pointer, 1U << at->log_alignment);
}
