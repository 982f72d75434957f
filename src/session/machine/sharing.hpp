#pragma once

#include "unisono/session/model_parts.hpp"

namespace unisono::session {

/// Where θ lies when it is made; replicas may share memory. \param parts up to what is held
Allocator& memory_of_parameters(ModelParts& parts);

}  // namespace unisono::session
