#include "source_folder.hpp"

namespace unisono::test {

std::string source_folder() { return UNISONO_SOURCE_DIR; }

}  // namespace unisono::test
