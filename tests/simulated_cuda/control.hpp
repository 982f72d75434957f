#pragma once
// What tests ask of the simulated device and tell it, beside CUDA's own functions.
//
// The environment, read at the first call and at restart():
//   UNISONO_SIMULATED_DEVICES  number of devices, 1
//   UNISONO_SIMULATED_MEMORY   bytes of each device, 2³⁰
//   UNISONO_SIMULATED_EAGER    1: work runs when it is given to a stream, not when somebody waits for it
//   UNISONO_SIMULATED_ORDER    seed of the order in which the blocks of a grid run, 1; 0: the natural order
//   UNISONO_SIMULATED_REPORT   file to which each process appends its counts when it ends, a line of JSON each
//   CUDA_VISIBLE_DEVICES       indices that choose and reorder the devices

#include <cstddef>
#include <cstdint>

namespace simulated {

/// Calls since the last reset_statistics(); what is live is counted from the start.
struct Statistics {
  std::uint64_t kernels = 0;           ///< kernels that ran, those of graphs included
  std::uint64_t matmuls = 0;           ///< products of cublasLt that ran
  std::uint64_t convolutions = 0;      ///< plans of cuDNN that ran
  std::uint64_t collectives = 0;       ///< operations of NCCL that ran, each rank's own
  std::uint64_t captures = 0;          ///< captures that ended well
  std::uint64_t graph_launches = 0;    ///< given to a stream
  std::uint64_t copies_to_device = 0;  ///< copies that ran, by direction, and their bytes
  std::uint64_t bytes_to_device = 0;
  std::uint64_t copies_to_host = 0;
  std::uint64_t bytes_to_host = 0;
  std::uint64_t copies_on_device = 0;  ///< between devices, too
  std::uint64_t bytes_on_device = 0;
  std::uint64_t pageable_copies = 0;        ///< of these, copies whose host memory was not pinned
  std::uint64_t blocking_copies = 0;        ///< cudaMemcpyAsync of such memory, for which the driver may wait
  std::uint64_t unlisted_graphs = 0;        ///< of cuDNN, asked for and not in cudnn_listed.inc
  std::uint64_t memsets = 0;                ///< that ran
  std::uint64_t host_synchronisations = 0;  ///< waits of the host: synchronise calls, synchronous copies, cudaFree
  std::uint64_t allocations = 0;            ///< cudaMalloc that succeeded
  std::uint64_t frees = 0;                  ///< cudaFree of memory
  std::uint64_t pinned_allocations = 0;     ///< cudaMallocHost, cudaHostAlloc, cudaHostRegister
  std::uint64_t live_allocations = 0;       ///< device memory not freed yet, of all devices
  std::uint64_t live_bytes = 0;
  std::uint64_t live_pinned_allocations = 0;
  std::uint64_t live_streams = 0;  ///< also live_…: handles not destroyed yet
  std::uint64_t live_events = 0;
  std::uint64_t live_graphs = 0;           ///< graphs and their executables
  std::uint64_t live_communicators = 0;    ///< of NCCL
  std::uint64_t live_library_objects = 0;  ///< handles and descriptors of cublasLt and cuDNN
};
Statistics statistics();
void reset_statistics();

/// A call that fail_next makes fail, and the error that it returns then.
enum class Call {
  allocation,         ///< cudaMalloc: cudaErrorMemoryAllocation
  pinned_allocation,  ///< cudaMallocHost, cudaHostAlloc, cudaHostRegister: cudaErrorMemoryAllocation
  launch,             ///< a kernel: cudaErrorLaunchOutOfResources
  copy,               ///< a copy or memset: cudaErrorInvalidValue
  synchronisation,    ///< of a stream, an event, a device: cudaErrorLaunchFailure, the work having run
  capture,            ///< cudaStreamBeginCapture: cudaErrorStreamCaptureUnsupported
  instantiation,      ///< cudaGraphInstantiate: cudaErrorMemoryAllocation
  epilogue,           ///< cublasLtMatmulAlgoGetHeuristic with an epilogue: CUBLAS_STATUS_NOT_SUPPORTED
  matmul,             ///< cublasLtMatmul: CUBLAS_STATUS_EXECUTION_FAILED
  convolution,        ///< cudnnBackendExecute: CUDNN_STATUS_EXECUTION_FAILED
  collective,         ///< an operation of NCCL: ncclSystemError
};
/// Makes one call of that kind fail, after `passing` of them that are carried out.
void fail_next(Call call, int passing = 0);

/// Whether the address lies in the range of a device's memory, allocated or not.
bool inside_device(const void* pointer);

/// Runs all work that was given to streams and waits for nothing else, as a device does while the host is idle.
void run_pending();

/// Forgets all state and reads the environment again. Aborts if memory, streams, events or graphs are live.
void restart();

}  // namespace simulated
