#pragma once

#include <string>

namespace unisono::test {

/// The root of the project's sources.
std::string source_folder();

}  // namespace unisono::test
