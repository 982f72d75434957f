// The binary `unisono`. Each command is a file beside this one, with its name: `unisono train` begins in train.cpp,
// whose run (session/run/run.cpp) calls the training loop of a strategy (strategies/). application.cpp chooses the
// command.
#include "unisono/cli/application.hpp"

int main(int argc, char** argv) { return unisono::cli::run(argc, argv); }
