#pragma once

#include <nccl.h>

#include <string>

// NCCL, loaded where ranks with GPUs meet: 200 MB that others need not have.

namespace unisono::comm::nccl {

#define UNISONO_NCCL_FUNCTIONS(X) \
  X(ncclAllGather)                \
  X(ncclAllReduce)                \
  X(ncclBroadcast)                \
  X(ncclCommAbort)                \
  X(ncclCommDestroy)              \
  X(ncclCommGetAsyncError)        \
  X(ncclCommInitRank)             \
  X(ncclGetErrorString)           \
  X(ncclGetUniqueId)              \
  X(ncclGetVersion)               \
  X(ncclGroupEnd)                 \
  X(ncclGroupStart)               \
  X(ncclRedOpCreatePreMulSum)     \
  X(ncclRedOpDestroy)             \
  X(ncclReduceScatter)

#define UNISONO_MEMBER(function) decltype(&::function) function;
struct Functions {
  UNISONO_NCCL_FUNCTIONS(UNISONO_MEMBER)
};
#undef UNISONO_MEMBER

/// Null where it cannot be loaded. \param missing then why not
const Functions* load(std::string& missing);

}  // namespace unisono::comm::nccl
