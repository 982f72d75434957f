#pragma once

namespace unisono::comm::mpi {

/// Open MPI crashes, or waits for ever, where it may not map its own libraries and memory.
/// \throws DeviceError where this process may address too little for that (ulimit -v)
void require_address_space();

}  // namespace unisono::comm::mpi
