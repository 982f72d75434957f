#pragma once

#include <nccl.h>

#include <string>

// NCCL, loaded at run time where ranks have GPUs: others do not need its 200 MB.

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
  X(ncclRecv)                     \
  X(ncclRedOpCreatePreMulSum)     \
  X(ncclRedOpDestroy)             \
  X(ncclReduceScatter)            \
  X(ncclSend)

#define UNISONO_MEMBER(function) decltype(&::function) function;
struct Functions {
  UNISONO_NCCL_FUNCTIONS(UNISONO_MEMBER)
};
#undef UNISONO_MEMBER

/// Null where it cannot be loaded. \param missing then set to the reason
const Functions* load(std::string& missing);

}  // namespace unisono::comm::nccl
