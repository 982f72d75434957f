// Collectives of NCCL in the device's order, each started where it is called, and never part of what the queue records:
// NCCL wants an operation recorded on all ranks or on none, and ranks' sequences differ now and then. Started sums have
// a stream of their own, between events of the device's queue. NCCL's kernels wait for the other ranks on the device,
// so that this process must keep an eye on them while it waits for its device: where a rank failed, the operations are
// aborted.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <utility>
#include <vector>

#include "device/collectives.hpp"
#include "nccl/library.hpp"
#include "unisono/base/clock.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::comm::nccl {
namespace {

const Functions& functions() {
  std::string missing;
  return *load(missing);
}

void check(ncclResult_t result, const char* call) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  throw CommunicationError(
      fmt::format("{} failed: {}; NCCL_DEBUG=INFO tells more", call, functions().ncclGetErrorString(result)));
}

void check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  throw DeviceError(fmt::format("{} failed: {} ({})", call, cudaGetErrorString(error), cudaGetErrorName(error)));
}

/// The two ends of a started operation in the order of the device's work.
class Span {
 public:
  Span() {
    for (cudaEvent_t& event : events_) {
      check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    }
  }
  ~Span() {
    for (const cudaEvent_t event : events_) cudaEventDestroy(event);
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

  /// `then` comes after what `first` has been given.
  void begin(cudaStream_t first, cudaStream_t then) const { order(events_[0], first, then); }
  void end(cudaStream_t stream) const { check(cudaEventRecord(events_[1], stream), "cudaEventRecord"); }
  void hold(cudaStream_t stream) const { check(cudaStreamWaitEvent(stream, events_[1], 0), "cudaStreamWaitEvent"); }

 private:
  static void order(cudaEvent_t event, cudaStream_t first, cudaStream_t then) {
    check(cudaEventRecord(event, first), "cudaEventRecord");
    check(cudaStreamWaitEvent(then, event, 0), "cudaStreamWaitEvent");
  }
  std::array<cudaEvent_t, 2> events_{};
};

/// NCCL's groups of one rank. Where one cannot go on none can: kernels of each may be waiting on the device.
class Groups {
 public:
  void add(ncclComm_t group) { groups_.push_back(group); }
  /// Waits for what is under way in it.
  void end(ncclComm_t group) {
    if (std::erase(groups_, group) > 0) functions().ncclCommDestroy(group);
  }
  /// Ends kernels that wait for ranks which will not come. At once: to abort one waits for the device, and so for
  /// kernels of the others.
  void abort() noexcept {
    functions().ncclGroupStart();
    for (const ncclComm_t group : std::exchange(groups_, {})) functions().ncclCommAbort(group);
    functions().ncclGroupEnd();
  }
  bool empty() const { return groups_.empty(); }
  bool has(ncclComm_t group) const { return std::find(groups_.begin(), groups_.end(), group) != groups_.end(); }

 private:
  std::vector<ncclComm_t> groups_;  ///< that are neither ended nor aborted
};

class NcclCollectives final : public DeviceCollectives {
 public:
  NcclCollectives(Communicator& ranks, Device& device, std::shared_ptr<Groups> groups);
  ~NcclCollectives() override;

  Allocator& memory() override { return device_.memory(); }
  /// A kernel each, that keeps some multiprocessors from the backward pass while it lasts.
  Index bucket_bytes() const override { return Index{16} << 20; }
  void broadcast(std::span<std::byte> bytes, int root) override;
  void allreduce_sum(std::span<float> values) override;
  void allreduce_sum(std::span<double> values) override;
  RequestPtr start_allreduce_sum(std::span<float> values) override;
  void reduce_scatter_sum(std::span<float> values) override;
  void all_gather(std::span<float> values) override;
  void allreduce_weighted_mean(std::span<float> values, double weight) override;

 private:
  class Started;
  void wait_for_device(const std::function<bool()>& done);
  /// Of the device, behind all that it was asked for.
  cudaStream_t stream() { return static_cast<cudaStream_t>(device_.submit()); }

  Communicator& ranks_;
  Device& device_;
  std::shared_ptr<Groups> groups_;
  bool watches_;  ///< the first, which outlives the others: it looks after all of them
  ncclComm_t group_ = nullptr;
  cudaStream_t own_stream_ = nullptr;         ///< of what is started
  std::vector<std::unique_ptr<Span>> spans_;  ///< of operations that are under way, in the order of their starts
  std::size_t under_way_ = 0, awaited_ = 0;
};

/// It is waited for on the device, not here.
class NcclCollectives::Started final : public Request {
 public:
  Started(NcclCollectives& collectives, std::size_t span) : collectives_(collectives), span_(span) {}
  void wait() override {
    collectives_.spans_[span_]->hold(collectives_.stream());
    if (++collectives_.awaited_ == collectives_.under_way_) collectives_.awaited_ = collectives_.under_way_ = 0;
  }
  bool test() override { return true; }
  bool wait_unless(const std::function<bool()>&) override { return true; }

