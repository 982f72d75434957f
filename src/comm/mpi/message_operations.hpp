#pragma once

#include <mpi.h>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "ordered_sum.hpp"
#include "unisono/base/threads.hpp"
#include "unisono/comm/buckets.hpp"

namespace unisono::comm::mpi {

/// A communication of several ranks that is carried out in steps, none of which blocks.
class Operation {
 public:
  virtual ~Operation() = default;
  /// Goes as far as it can without waiting. \return whether it is done
  virtual bool advance() = 0;
  /// Whether all ranks have begun it, as far as this one can tell.
  virtual bool all_arrived() { return true; }
  /// Abandons it: receives nothing more. \return whether no peer can access this rank's memory any more; call until
  /// true
  virtual bool let_go() { return true; }
  /// Whether it needs to be advanced only when somebody tests or waits.
  virtual bool is_patient() const { return false; }
};

/// The operations of this process that are under way. A wait for one of them advances all, since a peer may wait for
/// another. One lock is held around every step and every call of MPI, so that MPI_THREAD_SERIALIZED is enough.
class Progress {
 public:
  /// Keeps an operation among those under way, until it is done or the entry is destroyed.
  class Entry {
   public:
    Entry(Progress& progress, Operation& operation);
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

    /// Call with the lock held. \throws what the operation threw
    bool done() const;
    Operation& operation() { return operation_; }

   private:
    friend class Progress;
    Progress& progress_;
    Operation& operation_;
    bool done_ = false;
    std::exception_ptr error_;
  };

  ~Progress();

  std::mutex& mutex() { return mutex_; }
  /// Advances all operations by a step; call with the lock held.
  void poll();

  /// Starts a thread that advances the operations while this rank computes. It is needed between nodes, where MPI makes
  /// progress only while one of its functions is called. The thread sleeps while nothing but patient operations is
  /// under way; otherwise it polls every 20 µs, or as often as the system's timer allows.
  void start_thread();
  /// Called before operations are abandoned.
  void stop_thread();

 private:
  void run();
  bool can_sleep() const;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Entry*> entries_;
  bool stop_ = false;
  Threads thread_{"communication between nodes"};
};

/// Bytes of one message of MPI, which counts in ints.
inline constexpr std::size_t kLongestMessage = std::size_t{1} << 30;

/// Messages under way, of any length: long ones are sent as several of MPI's.
class Transfers {
 public:
  Transfers() = default;
  /// Forgets what is still under way: only for messages that no peer will ever ask for or send (see let_go).
  ~Transfers();
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  void send(std::span<const std::byte> bytes, MPI_Comm communicator, int peer, int tag);
  void receive(std::span<std::byte> bytes, MPI_Comm communicator, int peer, int tag);

  /// Whether all have arrived; never waits.
  bool test();
  /// Cancels what is not yet being received. \return whether nothing is under way any more; never waits
  bool let_go();

 private:
  std::vector<MPI_Request> sends_, receives_;
  bool cancelled_ = false;
};

// Operations that use MPI's messages. No constructor here calls MPI: an operation begins with its first `advance`,
// under the lock of Progress.

/// Ranks that exchange messages for one collective.
struct Participants {
  MPI_Comm communicator = MPI_COMM_NULL;
  std::vector<int> ranks;  ///< of the communicator
  int me = 0;              ///< place of this rank in `ranks`
  int tag = 0;             ///< used by no other collective that is under way

