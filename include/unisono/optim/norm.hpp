#pragma once

#include "unisono/kernels/vector_kernels.hpp"
#include "unisono/tensor/holding.hpp"

namespace unisono::optim {

/// ‖v‖² of the whole vector, of which this rank has a part. Collective over the ranks that hold a copy together, if
/// they are several (see Holding::squares). On CPUs the same bits whoever holds what. \param vector [holding.size()] in
/// the device's memory
double squared_norm(const Holding& holding, View vector, kernels::VectorKernels& kernels);

}  // namespace unisono::optim
