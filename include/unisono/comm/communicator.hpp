#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/base/clock.hpp"
#include "unisono/base/counters.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/tensor/allocator.hpp"
#include "unisono/tensor/exact_sum.hpp"

namespace unisono::comm {

/// Thrown where this rank stops because another one failed. It is not printed: the rank that failed prints the cause.
struct PeerFailure : CommunicationError {
  using CommunicationError::CommunicationError;
};

/// A non-blocking operation that was started. Its buffers must not be touched until `wait` has returned.
class Request {
 public:
  virtual ~Request() = default;
  /// Blocks until the operation is done. Must be called exactly once before destruction. \throws CommunicationError
  virtual void wait() = 0;
  /// Whether the operation is done; drives its progress.
  virtual bool test() = 0;
  /// Drives the operation's progress, where that does not go on by itself.
  virtual void make_progress() { test(); }
  /// Blocks until the operation is done or `enough()` returns true. `enough` is polled: it must be fast and must not
  /// use a communicator. \return whether it is done; `wait` must still be called \throws CommunicationError
  virtual bool wait_unless(const std::function<bool()>& enough) = 0;
  /// Blocks until every rank has started the operation; returns at once where the implementation cannot tell. Called
  /// before `wait`, it separates the time spent on the last rank's arrival from that of the transfer.
  virtual void wait_for_arrivals() {}
};
using RequestPtr = std::unique_ptr<Request>;

/// Messages that are awaited together.
class RequestSet {
 public:
  virtual ~RequestSet() = default;
  /// \param request a message of the communicator that made the set \return a number, which is the message's until it
  /// is done
  virtual std::size_t add(RequestPtr request) = 0;
  virtual bool empty() const = 0;
  /// Blocks until at least one of them is done or `enough()` returns true, as in Request::wait_unless. \return the
  /// numbers of those that are done, which have left the set
  virtual std::vector<std::size_t> finish_some(const std::function<bool()>& enough) = 0;
};

/// The bytes of a value that is sent or received.
template <typename T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}
template <typename T>
std::span<std::byte> bytes_of(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

struct TreeSum;

/// When a rank had a message of another one. Ranks are those of the job.
struct Arrival {
  int from = 0, to = 0, tag = 0;
  double seconds = 0;
};

/// Communicator::bucket_bytes of ranks on several nodes.
inline constexpr Index kBucketBytesBetweenNodes = Index{4} << 20;

/// A group of ranks that exchange messages. Implementations: MPI, threads of one process, a group of one, and ranks
/// with GPUs (make_device_communicator).
///
/// All collectives are called by every rank of the group, in the same order. Counts are 64 bits. No operation relies on
/// a send being buffered. All throw CommunicationError, which names the ranks that did not arrive within
/// `communication.timeout_seconds`. Only one thread of a process at a time may call collectives. Point-to-point
/// messages, also of a rank to itself, may be used by any thread at any time.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// This rank's number among the ranks of the group that share its node's memory.
  virtual int node_rank() const = 0;
  /// How many ranks of the group share this rank's node's memory.
  virtual int node_size() const = 0;
  /// The number of this rank's node among the nodes of the group, from 0 on, in the order of the nodes' first ranks.
  virtual int node() const = 0;
  virtual std::string host() const = 0;

  /// Notes the training step of this rank, for the message about a rank that does not arrive at a collective.
  virtual void set_step(std::int64_t step) = 0;

  virtual void barrier() = 0;
  /// Copies the root's bytes to all ranks. The length must be equal on all.
  virtual void broadcast(std::span<std::byte> bytes, int root) = 0;

  /// values[i] ← Σ_r values_r[i]; every rank ends with the same bits, and with the same ones in every run.
  virtual void allreduce_sum(std::span<float> values) = 0;
  virtual void allreduce_sum(std::span<double> values) = 0;
  virtual void allreduce_sum(std::span<std::int64_t> values) = 0;
  virtual void allreduce_max(std::span<std::int64_t> values) = 0;
  virtual void allreduce_max(std::span<double> values) = 0;
  /// Starts an allreduce_sum that proceeds while this rank computes. Several may be in flight; they are matched in the
  /// order in which they were started.
  virtual RequestPtr start_allreduce_sum(std::span<float> values) = 0;

  /// Starts a sum of vectors of which a rank may hold several, in the order that `order` says: vectors[0] ← the sum, on
  /// all ranks; the others may be overwritten. Non-blocking, as start_allreduce_sum.
  /// \param vectors `order.vectors` of equal length, the same on all ranks; fastest in memory of shared_allocator()
  /// \param order the same on all ranks; must outlive the request
  virtual RequestPtr start_tree_sum(std::span<const std::span<float>> vectors, const TreeSum& order) = 0;

  /// Starts the first half of an allreduce, in place: on rank r, its slice line_slice_of(n, r, P) of `values` ends as
  /// the sum over all ranks, on CPUs with the bits of start_allreduce_sum of the same span; the rest is undefined.
  virtual RequestPtr start_reduce_scatter_sum(std::span<float> values) = 0;
  /// Starts the second half of an allreduce, in place: copies every rank's slice line_slice_of(n, r, P) of `values` to
  /// all ranks.
  virtual RequestPtr start_all_gather(std::span<float> values) = 0;
  /// Told that values[first, last) of a sum are complete.
  using Summed = std::function<void(Index first, Index last)>;
  /// Sums as start_reduce_scatter_sum, block by block: `summed(first, last)` is called for each block of the rank's
  /// slice, in ascending order, when values[first, last) is the sum. Returns when the calls of all ranks have returned.
  /// \param summed must not communicate
  virtual void reduce_scatter_in_blocks(std::span<float> values, const Summed& summed);
  /// Gathers bytes on all ranks. \return the bytes of every rank, by rank; their lengths may differ
  virtual std::vector<std::vector<std::byte>> all_gather_bytes(std::span<const std::byte> bytes) = 0;

  /// Sends a message to rank `peer`. Messages between two ranks with the same tag arrive in the order of their sends.
  /// The receiver knows the length.
  void send(std::span<const std::byte> bytes, int peer, int tag) { start_send(bytes, peer, tag)->wait(); }
  /// Receives a message of rank `peer`, whose length the receiver knows.
  void receive(std::span<std::byte> bytes, int peer, int tag) { start_receive(bytes, peer, tag)->wait(); }
  /// Starts a `send`.
  virtual RequestPtr start_send(std::span<const std::byte> bytes, int peer, int tag) = 0;
  /// Starts a `receive`.
  virtual RequestPtr start_receive(std::span<std::byte> bytes, int peer, int tag) = 0;
  /// Starts a `receive` of a message that may come late, or never: no thread polls for it, so that it makes progress
  /// only while somebody tests it, or waits.
  virtual RequestPtr start_patient_receive(std::span<std::byte> bytes, int peer, int tag) {
    return start_receive(bytes, peer, tag);
  }
  /// Blocks until at least one of the messages is done or `enough()` returns true, as in Request::wait_unless.
  /// \param messages started by this communicator \return the indices of those that are done; `wait` must still be
  /// called for each
  virtual std::vector<std::size_t> wait_any(std::span<Request* const> messages,
                                            const std::function<bool()>& enough) = 0;

  /// A set for messages of this communicator, which must outlive it.
  virtual std::unique_ptr<RequestSet> make_request_set();

  /// From now on, messages of this rank are noted when it has them, by all groups of the job, but not those of
  /// collectives. Where simulated messages follow those of a recorded run, they do so from now on.
  /// \param zero the second of this node's steady_clock() from which arrivals count
  virtual void begin_arrivals(double /*zero*/) {}
  /// What was noted since `begin_arrivals`; forgets it, and notes nothing more.
  virtual std::vector<Arrival> take_arrivals() { return {}; }

  /// Blocks until `done()` returns true, for work that the ranks of the group do together by other means (NCCL). `done`
  /// is polled: it must be fast and must not use a communicator. \throws PeerFailure and CommunicationError as
  /// collectives do
  virtual void watch(std::string_view name, const std::function<bool()>& done) = 0;

  /// The group of the ranks of equal colour, ordered by key. Collective. Destroying the group is not collective and
  /// waits for nobody: what all ranks have destroyed is freed at the next split, or with this communicator, which must
  /// outlive the group.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;
  /// A group of this rank alone. Not collective; costs no messages.
  virtual std::unique_ptr<Communicator> alone();

  /// Allocates vectors for collectives, in a window that the ranks of this node share where that is faster: they are
  /// then reduced directly from the peers' memory. An allocation is collective, with the same size on every rank. Where
  /// no window can be made (said in the log), it is plain memory. Either all ranks or none pass memory of the window to
  /// a collective, and then the same span of the same allocation. Lives as long as this communicator.
  virtual Allocator& shared_allocator() = 0;
  /// Zeroed memory, one copy per node, that all ranks of the node read and write, e.g. for resident data; aligned to
  /// kAlignmentBytes. Collective over the node, with the same size on every rank. It must be released before this
  /// communicator. Null on all ranks of the node where no window can be made (said in the log).
  virtual std::shared_ptr<std::byte> allocate_on_node(std::size_t bytes) = 0;
  /// Whether all ranks are on one node and may share memory.
  virtual bool shares_memory() const { return node_size() == size(); }
  /// A barrier over the ranks of this node.
  virtual void node_barrier() = 0;

  // Built on the functions above

  /// Of the messages of gather_joined.
  static constexpr int kGatherTag = 30000;
  bool is_root() const { return rank() == 0; }
  void reduce_scatter_sum(std::span<float> values) { start_reduce_scatter_sum(values)->wait(); }
  void all_gather(std::span<float> values) { start_all_gather(values)->wait(); }
  /// Bytes that each allreduce should have when a gradient is summed in parts while it is computed.
  virtual Index bucket_bytes() const;
  /// values ← Σ_r weight_r values_r / Σ_r weight_r. A rank of weight 0 takes part, whatever its values are. Where all
  /// weights are 0 the values stay as they are.
  virtual void allreduce_weighted_mean(std::span<float> values, double weight);
  std::vector<std::string> all_gather_text(const std::string& text);
  std::string broadcast_text(const std::string& text, int root = 0);
  /// The text of the first rank whose text is not empty; empty: there is none.
  std::string first_text(const std::string& own);
  /// Gathers vectors on all ranks. \return every rank's vector, by rank; their lengths may differ
  template <typename T>
  std::vector<std::vector<T>> all_gather_vectors(const std::vector<T>& own) {
    std::vector<std::vector<T>> all;
    for (const std::vector<std::byte>& bytes : all_gather_bytes(std::as_bytes(std::span(own)))) {
      all.emplace_back(bytes.size() / sizeof(T));
      if (!bytes.empty()) std::memcpy(all.back().data(), bytes.data(), bytes.size());
    }
    return all;
  }
  /// Gathers vectors on all ranks. \return every rank's vector, one behind the other
  template <typename T>
  std::vector<T> all_gather_joined(const std::vector<T>& own) {
    std::vector<T> joined;
    for (const std::vector<T>& one : all_gather_vectors(own)) joined.insert(joined.end(), one.begin(), one.end());
    return joined;
  }
  /// Gathers vectors on one rank, over a tree: at most 2 log2(P) messages of a rank. Collective. \return on the root
  /// every rank's vector, one behind the other, from the root's own on; elsewhere nothing
  template <typename T>
  std::vector<T> gather_joined(const std::vector<T>& own, int root = 0) {
    const int place = (rank() - root + size()) % size();
    const auto at = [&](int other) { return (other + root) % size(); };
    std::vector<T> joined = own;
    for (int stride = 1; stride < size(); stride *= 2) {
      std::int64_t count = std::ssize(joined);
      if (place % (2 * stride) != 0) {
        send(std::as_bytes(std::span(&count, 1)), at(place - stride), kGatherTag);
        send(std::as_bytes(std::span(joined)), at(place - stride), kGatherTag);
        return {};
      }
      if (place + stride >= size()) continue;
      receive(std::as_writable_bytes(std::span(&count, 1)), at(place + stride), kGatherTag);
      std::vector<T> theirs(static_cast<std::size_t>(count));
      receive(std::as_writable_bytes(std::span(theirs)), at(place + stride), kGatherTag);
      joined.insert(joined.end(), theirs.begin(), theirs.end());
    }
    return joined;
  }
  /// Copies rank 0's vector to every rank; the vectors of the others are resized.
  template <typename T>
  void broadcast_vector(std::vector<T>& values) {
    std::int64_t count = is_root() ? static_cast<std::int64_t>(values.size()) : 0;
    values.resize(static_cast<std::size_t>(max(count)));
    broadcast(std::as_writable_bytes(std::span(values)), 0);
  }
  /// The sum or maximum of a value of each rank; the result is returned on every rank. Collective.
  double sum(double value);
  std::int64_t sum(std::int64_t value);
  std::int64_t max(std::int64_t value);
};

