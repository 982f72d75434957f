#pragma once

namespace unisono::comm::mpi {

/// Checks that Open MPI has enough address space for its libraries and memory; without, it crashes or hangs.
/// \throws DeviceError where the limit of this process (ulimit -v) is too low
void require_address_space();

}  // namespace unisono::comm::mpi
