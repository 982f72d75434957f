#pragma once

#include "unisono/models/factory.hpp"

namespace unisono::cli {

/// The whole program, as the binary `unisono` has it.
/// \param models kinds of models of one's own, which configs may name beside the built-in ones
/// \return the exit code
int run(int argc, char** argv, const models::ModelKinds& models = {});

}  // namespace unisono::cli
