#pragma once

#include <string>

#include "unisono/kernels/cuda.hpp"

namespace unisono::kernels::cuda {

/// The PCI bus id of a device, which identifies it for all processes of the host, whatever number it has in each.
std::string identity_of(int device);

}  // namespace unisono::kernels::cuda
