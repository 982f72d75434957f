#pragma once

#include <memory>
#include <string>

#include "unisono/kernels/layer_kernels.hpp"
#include "unisono/kernels/sequence_kernels.hpp"
#include "unisono/kernels/update_kernels.hpp"

namespace unisono::kernels {

/// All kernels of one device: those of vectors and update rules, of layers, and of losses. Code that needs only some of
/// them takes their interface.
class Backend : public UpdateKernels,
                public Activations,
                public LayerKernels,
                public SequenceKernels,
                public LossKernels {};

/// The CPU's kernels.
/// \param threads at least 1
std::unique_ptr<Backend> make_cpu_backend(int threads);

/// Whether loops of CPU kernels have taken fewer threads than they could, again and again, since other programs or
/// ranks use the same cores. True once: watching then begins anew.
bool threads_lacked_cores();

/// The instruction set of the CPU kernels in use: "AVX-512", "AVX2" or "portable". Their results differ by rounding.
/// \throws ConfigError where the environment's UNISONO_MAX_ISA is none of these
std::string cpu_instruction_set();

}  // namespace unisono::kernels
