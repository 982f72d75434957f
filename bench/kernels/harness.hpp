// How a kernel is measured: on one core and on all of them, beside the plain loop on one core.
#pragma once

#include <benchmark/benchmark.h>

#include <functional>
#include <string>
#include <vector>

#include "unisono/kernels/backend.hpp"

namespace unisono::bench {

inline constexpr Index kBatch = 64;

/// What a call of a kernel does, and what its rate is a share of: bytes of a triad's (a = b + c over memory that no
/// cache holds), flops of the peak of fused multiply-adds.
struct Work {
  enum class Unit { bytes, flops } unit;
  double amount;
};
inline Work in_bytes(double amount) { return {Work::Unit::bytes, amount}; }
inline Work in_flops(double amount) { return {Work::Unit::flops, amount}; }
inline Work operator*(double times, Work work) { return {work.unit, times * work.amount}; }

/// Sets the counters of a benchmark each of whose iterations did `work`: its rate, and what share that is of what so
/// many cores reach.
void report(benchmark::State& state, Work work, int threads);

/// Vectors of random floats that the kernels of one benchmark share.
class Vectors {
 public:
  explicit Vectors(const std::vector<Index>& sizes);
  MutableView operator[](std::size_t i) { return buffers_[i].view(); }

 private:
  std::vector<Buffer> buffers_;
};

using Kernel = std::function<void(kernels::Backend&, Vectors&)>;
using Plain = std::function<void(Vectors&)>;

/// Registers a kernel on one core and on all, with the floats of scratch memory that it asks for, and its plain loop.
/// \param sizes floats of each vector that it gets
void add(const std::string& name, const std::vector<Index>& sizes, Work work, const Kernel& kernel,
         const Plain& plain = {});

}  // namespace unisono::bench
