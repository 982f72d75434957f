#pragma once

#include <string>

#include "unisono/kernels/cuda.hpp"

namespace unisono::kernels::cuda {

/// Of a device's place on the host's bus and of the host's own number for it: for processes that see different devices
/// as number 0.
std::string identity_of(int device);

}  // namespace unisono::kernels::cuda
