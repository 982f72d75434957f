#include "fiber.hpp"

#include <cxxabi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <utility>

#include "unisono/base/errors.hpp"

#if defined(__SANITIZE_ADDRESS__)
#define UNISONO_ASAN_FIBERS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNISONO_ASAN_FIBERS 1
#endif
#endif
#ifdef UNISONO_ASAN_FIBERS
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace unisono {
namespace {

std::size_t page_bytes() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

}  // namespace

StackPool::~StackPool() {
  for (std::byte* stack : all_) munmap(stack - page_bytes(), kStackBytes + page_bytes());
}

std::byte* StackPool::take() {
  if (!free_.empty()) {
    std::byte* const stack = free_.back();
    free_.pop_back();
    return stack;
  }
  const std::size_t guard = page_bytes();
  void* const memory = mmap(nullptr, kStackBytes + guard, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, guard, PROT_NONE) != 0) {
    throw DeviceError(
        "the system gives no stack to one more simulated worker: " + std::generic_category().message(errno) +
        "; simulate fewer workers, or raise the limit vm.max_map_count");
  }
  all_.push_back(static_cast<std::byte*>(memory) + guard);
  return all_.back();
}

Fiber::Fiber(std::function<void()> work, StackPool& stacks)
    : work_(std::move(work)), stacks_(stacks), stack_(stacks.take()) {
  getcontext(&own_);
  own_.uc_stack.ss_sp = stack_;
  own_.uc_stack.ss_size = StackPool::kStackBytes;
  own_.uc_link = nullptr;
  const auto self = reinterpret_cast<std::uintptr_t>(this);  // makecontext passes only ints
  makecontext(&own_, reinterpret_cast<void (*)()>(&Fiber::enter), 2, static_cast<unsigned>(self >> 32U),
              static_cast<unsigned>(self & 0xffffffffU));
#ifdef __SANITIZE_THREAD__
  own_tsan_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#ifdef __SANITIZE_THREAD__
  __tsan_destroy_fiber(own_tsan_);
#endif
  stacks_.give_back(stack_);
}

void Fiber::enter(unsigned high, unsigned low) {
  reinterpret_cast<Fiber*>((static_cast<std::uintptr_t>(high) << 32U) | low)->run();
}

void Fiber::run() {
  after_switch(true);
  work_();
  work_ = nullptr;
  has_ended_ = true;
  before_switch(false, true);
  setcontext(&resumer_);
}

void Fiber::resume() {
  swap_exceptions();
  before_switch(true, false);
  swapcontext(&resumer_, &own_);
  after_switch(false);
  swap_exceptions();
}

void Fiber::suspend() {
  before_switch(false, false);
  swapcontext(&own_, &resumer_);
  after_switch(true);
}

void Fiber::swap_exceptions() {
  auto* const of_thread = reinterpret_cast<ExceptionState*>(abi::__cxa_get_globals());
  std::swap(*of_thread, exceptions_);
}

void Fiber::before_switch([[maybe_unused]] bool to_fiber, [[maybe_unused]] bool for_good) {
#ifdef UNISONO_ASAN_FIBERS
  if (to_fiber) {
    __sanitizer_start_switch_fiber(&resumer_fake_stack_, stack_, StackPool::kStackBytes);
  } else {
    __sanitizer_start_switch_fiber(for_good ? nullptr : &own_fake_stack_, resumer_stack_, resumer_stack_bytes_);
  }
#endif
#ifdef __SANITIZE_THREAD__
  if (to_fiber) resumer_tsan_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(to_fiber ? own_tsan_ : resumer_tsan_, 0);
#endif
}

void Fiber::after_switch([[maybe_unused]] bool in_fiber) {
#ifdef UNISONO_ASAN_FIBERS
  if (in_fiber) {
    __sanitizer_finish_switch_fiber(own_fake_stack_, &resumer_stack_, &resumer_stack_bytes_);
  } else {
    __sanitizer_finish_switch_fiber(resumer_fake_stack_, nullptr, nullptr);
  }
#endif
}

}  // namespace unisono
