#include "unisono/cli/application.hpp"

int main(int argc, char** argv) { return unisono::cli::run(argc, argv); }