  int size() const { return static_cast<int>(ranks.size()); }
};

/// All-to-all: each rank sends P − 1 messages, all at once.
/// \param incoming incoming(r): the buffer for the message of rank r of the participants
/// \param outgoing outgoing(r): the message to rank r
template <typename Incoming, typename Outgoing>
void exchange(Transfers& transfers, const Participants& participants, Incoming incoming, Outgoing outgoing) {
  for (int distance = 1; distance < participants.size(); ++distance) {  // each rank begins with another peer
    const int from = (participants.me + participants.size() - distance) % participants.size();
    transfers.receive(incoming(from), participants.communicator, participants.ranks[static_cast<std::size_t>(from)],
                      participants.tag);
  }
  for (int distance = 1; distance < participants.size(); ++distance) {
    const int to = (participants.me + distance) % participants.size();
    transfers.send(outgoing(to), participants.communicator, participants.ranks[static_cast<std::size_t>(to)],
                   participants.tag);
  }
}

/// values[i] ← values_0[i] ∘ values_1[i] ∘ …, by messages: rank r collects slice r of all, combines it in rank order
/// and sends it to all (reduce-scatter and all-gather; Rabenseifner, ICCS 2004, with direct exchange). Each value is
/// combined by one rank, so that all end with the same bits. Long vectors go in segments, which bounds the scratch.
/// Cost per rank: 2 (P − 1) messages and 2 n (P − 1) / P values a segment; short vectors: P − 1 messages of n values.
template <typename T, typename Combine>
class MessageCombine final : public Operation {
 public:
  MessageCombine(Participants participants, std::span<T> values)
      : participants_(std::move(participants)),
        values_(values),
        short_(static_cast<Index>(values.size_bytes()) * participants_.size() <= kShortSumBytes) {
    const Index scratch = short_ ? size() * participants_.size() : std::min(size(), kSegment) + participants_.size();
    scratch_ = std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(scratch));
  }

  bool let_go() override { return transfers_.let_go(); }
  bool advance() override {
    while (transfers_.test()) {
      if (first_ == size() || participants_.size() == 1) return true;
      next_phase();
    }
    return false;
  }

 private:
  static constexpr Index kSegment = Index{8 << 20} / static_cast<Index>(sizeof(T));

  enum class Phase { begin, collected, spread };

  void next_phase() {
    switch (phase_) {
      case Phase::begin:
        short_ ? collect_whole() : collect_slices();
        phase_ = Phase::collected;
        return;
      case Phase::collected:
        combine();
        if (!short_) spread();
        phase_ = Phase::spread;
        return;
      case Phase::spread:
        first_ += segment();
        phase_ = Phase::begin;
        return;
    }
  }

  Index size() const { return static_cast<Index>(values_.size()); }
  Index segment() const { return short_ ? size() : std::min(kSegment, size() - first_); }
  /// The slice of the segment that rank r combines.
  std::span<T> slice(int r) const {
    const Slice bounds = short_ ? Slice{0, size()} : slice_of(segment(), r, participants_.size());
    return values_.subspan(static_cast<std::size_t>(first_ + bounds.first),
                           static_cast<std::size_t>(bounds.last - bounds.first));
  }
  /// What rank r has sent for this rank's slice.
  std::span<T> brought(int r) const {
    const std::size_t length = slice(participants_.me).size();
    return {scratch_.get() + static_cast<std::size_t>(r) * length, length};
  }

  void collect_whole() {
    exchange(
        transfers_, participants_, [&](int from) { return std::as_writable_bytes(brought(from)); },
        [&](int) { return std::as_bytes(values_); });
  }
  void collect_slices() {
    exchange(
        transfers_, participants_, [&](int from) { return std::as_writable_bytes(brought(from)); },
        [&](int to) { return std::as_bytes(slice(to)); });
  }
  void spread() {
    exchange(
        transfers_, participants_, [&](int from) { return std::as_writable_bytes(slice(from)); },
        [&](int) { return std::as_bytes(slice(participants_.me)); });
  }
  void combine() {
    const std::span<T> mine = slice(participants_.me);
    std::vector<const T*> inputs;
    for (int r = 0; r < participants_.size(); ++r)
      inputs.push_back(r == participants_.me ? mine.data() : brought(r).data());
    T* const target = mine.data();
    combine_in_order<T>(inputs, std::span(&target, 1), static_cast<Index>(mine.size()), Combine{});
  }

  Participants participants_;
  std::span<T> values_;
  bool short_;
  std::unique_ptr<T[]> scratch_;  // before the transfers, which write into it
  Transfers transfers_;
  Index first_ = 0;  ///< of the segment
  Phase phase_ = Phase::begin;
};

