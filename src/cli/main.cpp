// The binary `unisono`. application.cpp chooses the command; `unisono train` begins in train.cpp, whose run
// (session/run/run.cpp) calls the training loop of a strategy (strategies/).
#include "unisono/cli/application.hpp"

int main(int argc, char** argv) { return unisono::cli::run(argc, argv); }
