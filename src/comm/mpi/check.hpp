#pragma once

#include <mpi.h>

namespace unisono::comm::mpi {

/// Throws CommunicationError where a call of MPI has failed.
/// \param call its name, for the message
void check(int code, const char* call, const char* file = __builtin_FILE(), int line = __builtin_LINE());

}  // namespace unisono::comm::mpi
