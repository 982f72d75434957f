#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shared_window.hpp"
#include "topology.hpp"

namespace unisono::comm::mpi {

/// One process of the job.
struct Member {
  std::string host;
  int pid = 0;
  int node = 0;  ///< lowest rank of the job that shares memory with it
};

/// The processes of the job, by rank of MPI_COMM_WORLD.
class Roster {
 public:
  /// Collective.
  Roster();

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  const Member& operator[](int rank) const { return members_[static_cast<std::size_t>(rank)]; }
  /// Whether this node has fewer cores than ranks: then a rank that waits must let others run.
  bool oversubscribed() const { return oversubscribed_; }
  /// "rank 1 (node3, pid 4711": the caller adds what else it knows, and the bracket
  std::string name(int rank) const;

 private:
  int rank_ = 0;
  std::vector<Member> members_;
  bool oversubscribed_ = false;
};

/// The training steps that ranks are at, for the message about one that does not arrive. Each rank knows its own and,
/// where the node shares memory, those of the other ranks of its node.
class Steps {
 public:
  static constexpr std::int64_t kUnknown = -1;

  explicit Steps(const Roster& roster) : roster_(roster) { of_rank_[roster.rank()] = &mine_; }
  /// Makes the steps visible to all ranks of a node, where it has room for shared memory. Only the first call does
  /// anything. Collective over the job.
  void share();
  void free();  ///< collective over the node
  bool shared() const { return window_ != nullptr; }

  void set(std::int64_t step) { of_rank_[roster_.rank()]->store(step, std::memory_order_relaxed); }
  std::int64_t of(int rank) const;
  /// Steps by rank, for the ranks that this one knows of.
  std::map<int, std::int64_t> known() const;

 private:
  const Roster& roster_;
  std::atomic<std::int64_t> mine_ = kUnknown;
  bool tried_ = false;
  std::unique_ptr<SharedWindow> window_;
  std::map<int, std::atomic<std::int64_t>*> of_rank_;
};

/// How a rank ended.
struct End {
  enum class How : std::int64_t {
    normally,
    failed,              ///< by itself
    followed_a_failure,  ///< because of another
  };
  int code = 0;
  How how = How::normally;
};

/// A rank's answer to the question how far it is.
struct Answer {
  std::uint64_t begun = 0;            ///< collectives of the group that it has begun
  std::map<int, std::int64_t> steps;  ///< training steps of it and of the ranks on its node, by rank
};
/// The answers to one question so far, by rank.
using Answers = std::map<int, Answer>;

/// Control messages, on a communicator of their own: how each rank ended, and questions about how far ranks are. A rank
/// that waits for anything reads them. All calls with the lock of Progress held.
class Control {
 public:
  /// Collective.
  Control(const Roster& roster, const Steps& steps);
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  /// Reads the messages that have arrived, and answers questions.
  void poll();

  // Ends
  void announce_end(End end);  ///< to all
  const std::vector<std::optional<End>>& ends() const { return ends_; }
  /// The lowest rank that failed by itself, or else that failed; −1 where none did.
  int failed_rank() const;

  // Questions
  /// Asks all other ranks how far they are with a group. Several threads of a rank may ask at the same time.
  /// \return the answers, which are added as they arrive; read them with the lock held
  std::shared_ptr<const Answers> ask(std::uint64_t group);
  /// The groups about which this rank can answer questions.
  void enter(const Group& group) { groups_[group.id] = &group; }
  void leave(const Group& group) { groups_.erase(group.id); }

 private:
  using Words = std::vector<std::int64_t>;
  struct Sent {
    MPI_Request request = MPI_REQUEST_NULL;
    Words words;
  };

  void send(int rank, Words words);
  void receive(int rank, const Words& words);
  void take_answer(int rank, const Words& words);
  Words answer_about(std::int64_t question, std::uint64_t group) const;

  const Roster& roster_;
  const Steps& steps_;
  MPI_Comm communicator_ = MPI_COMM_NULL;
  std::list<Sent> sent_;
  std::vector<std::optional<End>> ends_;
  std::map<std::uint64_t, const Group*> groups_;
  std::int64_t last_question_ = 0;
  std::map<std::int64_t, std::weak_ptr<Answers>> questions_;  ///< those that somebody may still wait for
};

}  // namespace unisono::comm::mpi
