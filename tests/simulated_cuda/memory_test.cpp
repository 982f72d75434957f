// Memory: who may touch it, what it holds, and what happens when it is full.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "simulated_cuda/test_support.hpp"

namespace simulated {
namespace {

__global__ void set_float(float* to, float value) { *to = value; }

TEST_CASE("the host cannot follow a device pointer", "[simulated][memory][death]") {
  const DeviceArray<float> array(std::vector<float>{1});
  CHECK(inside_device(array.data()));
  CHECK_FALSE(inside_device(&array));
  volatile float value = 0;
  const auto text = death([&] { value = *array.data(); });
  CHECK((text.find("signal 11") != std::string::npos || text.find("SEGV") != std::string::npos));
  const auto written = death([&] { *array.data() = 2; });
  CHECK((written.find("signal 11") != std::string::npos || written.find("SEGV") != std::string::npos));
}

TEST_CASE("memory that nobody wrote is not a number", "[simulated][memory]") {
  DeviceArray<float> array(100);
  for (const float value : array.read()) REQUIRE(std::isnan(value));
}

TEST_CASE("freed memory is not given out at once, and is refused", "[simulated][memory]") {
  void* first = nullptr;
  void* second = nullptr;
  REQUIRE(cudaMalloc(&first, 1000) == cudaSuccess);
  REQUIRE(cudaFree(first) == cudaSuccess);
  REQUIRE(cudaMalloc(&second, 1000) == cudaSuccess);
  CHECK(first != second);
  CHECK(cudaFree(first) == cudaErrorInvalidValue);
  CHECK(cudaFree(static_cast<char*>(second) + 1) == cudaErrorInvalidValue);
  CHECK(cudaMemset(first, 0, 1) == cudaErrorInvalidValue);
  CHECK(cudaFree(second) == cudaSuccess);
  CHECK(cudaFree(nullptr) == cudaSuccess);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
}

TEST_CASE("work that outlives its memory aborts", "[simulated][memory][death]") {
  CHECK_THAT(death([] {
               void* pinned = nullptr;
               void* array = nullptr;
               cudaMallocHost(&pinned, 4);
               cudaMalloc(&array, 4);
               cudaMemcpyAsync(array, pinned, 4, cudaMemcpyHostToDevice, nullptr);
               cudaFreeHost(pinned);
               cudaDeviceSynchronize();
             }),
             Contains("after its pinned memory was freed"));
  CHECK_THAT(death([] {
               cudaStream_t stream = nullptr;
               cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
               void* array = nullptr;
               cudaMalloc(&array, 4);
               cudaGraph_t graph = nullptr;
               cudaGraphExec_t executable = nullptr;
               cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
               launch(set_float, 1, 1, 0, stream, static_cast<float*>(array), 1.0F);
               cudaStreamEndCapture(stream, &graph);
               cudaGraphInstantiate(&executable, graph, 0);
               cudaFree(array);
               cudaGraphLaunch(executable, stream);
               cudaStreamSynchronize(stream);
             }),
             Contains("device memory that is not allocated"));
}

TEST_CASE("a device is full when its memory is", "[simulated][memory]") {
  const Restarted restarted("UNISONO_SIMULATED_MEMORY", "1048576");
  std::size_t free = 0;
  std::size_t total = 0;
  void* half = nullptr;
  void* more = nullptr;
  REQUIRE(cudaMalloc(&half, 524288) == cudaSuccess);
  CHECK(cudaMemGetInfo(&free, &total) == cudaSuccess);
  CHECK(free == 524288);
  CHECK(total == 1048576);
  CHECK(cudaMalloc(&more, 524289) == cudaErrorMemoryAllocation);
  CHECK(more == nullptr);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaMalloc(&more, 524288) == cudaSuccess);
  CHECK(statistics().live_allocations == 2);
  CHECK(statistics().live_bytes == 1048576);
  CHECK(cudaFree(half) == cudaSuccess);
  for (int i = 0; i < 1000; ++i) {  // all of it again and again
    REQUIRE(cudaMalloc(&half, 524288) == cudaSuccess);
    REQUIRE(cudaFree(half) == cudaSuccess);
  }
  CHECK(cudaFree(more) == cudaSuccess);
  CHECK(cudaMemGetInfo(&free, &total) == cudaSuccess);
  CHECK(free == total);
}

TEST_CASE("the environment says how many devices there are", "[simulated][memory]") {
  int count = -1;
  {
    const Restarted restarted("UNISONO_SIMULATED_DEVICES", "0");
    CHECK(cudaGetDeviceCount(&count) == cudaErrorNoDevice);
    CHECK(count == 0);
    void* pointer = nullptr;
    CHECK(cudaMalloc(&pointer, 1) == cudaErrorNoDevice);
  }
  const Restarted restarted("UNISONO_SIMULATED_DEVICES", "4");
  CHECK(cudaGetDeviceCount(&count) == cudaSuccess);
  CHECK(count == 4);
  const Restarted chosen("CUDA_VISIBLE_DEVICES", "3,1,9,0");
  CHECK(cudaGetDeviceCount(&count) == cudaSuccess);
  CHECK(count == 2);
  char bus[16];
  CHECK(cudaDeviceGetPCIBusId(bus, sizeof bus, 0) == cudaSuccess);
  CHECK(std::string(bus) == "0000:04:00.0");
  CHECK(cudaSetDevice(2) == cudaErrorInvalidDevice);
  CHECK(cudaSetDevice(1) == cudaSuccess);
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 1) == cudaSuccess);
  CHECK(std::string(properties.name) == "simulated device 1");
  cudaGetLastError();
}

