#include "unisono/base/denormals.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace unisono {
namespace {

#if defined(__x86_64__)
constexpr std::uint64_t kFlush = 0x8040;  // FTZ and DAZ of MXCSR
std::uint64_t settings() { return _mm_getcsr(); }
void set(std::uint64_t settings) { _mm_setcsr(static_cast<unsigned>(settings)); }
#elif defined(__aarch64__)
constexpr std::uint64_t kFlush = std::uint64_t{1} << 24U;  // FZ of FPCR
std::uint64_t settings() {
  std::uint64_t settings = 0;
  asm volatile("mrs %0, fpcr" : "=r"(settings));
  return settings;
}
void set(std::uint64_t settings) { asm volatile("msr fpcr, %0" ::"r"(settings)); }
#else
constexpr std::uint64_t kFlush = 0;
std::uint64_t settings() { return 0; }
void set(std::uint64_t) {}
#endif

}  // namespace

FlushDenormals::FlushDenormals() : before_(settings()) { set(before_ | kFlush); }

FlushDenormals::~FlushDenormals() { set(before_); }

}  // namespace unisono
