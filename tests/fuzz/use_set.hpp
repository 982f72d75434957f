#pragma once

#include <string>

namespace unisono::test {

/// Does with a file what the program does with a set, a dictionary or arrays of other programs: describes it, asks for
/// its names, opens it, takes an epoch of batches, evaluates, and imports its arrays. \return how many of these were
/// refused with a data error (exit code 3) Any other error passes.
int use_set(const std::string& path);

}  // namespace unisono::test
