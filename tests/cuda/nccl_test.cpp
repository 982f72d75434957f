// NCCL with a single GPU: a communicator of one rank, first by NCCL's own functions, then as ranks with devices use it.
// What it sums is known, what it sends comes back to itself, and all of it goes through the library's real calls.
#include <cuda_runtime_api.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "device/collectives.hpp"
#include "nccl/library.hpp"
#include "unisono/kernels/cuda.hpp"

namespace unisono {
namespace {

constexpr Index kSummedSize = 1000;

/// The functions of NCCL; null where the library is not on this machine, which is said.
const comm::nccl::Functions* nccl() {
  std::string missing;
  const comm::nccl::Functions* const functions = comm::nccl::load(missing);
  if (functions == nullptr) WARN("not tested: " << missing);
  return functions;
}

std::vector<float> numbers(float first) {
  std::vector<float> values(kSummedSize);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<float>(i);
  return values;
}

/// A device, vectors on it, and a communicator of this one rank.
class OneRank {
 public:
  explicit OneRank(const comm::nccl::Functions& nccl)
      : backend_(kernels::make_cuda_backend(0, kernels::Precision::fp32)), nccl_(nccl) {
    stream_ = static_cast<cudaStream_t>(backend_->device()->submit());
    ncclUniqueId id{};
    REQUIRE(nccl_.ncclGetUniqueId(&id) == ncclSuccess);
    REQUIRE(nccl_.ncclCommInitRank(&group_, 1, id, 0) == ncclSuccess);
  }
  ~OneRank() {
    if (group_ != nullptr) nccl_.ncclCommDestroy(group_);
  }
  OneRank(const OneRank&) = delete;
  OneRank& operator=(const OneRank&) = delete;

  Buffer vector(const std::vector<float>& values) const {
    Buffer buffer(static_cast<Index>(values.size()), backend_->memory());
    backend_->memory().copy(values, buffer.view());
    return buffer;
  }
  std::vector<float> read(View there) const {
    std::vector<float> values(there.size());
    backend_->memory().copy(there, values);
    return values;
  }
  ncclResult_t state() const {
    ncclResult_t result = ncclInternalError;
    CHECK(nccl_.ncclCommGetAsyncError(group_, &result) == ncclSuccess);
    return result;
  }
  ncclResult_t abort() { return nccl_.ncclCommAbort(std::exchange(group_, nullptr)); }
  ncclComm_t group() const { return group_; }
  cudaStream_t stream() const { return stream_; }
  void synchronise() const { backend_->device()->synchronise(); }

