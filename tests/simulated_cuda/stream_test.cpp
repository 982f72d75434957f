// Streams, events and copies: nothing runs before somebody waits.
#include <catch2/catch.hpp>
#include <numeric>
#include <thread>

#include "simulated_cuda/test_support.hpp"

namespace simulated {
namespace {

__global__ void copy_one(int* to, const int* from) { *to = *from; }

/// An int that host and device can reach.
struct Shared {
  Shared() {
    void* pointer = nullptr;
    REQUIRE(cudaMallocHost(&pointer, sizeof(int)) == cudaSuccess);
    value = static_cast<int*>(pointer);
    *value = 0;
  }
  ~Shared() { cudaFreeHost(value); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  int* value = nullptr;
};

TEST_CASE("kernels run when the host waits for them", "[simulated][stream]") {
  const Shared shared;
  const TestStream stream;
  REQUIRE(launch(set, 1, 1, 0, stream.handle, shared.value, 5) == cudaSuccess);
  CHECK(*shared.value == 0);
  REQUIRE(cudaStreamSynchronize(stream.handle) == cudaSuccess);
  CHECK(*shared.value == 5);
  REQUIRE(launch(set, 1, 1, 0, stream.handle, shared.value, 6) == cudaSuccess);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(*shared.value == 6);
  REQUIRE(launch(set, 1, 1, 0, stream.handle, shared.value, 7) == cudaSuccess);
  run_pending();
  CHECK(*shared.value == 7);
}

TEST_CASE("queries run one piece of work at a time", "[simulated][stream]") {
  const Shared shared;
  const TestStream stream;
  for (int i = 0; i < 2; ++i) REQUIRE(launch(add, 1, 1, 0, stream.handle, shared.value, 1) == cudaSuccess);
  CHECK(cudaStreamQuery(stream.handle) == cudaErrorNotReady);
  CHECK(*shared.value == 1);
  CHECK(cudaStreamQuery(stream.handle) == cudaSuccess);
  CHECK(*shared.value == 2);
  const TestEvent event;
  CHECK(cudaEventQuery(event.handle) == cudaSuccess);
  REQUIRE(launch(add, 1, 1, 0, stream.handle, shared.value, 1) == cudaSuccess);
  REQUIRE(cudaEventRecord(event.handle, stream.handle) == cudaSuccess);
  CHECK(cudaEventQuery(event.handle) == cudaErrorNotReady);
  CHECK(cudaEventQuery(event.handle) == cudaSuccess);
  CHECK(cudaGetLastError() == cudaErrorNotReady);
}

TEST_CASE("a stream waits for an event of another, and for no more", "[simulated][stream]") {
  const Shared first;
  const Shared second;
  const TestStream one;
  const TestStream two;
  const TestEvent event;
  launch(set, 1, 1, 0, one.handle, first.value, 1);
  REQUIRE(cudaEventRecord(event.handle, one.handle) == cudaSuccess);
  launch(set, 1, 1, 0, one.handle, first.value, 2);
  SECTION("with the wait, it sees what was before the event") {
    REQUIRE(cudaStreamWaitEvent(two.handle, event.handle, 0) == cudaSuccess);
    launch(copy_one, 1, 1, 0, two.handle, second.value, first.value);
    REQUIRE(cudaStreamSynchronize(two.handle) == cudaSuccess);
    CHECK(*second.value == 1);
  }
  SECTION("without it, it does not") {
    launch(copy_one, 1, 1, 0, two.handle, second.value, first.value);
    REQUIRE(cudaStreamSynchronize(two.handle) == cudaSuccess);
    CHECK(*second.value == 0);
  }
  SECTION("a wait stands for the record before it, not for later ones") {
    REQUIRE(cudaStreamWaitEvent(two.handle, event.handle, 0) == cudaSuccess);
    REQUIRE(cudaEventRecord(event.handle, one.handle) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(two.handle) == cudaSuccess);
    CHECK(*first.value == 1);
    REQUIRE(cudaEventSynchronize(event.handle) == cudaSuccess);
    CHECK(*first.value == 2);
  }
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
}

TEST_CASE("the default stream and blocking streams wait for each other", "[simulated][stream]") {
  const Shared a;
  const Shared b;
  const TestStream blocking(cudaStreamDefault);
  launch(set, 1, 1, 0, blocking.handle, a.value, 1);
  launch(copy_one, 1, 1, 0, nullptr, b.value, a.value);
  launch(set, 1, 1, 0, blocking.handle, a.value, 2);
  REQUIRE(cudaStreamSynchronize(blocking.handle) == cudaSuccess);
  CHECK(*a.value == 2);
  CHECK(*b.value == 1);
  const TestStream other;
  launch(set, 1, 1, 0, other.handle, a.value, 3);
  launch(copy_one, 1, 1, 0, nullptr, b.value, a.value);
  REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
  CHECK(*b.value == 2);  // a non-blocking stream was not waited for
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
}

TEST_CASE("pageable sources are read at the call, pinned ones when the copy runs", "[simulated][copy]") {
  const TestStream stream;
  const DeviceArray<int> array(1);
  int pageable = 1;
  REQUIRE(cudaMemcpyAsync(array.data(), &pageable, sizeof(int), cudaMemcpyHostToDevice, stream.handle) == cudaSuccess);
  pageable = 2;
  int result = 0;
  REQUIRE(cudaMemcpyAsync(&result, array.data(), sizeof(int), cudaMemcpyDeviceToHost, stream.handle) == cudaSuccess);
  CHECK(result == 1);  // pageable targets are waited for

  const Shared source;
  const Shared target;
  *source.value = 3;
  REQUIRE(cudaMemcpyAsync(array.data(), source.value, sizeof(int), cudaMemcpyDefault, stream.handle) == cudaSuccess);
  *source.value = 4;
  REQUIRE(cudaMemcpyAsync(target.value, array.data(), sizeof(int), cudaMemcpyDefault, stream.handle) == cudaSuccess);
  CHECK(*target.value == 0);
  REQUIRE(cudaStreamSynchronize(stream.handle) == cudaSuccess);
  CHECK(*target.value == 4);
}

TEST_CASE("registered memory is pinned", "[simulated][copy]") {
  const TestStream stream;
  const DeviceArray<int> array(std::vector<int>{7, 8, 9});
  std::vector<int> host{0, 0, 0, 5};
  REQUIRE(cudaHostRegister(host.data(), 12, cudaHostRegisterDefault) == cudaSuccess);
  CHECK(cudaHostRegister(host.data() + 1, 4, cudaHostRegisterDefault) == cudaErrorHostMemoryAlreadyRegistered);
  REQUIRE(cudaMemcpyAsync(host.data(), array.data(), 12, cudaMemcpyDeviceToHost, stream.handle) == cudaSuccess);
  CHECK(host[0] == 0);
  REQUIRE(cudaStreamSynchronize(stream.handle) == cudaSuccess);
  CHECK(host == std::vector<int>{7, 8, 9, 5});
  CHECK(cudaMemcpy(array.data(), host.data() + 1, 12, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);  // half pinned
  REQUIRE(cudaHostUnregister(host.data()) == cudaSuccess);
  CHECK(cudaHostUnregister(host.data()) == cudaErrorHostMemoryNotRegistered);
  CHECK(cudaGetLastError() == cudaErrorHostMemoryNotRegistered);
}

TEST_CASE("copies do not span registered and other memory, from either side", "[simulated][copy]") {
  const DeviceArray<int> array(4);
  std::vector<int> host(8);
  const auto copy = [&](int from, int count) {
    return cudaMemcpy(array.data(), &host[static_cast<std::size_t>(from)],
                      static_cast<std::size_t>(count) * sizeof(int), cudaMemcpyHostToDevice);
  };
  REQUIRE(cudaHostRegister(&host[2], 2 * sizeof(int), cudaHostRegisterDefault) == cudaSuccess);
  CHECK(copy(0, 2) == cudaSuccess);  // beside it
  CHECK(copy(4, 4) == cudaSuccess);
  CHECK(copy(2, 2) == cudaSuccess);
  CHECK(copy(1, 2) == cudaErrorInvalidValue);  // into it
  CHECK(copy(3, 2) == cudaErrorInvalidValue);  // out of it
  CHECK(copy(1, 4) == cudaErrorInvalidValue);  // over it
  REQUIRE(cudaHostRegister(&host[4], 2 * sizeof(int), cudaHostRegisterDefault) == cudaSuccess);
  CHECK(copy(2, 4) == cudaErrorInvalidValue);  // two registrations are not one
  REQUIRE(cudaHostUnregister(&host[2]) == cudaSuccess);
  REQUIRE(cudaHostUnregister(&host[4]) == cudaSuccess);
  cudaGetLastError();
}

TEST_CASE("asynchronous copies of pageable memory count as blocking", "[simulated][copy]") {
  const TestStream stream;
  const DeviceArray<int> array(1);
  const Shared pinned;
  int pageable = 1;
  reset_statistics();
  REQUIRE(cudaMemcpyAsync(array.data(), pinned.value, sizeof(int), cudaMemcpyDefault, stream.handle) == cudaSuccess);
  REQUIRE(cudaMemcpyAsync(pinned.value, array.data(), sizeof(int), cudaMemcpyDefault, stream.handle) == cudaSuccess);
  CHECK(statistics().blocking_copies == 0);
  REQUIRE(cudaMemcpyAsync(array.data(), &pageable, sizeof(int), cudaMemcpyDefault, stream.handle) == cudaSuccess);
  CHECK(statistics().blocking_copies == 1);
  REQUIRE(cudaMemcpyAsync(&pageable, array.data(), sizeof(int), cudaMemcpyDefault, stream.handle) == cudaSuccess);
  CHECK(statistics().blocking_copies == 2);
  REQUIRE(cudaStreamSynchronize(stream.handle) == cudaSuccess);
}

TEST_CASE("rows are copied between pitches", "[simulated][copy]") {
  const DeviceArray<int> array(std::vector<int>(8, -1));
  std::vector<int> rows{1, 2, 3, 4, 5, 6};
  REQUIRE(cudaMemcpy2DAsync(array.data(), 16, rows.data(), 12, 8, 2, cudaMemcpyHostToDevice, nullptr) == cudaSuccess);
  CHECK(array.read() == std::vector<int>{1, 2, -1, -1, 4, 5, -1, -1});
  CHECK(cudaMemcpy2DAsync(array.data(), 4, rows.data(), 12, 8, 2, cudaMemcpyHostToDevice, nullptr) ==
        cudaErrorInvalidPitchValue);
  cudaGetLastError();
}

TEST_CASE("copies that leave their memory or lie about it are refused", "[simulated][copy]") {
  const DeviceArray<int> array(4);
  std::vector<int> host(8);
  CHECK(cudaMemcpy(array.data(), host.data(), 17, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(array.data() + 2, host.data(), 12, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(array.data(), host.data(), 16, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(nullptr, host.data(), 16, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemset(host.data(), 0, 4) == cudaErrorInvalidValue);
  CHECK(cudaMemset(array.data(), 0, 17) == cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST_CASE("a destroyed handle is refused, the work of its stream still runs", "[simulated][stream]") {
  const Shared shared;
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, -1) == cudaSuccess);
  launch(set, 1, 1, 0, stream, shared.value, 1);
  REQUIRE(cudaStreamDestroy(stream) == cudaSuccess);
  CHECK(cudaStreamSynchronize(stream) == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamDestroy(stream) == cudaErrorInvalidResourceHandle);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(*shared.value == 1);
  cudaGetLastError();
}

TEST_CASE("a long queue runs by itself", "[simulated][stream]") {
  const Shared shared;
  const TestStream stream;
  for (int i = 0; i < 5000; ++i) launch(add, 1, 1, 0, stream.handle, shared.value, 1);
  CHECK(*shared.value > 4000);
  REQUIRE(cudaStreamSynchronize(stream.handle) == cudaSuccess);
  CHECK(*shared.value == 5000);
}

struct HostCall {
  int value = 0;
  cudaError_t nested = cudaSuccess;
  int* shared = nullptr;
};
void CUDART_CB from_stream(void* data) {
  auto& host_call = *static_cast<HostCall*>(data);
  host_call.value = *host_call.shared;
  host_call.nested = cudaDeviceSynchronize();
}

TEST_CASE("host functions run in their stream's order and may call nothing", "[simulated][stream]") {
  const Shared shared;
  const TestStream stream;
  HostCall host_call{0, cudaSuccess, shared.value};
  launch(set, 1, 1, 0, stream.handle, shared.value, 1);
  REQUIRE(cudaLaunchHostFunc(stream.handle, from_stream, &host_call) == cudaSuccess);
  launch(set, 1, 1, 0, stream.handle, shared.value, 2);
  REQUIRE(cudaStreamSynchronize(stream.handle) == cudaSuccess);
  CHECK(host_call.value == 1);
  CHECK(host_call.nested == cudaErrorNotPermitted);
  cudaGetLastError();
}

TEST_CASE("several host threads use streams of their own", "[simulated][stream]") {
  const DeviceArray<int> array(std::vector<int>(4));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      cudaStream_t stream = nullptr;
      cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
      for (int i = 0; i < 200; ++i) {
        launch(add, 1, 1, 0, stream, array.data() + t, t);
        if (i % 10 == 0) cudaStreamSynchronize(stream);
      }
      cudaStreamSynchronize(stream);
      cudaStreamDestroy(stream);
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(array.read() == std::vector<int>{0, 200, 400, 600});
}

TEST_CASE("events tell the time between them", "[simulated][stream]") {
  cudaEvent_t start = nullptr;
  cudaEvent_t end = nullptr;
  REQUIRE(cudaEventCreate(&start) == cudaSuccess);
  REQUIRE(cudaEventCreate(&end) == cudaSuccess);
  float milliseconds = -1;
  CHECK(cudaEventElapsedTime(&milliseconds, start, end) == cudaErrorInvalidResourceHandle);
  const TestStream stream;
  const Shared shared;
  launch(set, 1, 1, 0, stream.handle, shared.value, 1);
  REQUIRE(cudaEventRecord(start, stream.handle) == cudaSuccess);
  launch(set, 1, 1, 0, stream.handle, shared.value, 1);
  REQUIRE(cudaEventRecord(end, stream.handle) == cudaSuccess);
  CHECK(cudaEventElapsedTime(&milliseconds, start, end) == cudaErrorNotReady);
  REQUIRE(cudaEventSynchronize(end) == cudaSuccess);
  CHECK(cudaEventElapsedTime(&milliseconds, start, end) == cudaSuccess);
  CHECK(milliseconds >= 0);
  CHECK(cudaEventDestroy(start) == cudaSuccess);
  CHECK(cudaEventDestroy(end) == cudaSuccess);
  cudaGetLastError();
}

}  // namespace
}  // namespace simulated
