// Messages of kernels that do what a device leaves undefined.
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "simulated_cuda/block_runner.hpp"
#include "simulated_cuda/kernel.hpp"

namespace simulated {

std::string BlockRunner::place(unsigned thread) const {
  const uint3 t = position(thread, grid_->threads);
  char text[120];
  std::snprintf(text, sizeof text, "thread (%u, %u, %u) of block (%u, %u, %u)", t.x, t.y, t.z, blockIdx.x, blockIdx.y,
                blockIdx.z);
  return text;
}

void BlockRunner::nobody_can_run() const {
  unsigned waiting = 0;
  while (threads_[waiting].state == State::ended) ++waiting;
  const Thread& thread = threads_[waiting];
  const bool barrier = thread.state == State::at_barrier;
  const unsigned first = barrier ? 0 : waiting / lanes * lanes;
  const unsigned last = barrier ? size_ : std::min(size_, first + lanes);
  unsigned other = first;
  const auto comes = [&](unsigned t) {
    return barrier ? threads_[t].state == State::at_barrier
                   : (thread.mask >> t % lanes & 1U) == 0 ||
                         (threads_[t].state == State::in_warp && threads_[t].mask == thread.mask &&
                          same(threads_[t].where, thread.where));
  };
  while (other + 1 < last && comes(other)) ++other;
  std::string why = place(other) + " has returned";
  if (threads_[other].state != State::ended) {
    why = place(other) + " waits at " + threads_[other].where.file + ":" + std::to_string(threads_[other].where.line);
  }
  std::fprintf(stderr, "simulated CUDA: %s waits at %s in %s:%u, and %s\n", place(waiting).c_str(),
               barrier ? "a barrier" : "an exchange of its warp", thread.where.file, thread.where.line, why.c_str());
  std::abort();
}

void fatal(const char* format, ...) {
  std::fputs("simulated CUDA: ", stderr);
  if (active_runner() != nullptr && active_runner()->in_block())
    std::fprintf(stderr, "%s: ", active_runner()->place(active_runner()->current()).c_str());
  va_list arguments;
  va_start(arguments, format);
  std::vfprintf(stderr, format, arguments);
  va_end(arguments);
  std::fputc('\n', stderr);
  std::abort();
}

}  // namespace simulated