/// A range [first, last) of values.
struct Slice {
  Index first = 0, last = 0;
};
/// Rank `rank`'s slice of n values among `size` ranks.
Slice slice_of(Index n, int rank, int size);
/// Rank `rank`'s slice of n values among `size` ranks, in whole cache lines (the last one may be shorter): where the
/// values begin at a cache line, no line is in two slices.
Slice line_slice_of(Index n, int rank, int size);

/// A group of one rank: every operation works, and has nothing to do.
std::unique_ptr<Communicator> make_self_communicator();

/// Runs body(communicator) on `ranks` threads of this process, each as one rank. Sends are synchronous: one that nobody
/// receives never completes. When all threads have ended, the first exception other than a PeerFailure is rethrown. A
/// rank that waits for one that failed gets a PeerFailure; a rank that waits for one that has ended or does not arrive
/// gets a CommunicationError. (Catch2's assertions are not thread-safe: in a body use EXPECT of
/// tests/support/expect.hpp.)
/// \param ranks_per_node tests simulate nodes of so few ranks; 0: all are on one
void run_as_threads(int ranks, const std::function<void(Communicator&)>& body, double timeout_seconds = 60,
                    int ranks_per_node = 0);

/// The Reducer over the ranks of a communicator, which must outlive it. Measures the time that it takes.
class CommunicatorReducer final : public Reducer {
 public:
  explicit CommunicatorReducer(Communicator& communicator, const Clock& clock = steady_clock())
      : communicator_(communicator), clock_(clock) {}
  void sum(std::span<double> values) override {
    const ScopedTimer timer(seconds_, clock_);
    communicator_.allreduce_sum(values);
  }
  /// Seconds spent in `sum` so far.
  double seconds() const { return seconds_; }

 private:
  Communicator& communicator_;
  const Clock& clock_;
  double seconds_ = 0;
};

/// Checks that all ranks hold the same hash of something. Collective; all ranks throw alike.
/// \param what e.g. "config"
/// \param remedy what to do where they differ
/// \throws LaunchError naming the ranks that differ from the majority (in a tie, from rank 0), and their hosts
void require_same(comm::Communicator& group, const std::string& what, std::uint64_t hash, const std::string& remedy);

/// The ranks' counters, combined as they are declared: the counters of `file` (Shown::in_metrics or Shown::in_summary),
/// hidden ones included; other counters keep this rank's values. Collective; at most four small messages, in metrics
/// none where nothing is to be sent. \throws LaunchError where the ranks count different things
CounterSet combine(Communicator& group, const CounterSet& counters, Shown file);

/// Means of each kind of seconds over the ranks of the group that train. Collective; one message. \param trains whether
/// this rank trains
Seconds mean_seconds(Communicator& group, const Seconds& seconds, bool trains = true);

}  // namespace unisono::comm
