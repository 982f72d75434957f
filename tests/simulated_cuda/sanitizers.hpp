#pragma once
// Which sanitizer watches, and what it is told.

#include <cstddef>

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define SIMULATED_ASAN
#endif
#if __has_feature(thread_sanitizer)
#define SIMULATED_TSAN
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define SIMULATED_ASAN
#endif
#ifdef __SANITIZE_THREAD__
#define SIMULATED_TSAN
#endif

#ifdef SIMULATED_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef SIMULATED_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace simulated {

#ifdef SIMULATED_ASAN
inline void poison(const void* begin, std::size_t bytes) { __asan_poison_memory_region(begin, bytes); }
inline void unpoison(const void* begin, std::size_t bytes) { __asan_unpoison_memory_region(begin, bytes); }
#else
inline void poison(const void*, std::size_t) {}
inline void unpoison(const void*, std::size_t) {}
#endif

}  // namespace simulated
