#include "simulated_cuda/fiber.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <new>

#if !defined(__x86_64__) && !defined(SIMULATED_UCONTEXT)
#define SIMULATED_UCONTEXT 1
#endif
#ifdef SIMULATED_UCONTEXT
#include <ucontext.h>
#endif

namespace simulated {
namespace {

constexpr std::size_t page = 4096;
#if defined(SIMULATED_ASAN) || defined(SIMULATED_TSAN)
constexpr std::size_t stack_bytes = 512 * 1024;
#else
constexpr std::size_t stack_bytes = 128 * 1024;
#endif

thread_local Fiber* running = nullptr;

}  // namespace

#ifdef SIMULATED_UCONTEXT

static void* prepare(std::byte* stack, void (*start)()) {
  auto* context = new ucontext_t;
  if (getcontext(context) != 0) std::abort();
  context->uc_stack.ss_sp = stack;
  context->uc_stack.ss_size = stack_bytes;
  context->uc_link = nullptr;
  makecontext(context, start, 0);
  return context;
}
static void* host_place() { return new ucontext_t; }
static void forget(void* place) { delete static_cast<ucontext_t*>(place); }
static void change(void** from, void* to) {
  if (swapcontext(static_cast<ucontext_t*>(*from), static_cast<ucontext_t*>(to)) != 0) std::abort();
}

#else

// simulated_switch(void** from, void* to): saves what a called function must keep (System V ABI) on the stack, stores
// the stack pointer in *from and goes on where `to` was stored: by a jump, as a return would be predicted wrongly.
extern "C" void simulated_switch(void** from, void* to);
asm(R"(
.text
.p2align 4
.globl simulated_switch
.type simulated_switch, @function
simulated_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rcx
  jmp *%rcx
.size simulated_switch, .-simulated_switch
)");

static void* prepare(std::byte* stack, void (*start)()) {
  // Stacks begin at different places of their pages, so that they do not displace each other in the cache.
  thread_local unsigned color = 0;
  color = (color + 5) % 32;
  auto* top = reinterpret_cast<std::uint64_t*>(stack + stack_bytes - 128 * color);
  *--top = 0;  // the return address of `start`, which never returns; the stack is aligned as after a call
  *--top = reinterpret_cast<std::uint64_t>(start);
  for (int saved = 0; saved < 6; ++saved) *--top = 0;
  return top;
}
static void* host_place() { return nullptr; }
static void forget(void*) {}
static void change(void** from, void* to) { simulated_switch(from, to); }

#endif

Fiber::Fiber(void (*body)()) : body_(body) {
  void* mapping = mmap(nullptr, page + stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  mprotect(mapping, page, PROT_NONE);
  mapping_ = static_cast<std::byte*>(mapping);
  own_ = prepare(mapping_ + page, start);
  host_ = host_place();
}

Fiber::~Fiber() {
  unpoison(mapping_ + page, stack_bytes);
  forget(own_);
  forget(host_);
  munmap(mapping_, page + stack_bytes);
}

void Fiber::start() {
  running->watch_.arrive_on_fiber();
  running->body_();
  std::abort();
}

void Fiber::enter() {
  running = this;
  watch_.leave_host(mapping_ + page, stack_bytes);
  change(&host_, own_);
  watch_.arrive_on_host();
}

void Fiber::leave() {
  Fiber* const self = running;
  self->watch_.leave_fiber();
  change(&self->own_, self->host_);
  self->watch_.arrive_on_fiber();
}

}  // namespace simulated
