#pragma once

#include <string>

namespace unisono::test {

/// Does with a file what the program does with a set or a dictionary: describes it, asks for its names, opens it, takes
/// an epoch of batches and evaluates. \return how many of these were refused with a data error (exit code 3)
/// Any other error passes.
int use_set(const std::string& path);

}  // namespace unisono::test
