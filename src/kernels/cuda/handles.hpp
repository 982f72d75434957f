#pragma once

#include <cuda_runtime_api.h>

#include <utility>

#include "cuda/check.hpp"

// RAII owners of CUDA's objects.

namespace unisono::kernels::cuda {

/// A stream that does not wait for the default stream.
class Stream {
 public:
  Stream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags"); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// A point in a stream that other streams, and threads, can wait for.
class Event {
 public:
  Event() { check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  /// What is given to the stream from now on waits for the event.
  void hold(cudaStream_t stream) { check(cudaStreamWaitEvent(stream, event_, 0), "cudaStreamWaitEvent"); }
  /// An event that was never recorded has happened.
  void wait() { check(cudaEventSynchronize(event_), "cudaEventSynchronize"); }
  bool happened() {
    const cudaError_t error = cudaEventQuery(event_);
    if (error == cudaErrorNotReady) return false;
    check(error, "cudaEventQuery");
    return true;
  }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// A recorded sequence of work that one call starts.
class GraphExecution {
 public:
  GraphExecution() = default;
  explicit GraphExecution(cudaGraphExec_t execution) : execution_(execution) {}
  ~GraphExecution() {
    if (execution_ != nullptr) cudaGraphExecDestroy(execution_);
  }
  GraphExecution(GraphExecution&& other) noexcept : execution_(std::exchange(other.execution_, nullptr)) {}
  GraphExecution& operator=(GraphExecution&& other) noexcept {
    std::swap(execution_, other.execution_);
    return *this;
  }

  explicit operator bool() const { return execution_ != nullptr; }
  void launch(cudaStream_t stream) { check(cudaGraphLaunch(execution_, stream), "cudaGraphLaunch"); }

 private:
  cudaGraphExec_t execution_ = nullptr;
};

}  // namespace unisono::kernels::cuda