/// The root of a TreeSum, by messages: rank r collects slice r of all vectors, adds them up and sends the sum to all.
/// Cost per rank that holds k of the K vectors: (k + 1) (P − 1) messages of n / P values; it receives those of all.
class MessageTreeSum final : public Operation {
 public:
  MessageTreeSum(Participants participants, std::vector<std::span<float>> vectors, const TreeSum& order);
  bool advance() override;
  bool let_go() override { return transfers_.let_go(); }

 private:
  enum class Phase { begin, collected, spread };

  std::span<float> slice(std::span<float> vector, int rank) const;
  std::span<float> brought(std::size_t input) const;
  void collect();
  void combine();
  void spread();

  Participants participants_;
  std::vector<std::span<float>> vectors_;
  const TreeSum& order_;
  std::unique_ptr<float[]> scratch_;  // before the transfers, which write into it
  Transfers transfers_;
  Phase phase_ = Phase::begin;
};

/// slice_r of rank r ← slice_r of all, added in rank order. P − 1 messages of n / P values from each rank.
class MessageScatter final : public Operation {
 public:
  MessageScatter(Participants participants, std::span<float> values);
  bool advance() override;
  bool let_go() override { return transfers_.let_go(); }

 private:
  std::span<float> slice(int rank) const;
  std::span<float> brought(int rank) const;

  Participants participants_;
  std::span<float> values_;
  std::unique_ptr<float[]> scratch_;
  Transfers transfers_;
  bool begun_ = false;
};

/// All-gather: each rank sends its bytes to all others, in P − 1 messages.
class MessageGather final : public Operation {
 public:
  /// \param parts a buffer for each rank's bytes; that of this rank holds them already
  MessageGather(Participants participants, std::vector<std::span<std::byte>> parts)
      : participants_(std::move(participants)), parts_(std::move(parts)) {}
  /// Of vectors of which each rank has its line_slice_of.
  MessageGather(Participants participants, std::span<float> values);
  bool advance() override;
  bool let_go() override { return transfers_.let_go(); }

 private:
  Participants participants_;
  std::vector<std::span<std::byte>> parts_;
  Transfers transfers_;
  bool begun_ = false;
};

/// One message: constant bytes to a peer, others from one.
template <typename Byte>
class OneMessage final : public Operation {
 public:
  OneMessage(std::span<Byte> bytes, MPI_Comm communicator, int peer, int tag, bool patient = false)
      : bytes_(bytes), communicator_(communicator), peer_(peer), tag_(tag), patient_(patient) {}
  bool let_go() override { return transfers_.let_go(); }
  bool is_patient() const override { return patient_; }
  bool advance() override {
    if (!std::exchange(begun_, true)) {
      if constexpr (std::is_const_v<Byte>) {
        transfers_.send(bytes_, communicator_, peer_, tag_);
      } else {
        transfers_.receive(bytes_, communicator_, peer_, tag_);
      }
    }
    return transfers_.test();
  }

 private:
  std::span<Byte> bytes_;
  MPI_Comm communicator_;
  int peer_, tag_;
  bool patient_;
  Transfers transfers_;
  bool begun_ = false;
};

/// MPI's own broadcast, in parts whose length an int can hold.
class Broadcast final : public Operation {
 public:
  Broadcast(std::span<std::byte> bytes, MPI_Comm communicator, int root)
      : rest_(bytes), communicator_(communicator), root_(root) {}
  bool advance() override;
  bool let_go() override;

 private:
  std::span<std::byte> rest_;  ///< what has not been begun
  MPI_Comm communicator_;
  int root_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

/// MPI's own barrier.
class Barrier final : public Operation {
 public:
  explicit Barrier(MPI_Comm communicator) : communicator_(communicator) {}
  bool advance() override;

 private:
  MPI_Comm communicator_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  bool begun_ = false;
};

}  // namespace unisono::comm::mpi
