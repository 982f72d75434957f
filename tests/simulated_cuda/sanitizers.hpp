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

/// Follows the switches between a host thread's stack and a fiber's. Without a sanitizer it does nothing. The functions
/// must not be calls of their own: the thread sanitizer keeps a stack of calls for each fiber.
class StackWatch {
 public:
#ifdef SIMULATED_TSAN
  StackWatch() : fiber_(__tsan_create_fiber(0)) {}
  ~StackWatch() { __tsan_destroy_fiber(fiber_); }
#else
  StackWatch() = default;
  ~StackWatch() = default;
#endif
  StackWatch(const StackWatch&) = delete;
  StackWatch& operator=(const StackWatch&) = delete;

  [[gnu::always_inline]] void leave_host([[maybe_unused]] const void* bottom, [[maybe_unused]] std::size_t bytes) {
#ifdef SIMULATED_ASAN
    __sanitizer_start_switch_fiber(&host_fake_, bottom, bytes);
#endif
#ifdef SIMULATED_TSAN
    host_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(fiber_, 0);
#endif
  }
  [[gnu::always_inline]] void arrive_on_fiber() {
#ifdef SIMULATED_ASAN
    __sanitizer_finish_switch_fiber(fiber_fake_, &host_bottom_, &host_bytes_);
#endif
  }
  [[gnu::always_inline]] void leave_fiber() {
#ifdef SIMULATED_ASAN
    __sanitizer_start_switch_fiber(&fiber_fake_, host_bottom_, host_bytes_);
#endif
#ifdef SIMULATED_TSAN
    __tsan_switch_to_fiber(host_, 0);
#endif
  }
  [[gnu::always_inline]] void arrive_on_host() {
#ifdef SIMULATED_ASAN
    __sanitizer_finish_switch_fiber(host_fake_, nullptr, nullptr);
#endif
  }

 private:
#ifdef SIMULATED_ASAN
  void* host_fake_ = nullptr;
  void* fiber_fake_ = nullptr;
  const void* host_bottom_ = nullptr;
  std::size_t host_bytes_ = 0;
#endif
#ifdef SIMULATED_TSAN
  void* host_ = nullptr;
  void* fiber_;
#endif
};

}  // namespace simulated
