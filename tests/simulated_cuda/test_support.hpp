#pragma once
// What the tests of the simulation share.

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "simulated_cuda/control.hpp"
#include "simulated_cuda/kernel.hpp"

namespace simulated {

using Catch::Matchers::Contains;

inline __global__ void set(int* to, int value) { *to = value; }
inline __global__ void add(int* to, int value) { *to += value; }

/// Memory of the current device.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t size) : size_(size) {
    void* pointer = nullptr;
    REQUIRE(cudaMalloc(&pointer, size * sizeof(T)) == cudaSuccess);
    data_ = static_cast<T*>(pointer);
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) { write(values); }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::size_t bytes() const { return size_ * sizeof(T); }
  void write(const std::vector<T>& values) {
    REQUIRE(cudaMemcpy(data_, values.data(), bytes(), cudaMemcpyHostToDevice) == cudaSuccess);
  }
  std::vector<T> read() const {
    std::vector<T> values(size_);
    REQUIRE(cudaMemcpy(values.data(), data_, bytes(), cudaMemcpyDeviceToHost) == cudaSuccess);
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t size_;
};

struct TestStream {
  explicit TestStream(unsigned flags = cudaStreamNonBlocking) {
    REQUIRE(cudaStreamCreateWithFlags(&handle, flags) == cudaSuccess);
  }
  ~TestStream() { cudaStreamDestroy(handle); }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;
  cudaStream_t handle = nullptr;
};

struct TestEvent {
  TestEvent() { REQUIRE(cudaEventCreateWithFlags(&handle, cudaEventDisableTiming) == cudaSuccess); }
  ~TestEvent() { cudaEventDestroy(handle); }
  TestEvent(const TestEvent&) = delete;
  TestEvent& operator=(const TestEvent&) = delete;
  cudaEvent_t handle = nullptr;
};

/// The simulation with other settings, until the end of the test.
class Restarted {
 public:
  Restarted(const char* name, const char* value) : name_(name) {
    setenv(name, value, 1);
    restart();
  }
  ~Restarted() {
    unsetenv(name_);
    restart();
  }
  Restarted(const Restarted&) = delete;
  Restarted& operator=(const Restarted&) = delete;

 private:
  const char* name_;
};

/// Runs `body` in a process of its own, which must end by a signal or an error: what it wrote on stderr, and after that
/// "signal N" or "exit N".
template <typename Body>
std::string death(Body&& body) {
  int ends[2];
  if (pipe(ends) != 0) return "pipe failed";
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    for (const int signal : {SIGABRT, SIGSEGV, SIGBUS}) std::signal(signal, SIG_DFL);
    body();
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<std::size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return text + (WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                                     : "exit " + std::to_string(WEXITSTATUS(status)));
}

}  // namespace simulated
