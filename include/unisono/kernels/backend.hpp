#pragma once

#include <memory>
#include <string>

#include "unisono/kernels/activations.hpp"
#include "unisono/kernels/layer_kernels.hpp"
#include "unisono/kernels/loss_kernels.hpp"
#include "unisono/kernels/update_kernels.hpp"

namespace unisono::kernels {

/// All kernels of one device: those of vectors and update rules, of layers, and of losses. Who needs some of them alone
/// takes that interface.
class Backend : public UpdateKernels, public Activations, public LayerKernels, public LossKernels {};

/// The CPU's kernels.
/// \param threads at least 1
std::unique_ptr<Backend> make_cpu_backend(int threads);

/// What the CPU's kernels are compiled for, here: "AVX-512", "AVX2" or "portable". Others round otherwise.
/// \throws ConfigError where the environment's UNISONO_MAX_ISA is none of these
std::string cpu_instruction_set();

}  // namespace unisono::kernels
