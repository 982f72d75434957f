#pragma once
// The threads of a block, one after the other on one host thread, each on a stack of its own once it has to wait.
//
// A thread runs until it ends or waits; whoever completes a barrier or a warp's exchange lets the others go on. Threads
// start in ascending order in one half of the blocks and in descending order in the other, and are woken alternately,
// so that what relies on an order of the threads shows.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace simulated {

constexpr unsigned lanes = 32;

/// A place in the program. (std::source_location, which clang 14 lacks.)
struct Place {
  const char* file = "";
  unsigned line = 0;
  static constexpr Place here(const char* in = __builtin_FILE(), unsigned at = __builtin_LINE()) { return {in, at}; }
};

/// What the lanes of a warp do together.
enum class Exchange {
  wait,     ///< nothing
  shuffle,  ///< each gets the value of the lane that it names
  ballot,   ///< each gets a bit per lane, set where the value is not 0
};

/// __syncthreads: goes on when all threads of the block have come to this place.
void meet_block(const Place& where);

/// Goes on when all lanes in `mask` have come to this place with the same mask.
/// \param source  for a shuffle, the lane of the warp whose value is wanted
/// \return what `kind` says
std::uint64_t meet_warp(Exchange kind, unsigned mask, std::uint64_t value, unsigned source, const Place& where);

/// The running thread's place in its warp.
unsigned lane();

/// The memory that the launch asked for, shared by the threads of the running block: 0xFF bytes when a block begins.
std::byte* dynamic_shared();

/// A grid of blocks and what each of its threads calls.
struct Grid {
  dim3 blocks;
  dim3 threads;  ///< of each block
  std::size_t shared_bytes = 0;
  void (*body)(const void* arguments) = nullptr;
  const void* arguments = nullptr;
};

/// Runs all blocks, one after the other, in the order that `seed` says (0: as they are numbered).
void run_grid(const Grid& grid, std::uint64_t seed);

/// Whether this host thread is inside a kernel.
bool inside_kernel();

/// Says what went wrong on stderr, with where in the grid if a kernel runs, and aborts.
[[noreturn]] [[gnu::format(printf, 1, 2)]] void fatal(const char* format, ...);

}  // namespace simulated
