#include "unisono/base/errors.hpp"
#include "unisono/kernels/update_kernels.hpp"

// Defaults of kernels that a device need not have, because only optimizers of a sharded θ use them.

namespace unisono::kernels {
namespace {

[[noreturn]] void refuse() {
  throw ConfigError("parameters that are divided among ranks are trained on CPUs alone; set device = \"cpu\"");
}

}  // namespace

void VectorKernels::sum_squares(View, std::span<const UpdateRange>, bool, std::span<ExactSquares>) { refuse(); }

void UpdateKernels::sum_lamb_directions(const AdamStep&, std::span<const UpdateRange>, View, View, View, bool,
                                        std::span<ExactSquares>) {
  refuse();
}

}  // namespace unisono::kernels
