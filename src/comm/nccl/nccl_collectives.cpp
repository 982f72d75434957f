// Collectives and messages by NCCL on the device's stream. Each starts when it is called, and is never part of a
// recorded CUDA graph: NCCL requires that an operation is recorded on all ranks or on none, and the ranks' sequences of
// kernels differ at times. Started sums run on a stream of their own, ordered by events with the device's stream; so do
// messages between two ranks. NCCL's kernels wait on the device for the other ranks. So while this process waits for
// its device, it must watch the other ranks; where one has failed, the operations are aborted. Sums in the order of a
// tree are made by the CPU: NCCL chooses an order of its own.
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

/// The events at the start and the end of an operation on its own stream, which order it with the device's stream.
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

  /// Stream `then` waits for the work that stream `first` has been given.
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

/// All NCCL communicators of this rank. They are aborted together, since kernels of each may be waiting on the device.
class Groups {
 public:
  void add(ncclComm_t group) { groups_.push_back(group); }
  /// Destroys a communicator. Waits for its operations that are under way.
  void end(ncclComm_t group) {
    if (std::erase(groups_, group) > 0) functions().ncclCommDestroy(group);
  }
  /// Ends kernels that wait for ranks that will not come. It aborts all communicators at once: aborting one of them
  /// waits for the device, and so for the kernels of the others.
  void abort() noexcept {
    functions().ncclGroupStart();
    for (const ncclComm_t group : std::exchange(groups_, {})) functions().ncclCommAbort(group);
    functions().ncclGroupEnd();
  }
  bool empty() const { return groups_.empty(); }
  bool has(ncclComm_t group) const { return std::find(groups_.begin(), groups_.end(), group) != groups_.end(); }

 private:
  std::vector<ncclComm_t> groups_;  ///< neither ended nor aborted yet
};

class NcclCollectives;

/// Messages on one stream, so that they move one after the other in the order of the calls. A send may wait for its
/// receive, and a receive for its send, on the device and, where two ranks meet for the first time, in the call itself.
/// The common order that DeviceMessages asks for keeps all of this free of deadlocks, also where NCCL starts the
/// operations of a device strictly in the order of the calls (NCCL_LAUNCH_ORDER_IMPLICIT).
class NcclMessages final : public DeviceMessages {
 public:
  explicit NcclMessages(NcclCollectives& collectives) : collectives_(collectives) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }
  ~NcclMessages() override { cudaStreamDestroy(stream_); }
  NcclMessages(const NcclMessages&) = delete;
  NcclMessages& operator=(const NcclMessages&) = delete;

  RequestPtr start_send(View values, int peer) override;
  RequestPtr start_receive(MutableView values, int peer) override;

 private:
  class Started;
  std::unique_ptr<Started> begin();

  NcclCollectives& collectives_;
  cudaStream_t stream_ = nullptr;
  std::vector<std::unique_ptr<Span>> free_;  ///< of messages that were waited for
};

class NcclCollectives final : public DeviceCollectives {
 public:
  NcclCollectives(Communicator& ranks, Device& device, std::shared_ptr<Groups> groups);
  ~NcclCollectives() override;

  Allocator& memory() override { return device_.memory(); }
  /// 16 MiB: each allreduce is a kernel that takes some multiprocessors from the backward pass while it runs.
  Index bucket_bytes() const override { return Index{16} << 20; }
  void broadcast(std::span<std::byte> bytes, int root) override;
  void allreduce_sum(std::span<float> values) override;
  void allreduce_sum(std::span<double> values) override;
  RequestPtr start_allreduce_sum(std::span<float> values) override;
  RequestPtr start_tree_sum(std::span<const std::span<float>> vectors, const TreeSum& order) override {
    return staged_->start_tree_sum(vectors, order);
  }
  void reduce_scatter_sum(std::span<float> values) override;
  void all_gather(std::span<float> values) override;
  void allreduce_weighted_mean(std::span<float> values, double weight) override;
  void flush() override { staged_->flush(); }
  DeviceMessages* messages() override { return messages_.get(); }

  // For its messages.

  /// The device's stream, after all work that is queued.
  cudaStream_t stream() { return static_cast<cudaStream_t>(device_.submit()); }
  ncclComm_t group() const { return group_; }

 private:
  class Started;
  void wait_for_device(const std::function<bool()>& done);

