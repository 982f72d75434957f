#pragma once

#include "unisono/models/factory.hpp"

namespace unisono::cli {

/// The whole program: what `main` of the binary `unisono` calls.
/// \param models additional kinds of models, which configs may name like the built-in ones (docs/own-model.md)
/// \return the exit code
int run(int argc, char** argv, const models::ModelKinds& models = {});

}  // namespace unisono::cli
