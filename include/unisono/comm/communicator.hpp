#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/base/clock.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/tensor/allocator.hpp"
#include "unisono/tensor/reducer.hpp"

namespace unisono::comm {

/// Another rank failed, and this one stops because of it: a consequence that nobody prints.
struct PeerFailure : CommunicationError {
  using CommunicationError::CommunicationError;
};

/// A started operation. Its buffers must stay untouched until `wait` has returned.
class Request {
 public:
  virtual ~Request() = default;
  /// Blocks until done. Must be called exactly once before destruction. \throws CommunicationError
  virtual void wait() = 0;
  /// Whether it is done; drives progress.
  virtual bool test() = 0;
  /// Blocks until it is done or `enough()`, which is asked again and again, is quick, and calls nothing of a
  /// communicator. \return whether it is done: `wait` is yet to be called \throws CommunicationError
  virtual bool wait_unless(const std::function<bool()>& enough) = 0;
  /// Blocks until every rank has started this operation, where the room can tell; else returns at once. Whoever times
  /// it before `wait` knows how long it waited for the last rank, and how long for the transfer alone.
  virtual void wait_for_arrivals() {}
};
using RequestPtr = std::unique_ptr<Request>;

/// A group of ranks that exchange messages. Rooms: MPI, threads of one process, and a group of one.
///
/// All collectives are called by every rank of the group, in the same order. Counts are 64 bits. No operation relies on
/// a send being buffered. All throw CommunicationError, which names the ranks that did not arrive within
/// `communication.timeout_seconds`. One thread of a process at a time uses its communicators' collectives; messages
/// between two ranks, which may be the same one, are for any threads at any time.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// This rank's number among the ranks that share its node's memory, and how many these are.
  virtual int node_rank() const = 0;
  virtual int node_size() const = 0;
  virtual std::string host() const = 0;

  /// Where this rank is, for the message about a rank that does not arrive.
  virtual void set_step(std::int64_t step) = 0;

  virtual void barrier() = 0;
  virtual void broadcast(std::span<std::byte> bytes, int root) = 0;

  /// values[i] ← Σ_r values_r[i]; every rank ends with the same bits, and with the same ones in every run.
  virtual void allreduce_sum(std::span<float> values) = 0;
  virtual void allreduce_sum(std::span<double> values) = 0;
  virtual void allreduce_sum(std::span<std::int64_t> values) = 0;
  virtual void allreduce_max(std::span<std::int64_t> values) = 0;
  virtual void allreduce_max(std::span<double> values) = 0;
  /// Started; proceeds while this rank computes. Several may be in flight; they are matched in the order of their
  /// starts.
  virtual RequestPtr start_allreduce_sum(std::span<float> values) = 0;

  /// The sum's slice of this rank: slice_r = [r·n/P, (r+1)·n/P) of `values` ends as the sum, the rest is undefined.
  virtual void reduce_scatter_sum(std::span<float> values) = 0;
  /// Every rank's slice (bounds as above) is copied to all.
  virtual void all_gather(std::span<float> values) = 0;
  /// Every rank's bytes, of lengths that may differ, on every rank.
  virtual std::vector<std::vector<std::byte>> all_gather_bytes(std::span<const std::byte> bytes) = 0;

  /// Messages between two ranks with the same tag arrive in the order of their sends. The receiver knows the length.
  virtual void send(std::span<const std::byte> bytes, int peer, int tag) = 0;
  virtual void receive(std::span<std::byte> bytes, int peer, int tag) = 0;
  virtual RequestPtr start_send(std::span<const std::byte> bytes, int peer, int tag) = 0;
  virtual RequestPtr start_receive(std::span<std::byte> bytes, int peer, int tag) = 0;
  /// Blocks until one at least of these messages, which this communicator started, is done, or `enough()` (as
  /// Request::wait_unless). \return the places of those that are done: `wait` is yet to be called for each
  virtual std::vector<std::size_t> wait_any(std::span<Request* const> messages,
                                            const std::function<bool()>& enough) = 0;

  /// Blocks until `done()`, which is asked again and again, is quick, and calls nothing of a communicator: for what
  /// these ranks do together elsewhere. \throws PeerFailure and CommunicationError as collectives do
  virtual void watch(std::string_view name, const std::function<bool()>& done) = 0;

  /// The ranks of equal colour, ordered by key. Collective. The end of such a group is not: no rank waits for others,
  /// and what all have given back is freed at the next split, or with this communicator, which outlives the group.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;
  /// This rank by itself. Not collective; costs no messages.
  virtual std::unique_ptr<Communicator> alone();

  /// Memory that the ranks of this node share where that pays: what is allocated from it is reduced straight out of the
  /// peers' memory. The allocation is collective and every rank asks for the same size. Plain memory where no window
  /// can be had (said in the log). A span inside it is passed to a collective by all ranks or by none, at the same
  /// place of the same allocation. Outlived by this communicator.
  virtual Allocator& shared_allocator() = 0;
  /// Zeroed memory of which the node has one copy that all its ranks read and write, e.g. for resident data; aligned as
  /// allocators do. Collective over the node, every rank asks for the same size. It must be released before this
  /// communicator. Null on all ranks of the node where no window can be had (said in the log).
  virtual std::shared_ptr<std::byte> allocate_on_node(std::size_t bytes) = 0;
  /// Over the ranks of this node.
  virtual void node_barrier() = 0;

  // On top of these
  // ------------------------------------------------------------------------------------------------------------

  bool is_root() const { return rank() == 0; }
  /// How long an allreduce should be that others follow while a gradient is computed.
  virtual Index bucket_bytes() const;
  /// values ← Σ_r weight_r values_r / Σ_r weight_r. A rank of weight 0 takes part, whatever its values are. Where all
  /// weights are 0 the values stay as they are.
  virtual void allreduce_weighted_mean(std::span<float> values, double weight);
  std::vector<std::string> all_gather_text(const std::string& text);
  std::string broadcast_text(const std::string& text, int root = 0);
  /// Rank 0's vector on every rank.
  template <typename T>
  void broadcast_vector(std::vector<T>& values) {
    std::int64_t count = is_root() ? static_cast<std::int64_t>(values.size()) : 0;
    values.resize(static_cast<std::size_t>(max(count)));
    broadcast(std::as_writable_bytes(std::span(values)), 0);
  }
  double sum(double value);
  std::int64_t sum(std::int64_t value);
  std::int64_t max(std::int64_t value);
};

/// [first, last) of rank r's slice of n values among `size` ranks.
struct Slice {
  Index first = 0, last = 0;
};
Slice slice_of(Index n, int rank, int size);

/// Alone: everything is a working no-op.
std::unique_ptr<Communicator> make_self_communicator();

/// Runs body(communicator) on `ranks` threads of this process, each as one rank. Sends are synchronous: one that nobody
/// receives never completes. The first exception that is no PeerFailure is rethrown when all ended; ranks that wait for
/// one that failed get a PeerFailure, and a CommunicationError where they wait for one that ended or does not arrive.
/// (Catch2's assertions are not thread-safe: in a body use EXPECT of tests/support/expect.hpp.)
void run_as_threads(int ranks, const std::function<void(Communicator&)>& body, double timeout_seconds = 60);

/// Sums over a communicator of its own.
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

}  // namespace unisono::comm