 private:
  std::unique_ptr<kernels::Backend> backend_;
  const comm::nccl::Functions& nccl_;
  cudaStream_t stream_ = nullptr;
  ncclComm_t group_ = nullptr;
};

TEST_CASE("one rank sums its own values, as they are or with a factor", "[gpu][nccl]") {
  const auto* const library = nccl();
  if (library == nullptr) return;
  const OneRank rank(*library);
  Buffer x = rank.vector(numbers(1)), y = rank.vector(numbers(0));
  REQUIRE(library->ncclAllReduce(x.data(), y.data(), kSummedSize, ncclFloat, ncclSum, rank.group(), rank.stream()) ==
          ncclSuccess);
  CHECK(rank.read(y.view()) == numbers(1));

  float half = 0.5F;
  ncclRedOp_t halved{};
  REQUIRE(library->ncclRedOpCreatePreMulSum(&halved, &half, ncclFloat, ncclScalarHostImmediate, rank.group()) ==
          ncclSuccess);
  REQUIRE(library->ncclAllReduce(x.data(), x.data(), kSummedSize, ncclFloat, halved, rank.group(), rank.stream()) ==
          ncclSuccess);
  CHECK(library->ncclRedOpDestroy(halved, rank.group()) == ncclSuccess);
  std::vector<float> expected = numbers(1);
  for (float& value : expected) value *= half;  // exact
  CHECK(rank.read(x.view()) == expected);
  CHECK(rank.state() == ncclSuccess);
}

TEST_CASE("one rank sends to itself within a group of calls", "[gpu][nccl]") {
  const auto* const library = nccl();
  if (library == nullptr) return;
  const OneRank rank(*library);
  const Buffer sent = rank.vector(numbers(7));
  Buffer received = rank.vector(numbers(0));
  REQUIRE(library->ncclGroupStart() == ncclSuccess);
  CHECK(library->ncclSend(sent.data(), kSummedSize, ncclFloat, 0, rank.group(), rank.stream()) == ncclSuccess);
  CHECK(library->ncclRecv(received.data(), kSummedSize, ncclFloat, 0, rank.group(), rank.stream()) == ncclSuccess);
  REQUIRE(library->ncclGroupEnd() == ncclSuccess);
  CHECK(rank.read(received.view()) == numbers(7));
}

TEST_CASE("a communicator that is aborted leaves the device usable", "[gpu][nccl]") {
  const auto* const library = nccl();
  if (library == nullptr) return;
  OneRank rank(*library);
  Buffer x = rank.vector(numbers(1));
  REQUIRE(library->ncclAllReduce(x.data(), x.data(), kSummedSize, ncclFloat, ncclSum, rank.group(), rank.stream()) ==
          ncclSuccess);
  CHECK(rank.abort() == ncclSuccess);
  rank.synchronise();
  CHECK(rank.read(rank.vector(numbers(3)).view()) == numbers(3));
}

/// The collectives of ranks with devices, of one rank alone.
struct OneCollective {
  std::unique_ptr<kernels::Backend> backend = kernels::make_cuda_backend(0, kernels::Precision::fp32);
  std::unique_ptr<comm::Communicator> self = comm::make_self_communicator();
  comm::MakeCollectives make = comm::nccl_collectives();

  std::vector<float> read(View there) const {
    std::vector<float> values(there.size());
    backend->memory().copy(there, values);
    return values;
  }
};

TEST_CASE("collectives of one rank keep their place in the device's work", "[gpu][nccl]") {
  if (nccl() == nullptr) return;
  OneCollective one;
  const auto collectives = one.make(*one.self, *one.backend->device());
  Buffer x(kSummedSize, collectives->memory());
  one.backend->memory().copy(numbers(1), x.view());
  for (int time = 0; time < 4; ++time) {  // the doubling is a recorded graph from the third time on
    one.backend->axpby(1, x.view(), 1, x.view());
    const comm::RequestPtr sum = collectives->start_allreduce_sum(x.view().first(512));
    collectives->allreduce_sum(x.view().subspan(512));
    sum->wait();
    collectives->broadcast(std::as_writable_bytes(x.view()), 0);
  }
  collectives->allreduce_weighted_mean(x.view(), 3);  // by PreMulSum, with the factor 3 / 3
  std::vector<float> expected = numbers(1);
  for (float& value : expected) value *= 16;
  CHECK(one.read(x.view()) == expected);
}

TEST_CASE("an error aborts NCCL's work, and another communicator can follow", "[gpu][nccl]") {
  if (nccl() == nullptr) return;
  OneCollective one;
  const auto failing = [&one] {
    const auto collectives = one.make(*one.self, *one.backend->device());
    Buffer x(kSummedSize, collectives->memory());
    collectives->start_allreduce_sum(x.view());
    throw std::runtime_error("something else went wrong");
  };
  CHECK_THROWS_WITH(failing(), "something else went wrong");
  const auto collectives = one.make(*one.self, *one.backend->device());
  Buffer x(kSummedSize, collectives->memory());
  one.backend->memory().copy(numbers(2), x.view());
  collectives->allreduce_sum(x.view());
  CHECK(one.read(x.view()) == numbers(2));
}

}  // namespace
}  // namespace unisono
