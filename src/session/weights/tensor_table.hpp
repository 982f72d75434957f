#pragma once

#include <string>

#include "unisono/models/model.hpp"
#include "unisono/session/initial_weights.hpp"
#include "weights/tensor_fit.hpp"

namespace unisono::session {

/// What a fit says, for a table. \param path of the file
InitialWeights weights_of(const models::Model& model, const ModelFit& fit, const std::string& path);

}  // namespace unisono::session