  Communicator& ranks_;
  Device& device_;
  std::shared_ptr<Groups> groups_;
  /// Whether this is the first one, which outlives the others and supervises all while this process waits for the
  /// device.
  bool watches_;
  ncclComm_t group_ = nullptr;
  cudaStream_t own_stream_ = nullptr;         ///< for started sums
  std::vector<std::unique_ptr<Span>> spans_;  ///< of the sums under way, in the order in which they were started
  std::size_t under_way_ = 0, awaited_ = 0;
  std::unique_ptr<DeviceCollectives> staged_;  ///< through plain memory, for what NCCL does not have
  std::unique_ptr<NcclMessages> messages_;
};

/// `wait` makes the device's stream wait for the sum; it does not block this process.
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

/// `wait` makes the device's stream wait for the message; it does not block this process.
class NcclMessages::Started final : public Request {
 public:
  Started(NcclMessages& messages, std::unique_ptr<Span> span) : messages_(messages), span_(std::move(span)) {}
  const Span& span() const { return *span_; }
  void wait() override {
    span_->hold(messages_.collectives_.stream());
    messages_.free_.push_back(std::move(span_));
  }
  bool test() override { return true; }
  bool wait_unless(const std::function<bool()>&) override { return true; }

 private:
  NcclMessages& messages_;
  std::unique_ptr<Span> span_;
};

std::unique_ptr<NcclMessages::Started> NcclMessages::begin() {
  const cudaStream_t device = collectives_.stream();  // which is this thread's from here on: events are made for that
  if (free_.empty()) free_.push_back(std::make_unique<Span>());
  auto span = std::move(free_.back());
  free_.pop_back();
  span->begin(device, stream_);
  return std::make_unique<Started>(*this, std::move(span));
}

RequestPtr NcclMessages::start_send(View values, int peer) {
  auto started = begin();
  check(functions().ncclSend(values.data(), values.size(), ncclFloat, peer, collectives_.group(), stream_), "ncclSend");
  started->span().end(stream_);
  return started;
}

RequestPtr NcclMessages::start_receive(MutableView values, int peer) {
  auto started = begin();
  check(functions().ncclRecv(values.data(), values.size(), ncclFloat, peer, collectives_.group(), stream_), "ncclRecv");
  started->span().end(stream_);
  return started;
}

NcclCollectives::NcclCollectives(Communicator& ranks, Device& device, std::shared_ptr<Groups> groups)
    : ranks_(ranks),
      device_(device),
      groups_(std::move(groups)),
      watches_(groups_->empty()),
      staged_(make_staged_collectives(ranks, device)) {
  ncclUniqueId id{};
  ncclResult_t result = ncclSuccess;
  if (ranks.is_root()) result = functions().ncclGetUniqueId(&id);
  ranks.broadcast(std::as_writable_bytes(std::span(&id, 1)), 0);
  check(result, "ncclGetUniqueId");
  device.synchronise();  // makes it this thread's device, too
  check(functions().ncclCommInitRank(&group_, ranks.size(), id, ranks.rank()), "ncclCommInitRank");
  groups_->add(group_);
  check(cudaStreamCreateWithFlags(&own_stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  messages_ = std::make_unique<NcclMessages>(*this);
  if (watches_) device.set_wait([this](const std::function<bool()>& done) { wait_for_device(done); });
}

NcclCollectives::~NcclCollectives() {
  if (std::uncaught_exceptions() > 0) groups_->abort();  // other ranks may never join the operations under way
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
    // Another rank has failed and aborted its part. Its own error is the one to report; it becomes known soon.
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
  // Only where the ranks have equally many cache lines, one NCCL operation will do; else all values are summed.
  const auto ranks = static_cast<std::size_t>(ranks_.size());
  if (values.size() % (ranks * kLineFloats) != 0) return allreduce_sum(values);
  const std::size_t count = values.size() / ranks;
  float* const own = values.data() + count * static_cast<std::size_t>(ranks_.rank());
  check(functions().ncclReduceScatter(values.data(), own, count, ncclFloat, ncclSum, group_, stream()),
        "ncclReduceScatter");
}

void NcclCollectives::all_gather(std::span<float> values) {
  const auto ranks = static_cast<std::size_t>(ranks_.size());
  if (values.size() % (ranks * kLineFloats) != 0) {
    for (int rank = 0; rank < ranks_.size(); ++rank) {
      const Slice slice = line_slice_of(static_cast<Index>(values.size()), rank, ranks_.size());
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
  flush();
  const double total = ranks_.sum(weight);
  if (total == 0) return;
  auto share = static_cast<float>(weight / total);
  const cudaStream_t stream = this->stream();
  if (share == 0) {  // the values of a rank without examples may be NaN
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
