#pragma once

namespace unisono::cli {

/// The whole program. \return the exit code
int run(int argc, char** argv);

}  // namespace unisono::cli