TEST_CASE("a device does not see another's memory", "[simulated][memory][death]") {
  const Restarted restarted("UNISONO_SIMULATED_DEVICES", "2");
  const DeviceArray<float> first(1);
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  const DeviceArray<float> second(std::vector<float>{3});
  CHECK_THAT(death([&] {
               launch(set_float, 1, 1, 0, nullptr, first.data(), 1.0F);
               cudaDeviceSynchronize();
             }),
             Contains("memory of another device"));
  REQUIRE(cudaMemcpy(first.data(), second.data(), sizeof(float), cudaMemcpyDeviceToDevice) == cudaSuccess);
  CHECK(first.read() == std::vector<float>{3});
}

TEST_CASE("where a pointer points", "[simulated][memory]") {
  const DeviceArray<float> array(10);
  void* pinned = nullptr;
  REQUIRE(cudaHostAlloc(&pinned, 100, cudaHostAllocPortable) == cudaSuccess);
  cudaPointerAttributes attributes;
  REQUIRE(cudaPointerGetAttributes(&attributes, array.data() + 3) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeDevice);
  REQUIRE(cudaPointerGetAttributes(&attributes, pinned) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeHost);
  REQUIRE(cudaPointerGetAttributes(&attributes, &attributes) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeUnregistered);
  CHECK(cudaFreeHost(pinned) == cudaSuccess);
}

TEST_CASE("calls fail when a test wants it", "[simulated][memory]") {
  void* pointer = nullptr;
  fail_next(Call::allocation, 1);
  CHECK(cudaMalloc(&pointer, 4) == cudaSuccess);
  CHECK(cudaFree(pointer) == cudaSuccess);
  CHECK(cudaMalloc(&pointer, 4) == cudaErrorMemoryAllocation);
  CHECK(cudaMalloc(&pointer, 4) == cudaSuccess);
  fail_next(Call::launch);
  CHECK(launch(set_float, 1, 1, 0, nullptr, static_cast<float*>(pointer), 1.0F) == cudaErrorLaunchOutOfResources);
  fail_next(Call::synchronisation);
  CHECK(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(cudaFree(pointer) == cudaSuccess);
  cudaGetLastError();
}

TEST_CASE("what was done is counted", "[simulated][memory]") {
  reset_statistics();
  {
    const DeviceArray<float> array(std::vector<float>(10, 1.0F));
    launch(set_float, 1, 1, 0, nullptr, array.data(), 2.0F);
    CHECK(statistics().kernels == 0);
    CHECK(array.read()[0] == 2.0F);
  }
  const auto counts = statistics();
  CHECK(counts.kernels == 1);
  CHECK(counts.allocations == 1);
  CHECK(counts.frees == 1);
  CHECK(counts.copies_to_device == 1);
  CHECK(counts.bytes_to_host == 40);
  CHECK(counts.pageable_copies == 2);
  CHECK(counts.host_synchronisations == 3);
}

}  // namespace
}  // namespace simulated
