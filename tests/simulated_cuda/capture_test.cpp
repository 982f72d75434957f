// Captures and graphs.
#include <catch2/catch.hpp>
#include <thread>

#include "simulated_cuda/test_support.hpp"

namespace simulated {
namespace {

__global__ void sum(int* to, const int* a, const int* b) { *to = *a + *b; }

constexpr auto thread_local_mode = cudaStreamCaptureModeThreadLocal;

struct Executable {
  ~Executable() {
    cudaGraphExecDestroy(handle);
    cudaGraphDestroy(graph);
  }
  /// Ends the capture that the stream began.
  void end(cudaStream_t stream) {
    REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
    REQUIRE(cudaGraphInstantiate(&handle, graph, 0) == cudaSuccess);
  }
  std::size_t size() const {
    std::size_t count = 0;
    REQUIRE(cudaGraphGetNodes(graph, nullptr, &count) == cudaSuccess);
    return count;
  }
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t handle = nullptr;
};

TEST_CASE("a graph repeats what was recorded, with the arguments of then", "[simulated][capture]") {
  const DeviceArray<int> array(std::vector<int>{0});
  const TestStream stream;
  Executable graph;
  int step = 2;
  REQUIRE(cudaStreamBeginCapture(stream.handle, thread_local_mode) == cudaSuccess);
  REQUIRE(launch(add, 1, 1, 0, stream.handle, array.data(), step) == cudaSuccess);
  REQUIRE(launch(add, 1, 1, 0, stream.handle, array.data(), step) == cudaSuccess);
  graph.end(stream.handle);
  step = 100;
  CHECK(graph.size() == 2);
  CHECK(array.read()[0] == 0);
  for (int i = 0; i < 3; ++i) REQUIRE(cudaGraphLaunch(graph.handle, stream.handle) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(stream.handle) == cudaSuccess);
  CHECK(array.read()[0] == 12);
}

TEST_CASE("an empty graph does nothing", "[simulated][capture]") {
  const TestStream stream;
  Executable graph;
  REQUIRE(cudaStreamBeginCapture(stream.handle, thread_local_mode) == cudaSuccess);
  graph.end(stream.handle);
  CHECK(graph.size() == 0);
  CHECK(cudaGraphUpload(graph.handle, stream.handle) == cudaSuccess);
  CHECK(cudaGraphLaunch(graph.handle, stream.handle) == cudaSuccess);
  CHECK(cudaStreamSynchronize(stream.handle) == cudaSuccess);
}

TEST_CASE("a capture forks into another stream and joins it", "[simulated][capture]") {
  const DeviceArray<int> array(std::vector<int>{0, 0, 0});
  const TestStream origin;
  const TestStream side;
  const TestEvent fork;
  const TestEvent join;
  Executable graph;
  REQUIRE(cudaStreamBeginCapture(origin.handle, thread_local_mode) == cudaSuccess);
  launch(set, 1, 1, 0, origin.handle, array.data(), 1);
  REQUIRE(cudaEventRecord(fork.handle, origin.handle) == cudaSuccess);
  REQUIRE(cudaStreamWaitEvent(side.handle, fork.handle, 0) == cudaSuccess);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  REQUIRE(cudaStreamIsCapturing(side.handle, &status) == cudaSuccess);
  CHECK(status == cudaStreamCaptureStatusActive);
  launch(add, 1, 1, 0, origin.handle, array.data(), 10);
  launch(set, 1, 1, 0, side.handle, array.data() + 1, 5);
  SECTION("joined") {
    REQUIRE(cudaEventRecord(join.handle, side.handle) == cudaSuccess);
    REQUIRE(cudaStreamWaitEvent(origin.handle, join.handle, 0) == cudaSuccess);
    launch(sum, 1, 1, 0, origin.handle, array.data() + 2, array.data(), array.data() + 1);
    graph.end(origin.handle);
    REQUIRE(cudaStreamIsCapturing(side.handle, &status) == cudaSuccess);
    CHECK(status == cudaStreamCaptureStatusNone);
    for (int i = 0; i < 2; ++i) {
      REQUIRE(cudaGraphLaunch(graph.handle, origin.handle) == cudaSuccess);
      REQUIRE(cudaStreamSynchronize(origin.handle) == cudaSuccess);
      CHECK(array.read() == std::vector<int>{11, 5, 16});
    }
    CHECK(cudaEventQuery(join.handle) == cudaErrorCapturedEvent);
    CHECK(cudaStreamWaitEvent(side.handle, join.handle, 0) == cudaErrorCapturedEvent);
  }
  SECTION("not joined") {
    CHECK(cudaStreamEndCapture(origin.handle, &graph.graph) == cudaErrorStreamCaptureUnjoined);
    CHECK(graph.graph == nullptr);
    CHECK(cudaStreamSynchronize(side.handle) == cudaSuccess);
  }
  SECTION("ended on the wrong stream") {
    CHECK(cudaStreamEndCapture(side.handle, &graph.graph) == cudaErrorStreamCaptureUnmatched);
    CHECK(cudaStreamEndCapture(origin.handle, &graph.graph) == cudaErrorStreamCaptureInvalidated);
  }
  cudaGetLastError();
}

TEST_CASE("branches that lack a join are run in both orders", "[simulated][capture]") {
  const DeviceArray<int> array(std::vector<int>{0, 0, 0});
  const TestStream origin;
  const TestStream side;
  const TestEvent fork;
  const TestEvent join;
  Executable graph;
  REQUIRE(cudaStreamBeginCapture(origin.handle, thread_local_mode) == cudaSuccess);
  REQUIRE(cudaEventRecord(fork.handle, origin.handle) == cudaSuccess);
  REQUIRE(cudaStreamWaitEvent(side.handle, fork.handle, 0) == cudaSuccess);
  launch(add, 1, 1, 0, side.handle, array.data(), 1);
  launch(sum, 1, 1, 0, origin.handle, array.data() + 2, array.data(),
         array.data() + 1);  // not ordered after the side's
  REQUIRE(cudaEventRecord(join.handle, side.handle) == cudaSuccess);
  REQUIRE(cudaStreamWaitEvent(origin.handle, join.handle, 0) == cudaSuccess);
  graph.end(origin.handle);
  std::vector<int> seen;
  for (int i = 0; i < 2; ++i) {
    REQUIRE(cudaMemset(array.data(), 0, 12) == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    REQUIRE(cudaGraphLaunch(graph.handle, origin.handle) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(origin.handle) == cudaSuccess);
    seen.push_back(array.read()[2]);
  }
  CHECK(seen[0] + seen[1] == 1);
}

TEST_CASE("what a capture forbids is refused and spoils it", "[simulated][capture]") {
  const DeviceArray<int> array(std::vector<int>{0});
  const TestStream stream;
  const TestStream other;
  const TestEvent event;
  cudaGraph_t graph = nullptr;
  int host = 0;
  void* pointer = nullptr;
  REQUIRE(cudaEventRecord(event.handle, other.handle) == cudaSuccess);
  REQUIRE(cudaStreamBeginCapture(stream.handle, thread_local_mode) == cudaSuccess);
  CHECK(cudaStreamBeginCapture(stream.handle, thread_local_mode) == cudaErrorIllegalState);
  SECTION("memory") { CHECK(cudaMalloc(&pointer, 4) == cudaErrorStreamCaptureUnsupported); }
  SECTION("freeing") { CHECK(cudaFree(array.data()) == cudaErrorStreamCaptureUnsupported); }
  SECTION("waiting") { CHECK(cudaStreamSynchronize(stream.handle) == cudaErrorStreamCaptureUnsupported); }
  SECTION("waiting for all") { CHECK(cudaDeviceSynchronize() == cudaErrorStreamCaptureUnsupported); }
  SECTION("asking") { CHECK(cudaStreamQuery(stream.handle) == cudaErrorStreamCaptureUnsupported); }
  SECTION("asking for a recorded event") {
    CHECK(cudaEventRecord(event.handle, stream.handle) == cudaSuccess);
    CHECK(cudaEventQuery(event.handle) == cudaErrorCapturedEvent);
  }
  SECTION("waiting for what was not recorded") {
    CHECK(cudaStreamWaitEvent(stream.handle, event.handle, 0) == cudaErrorStreamCaptureIsolation);
  }
  SECTION("pageable copies") {
    CHECK(cudaMemcpyAsync(array.data(), &host, 4, cudaMemcpyHostToDevice, stream.handle) ==
          cudaErrorStreamCaptureUnsupported);
  }
  SECTION("copies that wait") {
    CHECK(cudaMemcpy(array.data(), &host, 4, cudaMemcpyHostToDevice) == cudaErrorStreamCaptureUnsupported);
  }
  CHECK(launch(set, 1, 1, 0, stream.handle, array.data(), 1) == cudaErrorStreamCaptureInvalidated);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  CHECK(cudaStreamIsCapturing(stream.handle, &status) == cudaSuccess);
  CHECK(status == cudaStreamCaptureStatusInvalidated);
  CHECK(cudaStreamEndCapture(stream.handle, &graph) == cudaErrorStreamCaptureInvalidated);
  CHECK(graph == nullptr);
  CHECK(cudaStreamSynchronize(stream.handle) == cudaSuccess);
  cudaGetLastError();
}

TEST_CASE("modes say whom a capture disturbs", "[simulated][capture]") {
  const TestStream stream;
  const auto mode =
      GENERATE(cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed);
  const auto allocate = [] {
    void* pointer = nullptr;
    const cudaError_t error = cudaMalloc(&pointer, 4);
    if (error == cudaSuccess) cudaFree(pointer);
    return error;
  };
  REQUIRE(cudaStreamBeginCapture(stream.handle, mode) == cudaSuccess);
  cudaError_t elsewhere = cudaSuccess;
  cudaGraph_t graph = nullptr;
  cudaError_t ended = cudaSuccess;
  std::thread([&] { elsewhere = allocate(); }).join();
  CHECK((elsewhere == cudaSuccess) == (mode != cudaStreamCaptureModeGlobal));
  CHECK((allocate() == cudaSuccess) == (mode == cudaStreamCaptureModeRelaxed));
  std::thread([&] { ended = cudaStreamEndCapture(stream.handle, &graph); }).join();
  if (mode == cudaStreamCaptureModeRelaxed) {
    CHECK(ended == cudaSuccess);
    CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  } else {
    CHECK(ended == cudaErrorStreamCaptureWrongThread);
    CHECK(cudaStreamEndCapture(stream.handle, &graph) == cudaErrorStreamCaptureInvalidated);
  }
  cudaGetLastError();
}

TEST_CASE("the default stream may not be used beside a capture on a blocking stream", "[simulated][capture]") {
  const DeviceArray<int> array(std::vector<int>{0});
  const TestStream stream(cudaStreamDefault);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamBeginCapture(nullptr, thread_local_mode) == cudaErrorStreamCaptureUnsupported);
  REQUIRE(cudaStreamBeginCapture(stream.handle, thread_local_mode) == cudaSuccess);
  CHECK(launch(set, 1, 1, 0, nullptr, array.data(), 1) == cudaErrorStreamCaptureImplicit);
  CHECK(cudaStreamEndCapture(stream.handle, &graph) == cudaErrorStreamCaptureInvalidated);
  cudaGetLastError();
}

}  // namespace
}  // namespace simulated
