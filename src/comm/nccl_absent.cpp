// Compiled in place of nccl/ where NCCL's header is not found.
#include <cstdlib>

#include "device/collectives.hpp"

namespace unisono::comm {

std::string nccl_version(std::string& missing) {
  missing = "this unisono was built without NCCL";
  return "";
}

/// Never asked for: nobody has a version of it.
MakeCollectives nccl_collectives() { std::abort(); }

}  // namespace unisono::comm
