#pragma once

#include "unisono/session/model_parts.hpp"

namespace unisono::session {

/// Where θ lies when it is made; replicas may share memory.
Allocator& memory_of_parameters(comm::Communicator& replicas, const Holdings& held);

}  // namespace unisono::session