 private:
  NcclCollectives& collectives_;
  std::size_t span_;
};

NcclCollectives::NcclCollectives(Communicator& ranks, Device& device, std::shared_ptr<Groups> groups)
    : ranks_(ranks), device_(device), groups_(std::move(groups)), watches_(groups_->empty()) {
  ncclUniqueId id{};
  ncclResult_t result = ncclSuccess;
  if (ranks.is_root()) result = functions().ncclGetUniqueId(&id);
  ranks.broadcast(std::as_writable_bytes(std::span(&id, 1)), 0);
  check(result, "ncclGetUniqueId");
  device.synchronise();  // makes it this thread's device, too
  check(functions().ncclCommInitRank(&group_, ranks.size(), id, ranks.rank()), "ncclCommInitRank");
  groups_->add(group_);
  check(cudaStreamCreateWithFlags(&own_stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  if (watches_) device.set_wait([this](const std::function<bool()>& done) { wait_for_device(done); });
}

NcclCollectives::~NcclCollectives() {
  if (std::uncaught_exceptions() > 0) groups_->abort();  // others may never come to what is under way
  if (watches_) device_.set_wait({});
  groups_->end(group_);
  cudaStreamDestroy(own_stream_);
}

void NcclCollectives::wait_for_device(const std::function<bool()>& done) {
  try {
    ranks_.watch("an operation of NCCL", done);
    ncclResult_t result = ncclSuccess;
    if (groups_->has(group_)) functions().ncclCommGetAsyncError(group_, &result);
    if (result == ncclSuccess || result == ncclInProgress) return;
    // A rank that failed has aborted its part. Its own error is the one to be told, and comes soon.
    constexpr double kSeconds = 5;
    const Stopwatch watch;
    ranks_.watch("an operation of NCCL", [&watch] { return watch.seconds() > kSeconds; });
    check(result, "an operation of NCCL");
  } catch (...) {
    groups_->abort();
    throw;
  }
}

void NcclCollectives::broadcast(std::span<std::byte> bytes, int root) {
  check(functions().ncclBroadcast(bytes.data(), bytes.data(), bytes.size(), ncclUint8, root, group_, stream()),
        "ncclBroadcast");
}

void NcclCollectives::allreduce_sum(std::span<float> values) {
  check(functions().ncclAllReduce(values.data(), values.data(), values.size(), ncclFloat, ncclSum, group_, stream()),
        "ncclAllReduce");
}

void NcclCollectives::allreduce_sum(std::span<double> values) {
  check(functions().ncclAllReduce(values.data(), values.data(), values.size(), ncclDouble, ncclSum, group_, stream()),
        "ncclAllReduce");
}

RequestPtr NcclCollectives::start_allreduce_sum(std::span<float> values) {
  const cudaStream_t device = stream();  // which is this thread's from here on: events are made for that
  const std::size_t number = under_way_++;
  if (number == spans_.size()) spans_.push_back(std::make_unique<Span>());
  spans_[number]->begin(device, own_stream_);
  check(functions().ncclAllReduce(values.data(), values.data(), values.size(), ncclFloat, ncclSum, group_, own_stream_),
        "ncclAllReduce");
  spans_[number]->end(own_stream_);
  return std::make_unique<Started>(*this, number);
}

void NcclCollectives::reduce_scatter_sum(std::span<float> values) {
  // Slices are of equal length only where P divides n; then this is one operation, else all is summed.
  const auto ranks = static_cast<std::size_t>(ranks_.size());
  if (values.size() % ranks != 0) return allreduce_sum(values);
  const std::size_t count = values.size() / ranks;
  float* const own = values.data() + count * static_cast<std::size_t>(ranks_.rank());
  check(functions().ncclReduceScatter(values.data(), own, count, ncclFloat, ncclSum, group_, stream()),
        "ncclReduceScatter");
}

void NcclCollectives::all_gather(std::span<float> values) {
  const auto ranks = static_cast<std::size_t>(ranks_.size());
  if (values.size() % ranks != 0) {
    for (int rank = 0; rank < ranks_.size(); ++rank) {
      const Slice slice = slice_of(static_cast<Index>(values.size()), rank, ranks_.size());
      broadcast(std::as_writable_bytes(values.subspan(static_cast<std::size_t>(slice.first),
                                                      static_cast<std::size_t>(slice.last - slice.first))),
                rank);
    }
    return;
  }
  const std::size_t count = values.size() / ranks;
  const float* const own = values.data() + count * static_cast<std::size_t>(ranks_.rank());
  check(functions().ncclAllGather(own, values.data(), count, ncclFloat, group_, stream()), "ncclAllGather");
}

void NcclCollectives::allreduce_weighted_mean(std::span<float> values, double weight) {
  const double total = ranks_.sum(weight);
  if (total == 0) return;
  auto share = static_cast<float>(weight / total);
  const cudaStream_t stream = this->stream();
  if (share == 0) {  // what a rank without examples holds may be no number
    check(cudaMemsetAsync(values.data(), 0, values.size_bytes(), stream), "cudaMemsetAsync");
  }
  ncclRedOp_t weighted{};
  check(functions().ncclRedOpCreatePreMulSum(&weighted, &share, ncclFloat, ncclScalarHostImmediate, group_),
        "ncclRedOpCreatePreMulSum");
  const ncclResult_t result =
      functions().ncclAllReduce(values.data(), values.data(), values.size(), ncclFloat, weighted, group_, stream);
  functions().ncclRedOpDestroy(weighted, group_);
  check(result, "ncclAllReduce");
}

}  // namespace
}  // namespace unisono::comm::nccl

namespace unisono::comm {

std::string nccl_version(std::string& missing) {
  const nccl::Functions* const functions = nccl::load(missing);
  if (functions == nullptr) return "";
  int version = 0;
  functions->ncclGetVersion(&version);
  return fmt::format("NCCL {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

MakeCollectives nccl_collectives() {
  return [groups = std::make_shared<nccl::Groups>()](Communicator& ranks, Device& device) {
    return std::make_unique<nccl::NcclCollectives>(ranks, device, groups);
  };
}

}  // namespace unisono::comm
