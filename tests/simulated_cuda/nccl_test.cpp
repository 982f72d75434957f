// Ranks as threads, each with a device of its own.
#include <nccl.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <thread>

#include "simulated_cuda/test_support.hpp"

namespace simulated {
namespace {

/// What a thread does that is a rank. Catch's assertions are for one thread alone: ranks count their mistakes.
struct Rank {
  int rank = 0;
  int size = 0;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  std::atomic<int>* mistakes = nullptr;

  void expect(bool right) const {
    if (!right) ++*mistakes;
  }
};

template <typename T>
struct Buffer {
  explicit Buffer(const std::vector<T>& values) : size(values.size()) {
    void* pointer = nullptr;
    cudaMalloc(&pointer, size * sizeof(T));
    data = static_cast<T*>(pointer);
    cudaMemcpy(data, values.data(), size * sizeof(T), cudaMemcpyHostToDevice);
  }
  ~Buffer() { cudaFree(data); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  std::vector<T> read() const {
    std::vector<T> values(size);
    cudaMemcpy(values.data(), data, size * sizeof(T), cudaMemcpyDeviceToHost);
    return values;
  }
  T* data = nullptr;
  std::size_t size;
};

/// Runs `body` on `size` threads with a communicator; returns the number of mistakes.
int run_ranks(int size, const std::function<void(Rank&)>& body) {
  ncclUniqueId id;
  if (ncclGetUniqueId(&id) != ncclSuccess) return -1;
  std::atomic<int> mistakes{0};
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r) {
    threads.emplace_back([&, r] {
      Rank rank{r, size, nullptr, nullptr, &mistakes};
      rank.expect(cudaSetDevice(r) == cudaSuccess);
      rank.expect(cudaStreamCreateWithFlags(&rank.stream, cudaStreamNonBlocking) == cudaSuccess);
      rank.expect(ncclCommInitRank(&rank.comm, size, id, r) == ncclSuccess);
      body(rank);
      if (rank.comm != nullptr) rank.expect(ncclCommDestroy(rank.comm) == ncclSuccess);
      rank.expect(cudaStreamDestroy(rank.stream) == cudaSuccess);
    });
  }
  for (auto& thread : threads) thread.join();
  return mistakes;
}

__global__ void fill(float* to, float value) { to[threadIdx.x] = value; }

TEST_CASE("collectives of float, double and int64", "[simulated][nccl]") {
  const Restarted restarted("UNISONO_SIMULATED_DEVICES", "4");
  CHECK(run_ranks(4, [](Rank& r) {
          const float own = static_cast<float>(r.rank);
          const Buffer<float> x(std::vector<float>{own, 1});
          const Buffer<float> y(std::vector<float>{0, 0});
          r.expect(ncclAllReduce(x.data, y.data, 2, ncclFloat32, ncclSum, r.comm, r.stream) == ncclSuccess);
          const Buffer<double> d(std::vector<double>{-own, own});
          r.expect(ncclAllReduce(d.data, d.data, 2, ncclFloat64, ncclMax, r.comm, r.stream) == ncclSuccess);
          const Buffer<std::int64_t> i(std::vector<std::int64_t>{std::int64_t{1} << 60});
          r.expect(ncclAllReduce(i.data, i.data, 1, ncclInt64, ncclSum, r.comm, r.stream) == ncclSuccess);
          r.expect(cudaStreamSynchronize(r.stream) == cudaSuccess);
          r.expect(y.read() == std::vector<float>{6, 4});
          r.expect(d.read() == std::vector<double>{0, 3});
          r.expect(i.read()[0] == std::int64_t{1} << 62);

          const Buffer<float> parts(std::vector<float>{own, own + 10, own + 20, own + 30});
          float* mine = parts.data + r.rank;
          r.expect(ncclReduceScatter(parts.data, mine, 1, ncclFloat32, ncclSum, r.comm, r.stream) == ncclSuccess);
          r.expect(ncclAllGather(mine, parts.data, 1, ncclFloat32, r.comm, r.stream) == ncclSuccess);
          const Buffer<float> root(std::vector<float>{own});
          r.expect(ncclBroadcast(root.data, root.data, 1, ncclFloat32, 2, r.comm, r.stream) == ncclSuccess);
          r.expect(cudaStreamSynchronize(r.stream) == cudaSuccess);
          r.expect(parts.read() == std::vector<float>{6, 46, 86, 126});
          r.expect(root.read()[0] == 2);
        }) == 0);
  CHECK(statistics().live_communicators == 0);
}

TEST_CASE("sums are those of float, in the order of ranks", "[simulated][nccl]") {
  const Restarted restarted("UNISONO_SIMULATED_DEVICES", "3");
  CHECK(
      run_ranks(3, [](Rank& r) {
        const Buffer<float> x(std::vector<float>{std::vector<float>{1e8F, 1, -1e8F}[static_cast<std::size_t>(r.rank)]});
        r.expect(ncclAllReduce(x.data, x.data, 1, ncclFloat32, ncclSum, r.comm, r.stream) == ncclSuccess);
        r.expect(cudaStreamSynchronize(r.stream) == cudaSuccess);
        r.expect(x.read()[0] == (1e8F + 1) - 1e8F);
      }) == 0);
}

TEST_CASE("operations keep to their streams, and to what they wait for", "[simulated][nccl]") {
  const Restarted restarted("UNISONO_SIMULATED_DEVICES", "2");
  CHECK(run_ranks(2, [](Rank& r) {
          const Buffer<float> x(std::vector<float>{0, 0});
          cudaStream_t side = nullptr;
          cudaEvent_t ready = nullptr;
          cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
          cudaEventCreateWithFlags(&ready, cudaEventDisableTiming);
          for (int step = 1; step <= 20; ++step) {
            launch(fill, 1, 2, 0, r.stream, x.data, static_cast<float>(step));
            cudaEventRecord(ready, r.stream);
            cudaStreamWaitEvent(side, ready, 0);
            r.expect(ncclAllReduce(x.data, x.data, 2, ncclFloat32, ncclSum, r.comm, side) == ncclSuccess);
            cudaEventRecord(ready, side);
            cudaStreamWaitEvent(r.stream, ready, 0);
            if (step % 5 != 0) continue;
            r.expect(cudaStreamSynchronize(r.stream) == cudaSuccess);
            r.expect(x.read() == std::vector<float>(2, static_cast<float>(2 * step)));
          }
          cudaStreamDestroy(side);
          cudaEventDestroy(ready);
        }) == 0);
}

TEST_CASE("one rank may wait while the others have only given their work", "[simulated][nccl]") {
  const Restarted restarted("UNISONO_SIMULATED_DEVICES", "2");
  std::atomic<bool> first_done{false};
  CHECK(run_ranks(2, [&](Rank& r) {
          const Buffer<float> x(std::vector<float>{1});
          r.expect(ncclAllReduce(x.data, x.data, 1, ncclFloat32, ncclSum, r.comm, r.stream) == ncclSuccess);
          if (r.rank == 0) {
            r.expect(cudaStreamSynchronize(r.stream) == cudaSuccess);
            first_done = true;
          }
          while (!first_done) std::this_thread::yield();
          r.expect(cudaStreamSynchronize(r.stream) == cudaSuccess);
          r.expect(x.read()[0] == 2);
        }) == 0);
}

TEST_CASE("sends and receives of a group go side by side", "[simulated][nccl]") {
  const Restarted restarted("UNISONO_SIMULATED_DEVICES", "3");
  CHECK(run_ranks(3, [](Rank& r) {
          const Buffer<float> out(std::vector<float>{static_cast<float>(r.rank), 9});
          const Buffer<float> in(std::vector<float>{0, 0});
          r.expect(ncclGroupStart() == ncclSuccess);
          r.expect(ncclSend(out.data, 2, ncclFloat32, (r.rank + 1) % 3, r.comm, r.stream) == ncclSuccess);
          r.expect(ncclRecv(in.data, 2, ncclFloat32, (r.rank + 2) % 3, r.comm, r.stream) == ncclSuccess);
          r.expect(ncclGroupEnd() == ncclSuccess);
          r.expect(cudaStreamSynchronize(r.stream) == cudaSuccess);
          r.expect(in.read() == std::vector<float>{static_cast<float>((r.rank + 2) % 3), 9});
        }) == 0);
  CHECK(ncclGroupEnd() == ncclInvalidUsage);
}

TEST_CASE("captured collectives meet in every launch", "[simulated][nccl]") {
  const Restarted restarted("UNISONO_SIMULATED_DEVICES", "2");
  CHECK(run_ranks(2, [](Rank& r) {
          const Buffer<float> x(std::vector<float>{1});
          cudaGraph_t graph = nullptr;
          cudaGraphExec_t executable = nullptr;
          r.expect(cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
          r.expect(ncclAllReduce(x.data, x.data, 1, ncclFloat32, ncclSum, r.comm, r.stream) == ncclSuccess);
          r.expect(cudaStreamEndCapture(r.stream, &graph) == cudaSuccess);
          r.expect(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
          for (int i = 0; i < 5; ++i) r.expect(cudaGraphLaunch(executable, r.stream) == cudaSuccess);
          r.expect(cudaStreamSynchronize(r.stream) == cudaSuccess);
          r.expect(x.read()[0] == 32);
          cudaGraphExecDestroy(executable);
          cudaGraphDestroy(graph);
        }) == 0);
}

TEST_CASE("an abort is seen by those who wait, and ends what they abort", "[simulated][nccl]") {
  const Restarted restarted("UNISONO_SIMULATED_DEVICES", "2");
  CHECK(run_ranks(2, [](Rank& r) {
          const Buffer<float> x(std::vector<float>{1});
          if (r.rank == 1) {
            r.expect(ncclCommAbort(std::exchange(r.comm, nullptr)) == ncclSuccess);
            return;
          }
          ncclResult_t error = ncclAllReduce(x.data, x.data, 1, ncclFloat32, ncclSum, r.comm, r.stream);
          r.expect(error == ncclSuccess || error == ncclRemoteError);  // as the other was later or earlier
          do {
            r.expect(ncclCommGetAsyncError(r.comm, &error) == ncclSuccess);
          } while (error == ncclSuccess);
          r.expect(error == ncclRemoteError);
          r.expect(ncclCommAbort(std::exchange(r.comm, nullptr)) == ncclSuccess);
          r.expect(cudaStreamSynchronize(r.stream) == cudaSuccess);
        }) == 0);
}

TEST_CASE("communicators are made of devices that differ, in one process", "[simulated][nccl]") {
  const Restarted restarted("UNISONO_SIMULATED_DEVICES", "2");
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  SECTION("two ranks on one device") {
    std::vector<ncclResult_t> results(2);
    std::vector<std::thread> threads;
    for (int r = 0; r < 2; ++r) {
      threads.emplace_back([&, r] {
        ncclComm_t comm = nullptr;
        results[static_cast<std::size_t>(r)] = ncclCommInitRank(&comm, 2, id, r);
        ncclCommAbort(comm);
      });
    }
    for (auto& thread : threads) thread.join();
    CHECK(results == std::vector<ncclResult_t>(2, ncclInvalidUsage));
  }
  SECTION("an id of another process") {
    id.internal[0] = static_cast<char>(id.internal[0] + 1);
    ncclComm_t comm = nullptr;
    CHECK(ncclCommInitRank(&comm, 1, id, 0) == ncclSystemError);
  }
  SECTION("one thread makes both in a group") {
    ncclComm_t comms[2] = {};
    cudaStream_t streams[2] = {};
    REQUIRE(ncclGroupStart() == ncclSuccess);
    for (int r = 0; r < 2; ++r) {
      REQUIRE(cudaSetDevice(r) == cudaSuccess);
      REQUIRE(cudaStreamCreateWithFlags(&streams[r], cudaStreamNonBlocking) == cudaSuccess);
      REQUIRE(ncclCommInitRank(&comms[r], 2, id, r) == ncclSuccess);
    }
    REQUIRE(ncclGroupEnd() == ncclSuccess);
    int count = 0;
    CHECK(ncclCommCount(comms[1], &count) == ncclSuccess);
    CHECK(count == 2);
    for (int r = 0; r < 2; ++r) {
      CHECK(ncclCommDestroy(comms[r]) == ncclSuccess);
      CHECK(cudaStreamDestroy(streams[r]) == cudaSuccess);
    }
  }
  SECTION("without waiting") {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t comms[2] = {};
    ncclResult_t state = ncclSuccess;
    CHECK(ncclCommInitRankConfig(&comms[0], 2, id, 0, &config) == ncclInProgress);
    CHECK(ncclCommGetAsyncError(comms[0], &state) == ncclSuccess);
    CHECK(state == ncclInProgress);
    CHECK(ncclAllReduce(nullptr, nullptr, 0, ncclFloat32, ncclSum, comms[0], nullptr) == ncclInvalidUsage);
    REQUIRE(cudaSetDevice(1) == cudaSuccess);
    CHECK(ncclCommInitRankConfig(&comms[1], 2, id, 1, &config) == ncclInProgress);
    CHECK(ncclCommGetAsyncError(comms[0], &state) == ncclSuccess);
    CHECK(state == ncclSuccess);
    for (const auto comm : comms) CHECK(ncclCommDestroy(comm) == ncclSuccess);
  }
}

TEST_CASE("operations that are not as they should be", "[simulated][nccl]") {
  const Restarted restarted("UNISONO_SIMULATED_DEVICES", "1");
  CHECK(run_ranks(1, [](Rank& r) {
          const Buffer<float> x(std::vector<float>{1, 2, 3, 4});
          const auto reduce = [&](float* to, std::size_t count, ncclDataType_t type, ncclRedOp_t op) {
            return ncclAllReduce(x.data, to, count, type, op, r.comm, r.stream);
          };
          r.expect(reduce(x.data, 4, ncclInt8, ncclSum) == ncclInvalidArgument);
          r.expect(reduce(x.data, 4, ncclFloat32, ncclProd) == ncclInvalidArgument);
          r.expect(reduce(x.data + 1, 3, ncclFloat32, ncclSum) == ncclInvalidArgument);
          r.expect(reduce(nullptr, 3, ncclFloat32, ncclSum) == ncclInvalidArgument);
          r.expect(ncclBroadcast(x.data, x.data, 4, ncclFloat32, 1, r.comm, r.stream) == ncclInvalidArgument);
          fail_next(Call::collective);
          r.expect(reduce(x.data, 4, ncclFloat32, ncclSum) == ncclSystemError);
          r.expect(reduce(x.data, 4, ncclFloat32, ncclSum) == ncclSuccess);
          r.expect(cudaStreamSynchronize(r.stream) == cudaSuccess);
        }) == 0);
}

TEST_CASE("ranks that call different operations abort", "[simulated][nccl][death]") {
  const Restarted restarted("UNISONO_SIMULATED_DEVICES", "2");
  CHECK_THAT(death([] {
               ncclUniqueId id;
               ncclComm_t comms[2] = {};
               float* data[2] = {};
               ncclGetUniqueId(&id);
               ncclGroupStart();
               for (int r = 0; r < 2; ++r) {
                 cudaSetDevice(r);
                 cudaMalloc(reinterpret_cast<void**>(&data[r]), 8);
                 ncclCommInitRank(&comms[r], 2, id, r);
               }
               ncclGroupEnd();
               for (int r = 0; r < 2; ++r) {
                 cudaSetDevice(r);
                 const auto count = static_cast<std::size_t>(r + 1);
                 ncclAllReduce(data[r], data[r], count, ncclFloat32, ncclSum, comms[r], nullptr);
               }
               cudaDeviceSynchronize();
             }),
             Contains("another count, type or root"));
}

}  // namespace
}  // namespace simulated
