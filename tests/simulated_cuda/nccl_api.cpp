// NCCL's functions.
#include <algorithm>

#include "simulated_cuda/nccl.hpp"

using namespace simulated;
using Kind = RankOperation::Kind;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  if (version == nullptr) return ncclInvalidArgument;
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* unique) {
  const Session session;
  if (unique == nullptr) return refuse(ncclInvalidArgument, "there is nowhere to write the id to");
  *unique = new_id();
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* handle, int size, ncclUniqueId id, int rank) {
  return make(handle, size, id, rank, nullptr);
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* handle, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  return make(handle, size, id, rank, config);
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  Session session;
  ncclResult_t result = ncclSuccess;
  const auto c = usable(handle, result);
  return result == ncclSuccess ? finish(session, *c) : result;
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  if (handle == nullptr) return ncclSuccess;
  Session session;
  const auto c = communicators().find(handle);
  if (!c) return refuse(ncclInvalidArgument, "there is no such communicator");
  finish(session, *c);
  communicators().remove(handle);
  --machine().communicators;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  const Session session;
  const auto c = communicators().remove(handle);
  if (!c) return refuse(ncclInvalidArgument, "there is no such communicator");
  c->aborted = c->clique->aborted = true;
  if (c->clique->outcome == ncclInProgress) c->clique->outcome = ncclRemoteError;
  --machine().communicators;
  machine().changed.notify_all();
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* error) {
  const Session session;
  const auto c = communicators().find(handle);
  if (!c || error == nullptr) return refuse(ncclInvalidArgument, "there is no such communicator");
  *error = c->clique->aborted ? ncclRemoteError : c->clique->outcome;
  return ncclSuccess;
}

ncclResult_t ncclCommCount(ncclComm_t handle, int* count) {
  const Session session;
  const auto c = communicators().find(handle);
  if (!c || count == nullptr) return refuse(ncclInvalidArgument, "there is no such communicator");
  *count = c->clique->size;
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(ncclComm_t handle, int* rank) {
  const Session session;
  const auto c = communicators().find(handle);
  if (!c || rank == nullptr) return refuse(ncclInvalidArgument, "there is no such communicator");
  *rank = c->rank;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group().depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (group().depth == 0) return refuse(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  Session session;
  return --group().depth == 0 ? submit_group(session) : ncclSuccess;
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t comm) {
  const Session session;
  const auto c = communicators().find(comm);
  if (!c || op == nullptr || scalar == nullptr) return refuse(ncclInvalidArgument, "there is no such communicator");
  if (type != ncclFloat32 || residence != ncclScalarHostImmediate) {
    return refuse(ncclInvalidArgument, "a factor that is no float of the host is not simulated");
  }
  int number = ncclNumOps;
  while (c->weighted_sums.count(number) > 0) ++number;
  c->weighted_sums[number] = *static_cast<const float*>(scalar);
  *op = static_cast<ncclRedOp_t>(number);
  return ncclSuccess;
}
ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  const Session session;
  const auto c = communicators().find(comm);
  if (!c || c->weighted_sums.erase(static_cast<int>(op)) == 0) {
    return refuse(ncclInvalidArgument, "there is no such reduction");
  }
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return add({Kind::all_reduce, send, receive, count, type, op, 0}, comm, stream);
}
ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  return add({Kind::reduce_scatter, send, receive, count, type, op, 0}, comm, stream);
}
ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return add({Kind::all_gather, send, receive, count, type, ncclSum, 0}, comm, stream);
}
ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return add({Kind::broadcast, send, receive, count, type, ncclSum, root}, comm, stream);
}
ncclResult_t ncclSend(const void* send, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add({Kind::send, send, nullptr, count, type, ncclSum, peer}, comm, stream);
}
ncclResult_t ncclRecv(void* receive, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add({Kind::receive, nullptr, receive, count, type, ncclSum, peer}, comm, stream);
}

const char* ncclGetLastError(ncclComm_t) { return last_message().c_str(); }

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

}  // extern "C"
