#pragma once

#include <cstdint>

namespace unisono {

/// While an object of this class lives, its thread reads and writes 0 in place of denormal numbers: those nearer to 0
/// than the smallest one with all its digits, 2⁻¹²⁶ in float32. Momenta and gradients that vanish become denormal, and
/// then each operation on them takes many times as long on most CPUs. Threads::start does this for all threads of the
/// program, and cli::run for the one that calls it.
class FlushDenormals {
 public:
  FlushDenormals();
  ~FlushDenormals();
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  std::uint64_t before_;  ///< the thread's settings
};

}  // namespace unisono
