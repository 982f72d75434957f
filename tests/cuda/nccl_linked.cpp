// The table of NCCL for simulated devices, whose functions are linked.
#include "nccl/library.hpp"

namespace unisono::comm::nccl {

#define UNISONO_TAKE(function) .function = ::function,

const Functions* load(std::string& missing) {
  static const Functions table = {UNISONO_NCCL_FUNCTIONS(UNISONO_TAKE)};
  missing.clear();
  return &table;
}

}  // namespace unisono::comm::nccl
