#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "job.hpp"
#include "message_operations.hpp"
#include "shared_window.hpp"
#include "topology.hpp"
#include "unisono/comm/mpi.hpp"
#include "window_operations.hpp"

namespace unisono::comm::mpi {

class Splits;

/// The MPI resources of a communicator. Destroying this struct does not free them, since that is collective.
struct Resources {
  MPI_Comm collectives = MPI_COMM_NULL, messages = MPI_COMM_NULL, node = MPI_COMM_NULL;
  std::unique_ptr<Board> board;             ///< may be null
  std::unique_ptr<SharedAllocator> shared;  ///< null where the communicator was never complete
  std::unique_ptr<Resources> node_group;    ///< of the communicator of this node's ranks, where there are several nodes
  std::shared_ptr<Splits> splits;           ///< the groups that were split from it

  /// Collective over the communicator's ranks, which must all be about to call it.
  void free(Progress& progress);
};

/// The groups that were split from a communicator and are not freed yet. Each split makes one group on every rank, so
/// that a number names the same split on all of them. When a rank destroys its group, it gives the group's resources
/// back; they are freed when all ranks have done so.
class Splits {
 public:
  /// Registers a group that is about to be made. \return its number
  std::uint64_t add();
  void give_back(std::uint64_t number, Resources resources) { groups_[number] = std::move(resources); }
  /// For each group, in the order of the splits: 1 where this rank has not given it back, else 0.
  std::vector<std::int64_t> in_use() const;
  /// Frees the groups that no rank uses. Collective. \param in_use the maximum over all ranks of each number above
  void free_unused(const std::vector<std::int64_t>& in_use, Progress& progress);
  /// Frees what this rank has given back; all ranks have given back the same.
  void free_all(Progress& progress);

 private:
  std::uint64_t count_ = 0;
  std::map<std::uint64_t, std::optional<Resources>> groups_;  ///< by number; empty: this rank still uses it
};

/// What communicators hand on to those that are split from them.
struct Terms {
  std::shared_ptr<MpiJob> job;
  CommunicationSettings settings;
  Warn warn;
};

/// A communicator of MPI processes. Spans in shared windows, and short vectors on a single node, are reduced through
/// shared memory; all else goes by messages. Every collective has a number (`Place::sequence`) and is waited for by
/// MpiJob::wait, which detects lost ranks.
class MpiCommunicator final : public Communicator {
 public:
  /// Collective over `ranks`, all of which must be about to call it.
  MpiCommunicator(Terms terms, MPI_Comm ranks, std::uint64_t id);
  /// A communicator that was split from another one gives its resources back to that one. Any other destruction is
  /// collective; after a failure, though, it frees nothing that other ranks may still use.
  ~MpiCommunicator() override;

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(group_.members.size()); }
  int node_rank() const override { return topology_.node_rank; }
  int node_size() const override { return topology_.node_size(); }
  int node() const override { return topology_.node; }
  std::string host() const override { return terms_.job->roster()[terms_.job->roster().rank()].host; }
  void set_step(std::int64_t step) override { terms_.job->steps().set(step); }

  void barrier() override;
  void broadcast(std::span<std::byte> bytes, int root) override;
  void allreduce_sum(std::span<float> values) override { start_allreduce_sum(values)->wait(); }
  void allreduce_sum(std::span<double> values) override;
  void allreduce_sum(std::span<std::int64_t> values) override;
  void allreduce_max(std::span<std::int64_t> values) override;
  void allreduce_max(std::span<double> values) override;
  RequestPtr start_allreduce_sum(std::span<float> values) override;
  RequestPtr start_tree_sum(std::span<const std::span<float>> vectors, const TreeSum& order) override;
  RequestPtr start_reduce_scatter_sum(std::span<float> values) override;
  void reduce_scatter_in_blocks(std::span<float> values, const Summed& summed) override;
  RequestPtr start_all_gather(std::span<float> values) override;
  std::vector<std::vector<std::byte>> all_gather_bytes(std::span<const std::byte> bytes) override;

  RequestPtr start_send(std::span<const std::byte> bytes, int peer, int tag) override;
  RequestPtr start_receive(std::span<std::byte> bytes, int peer, int tag) override;
  RequestPtr start_patient_receive(std::span<std::byte> bytes, int peer, int tag) override;
  std::vector<std::size_t> wait_any(std::span<Request* const> messages, const std::function<bool()>& enough) override;

  void begin_arrivals(double zero) override { terms_.job->arrivals().begin(zero); }
  std::vector<Arrival> take_arrivals() override { return terms_.job->arrivals().take(); }

  void watch(std::string_view name, const std::function<bool()>& done) override;

  std::unique_ptr<Communicator> split(int color, int key) override;
  Allocator& shared_allocator() override { return *shared_; }
  std::shared_ptr<std::byte> allocate_on_node(std::size_t bytes) override;
  bool shares_memory() const override { return size() == 1 || (board_ != nullptr && topology_.one_node()); }
  void node_barrier() override { node_group().barrier(); }

 private:
  enum class Kind : std::uint64_t {
    barrier,
    broadcast,
    sum_floats,
    sum_doubles,
    sum_integers,
    sum_tree,
    max_integers,
    max_doubles,
    scatter,
    gather,
    gather_bytes
  };

  /// Lets peers ask how far this rank has come with a group, from `enter` until this object is destroyed.
  class Membership {
   public:
    Membership(MpiJob& job, Group& group) : job_(job), group_(group) {}
    ~Membership();
    Membership(const Membership&) = delete;
    Membership& operator=(const Membership&) = delete;
    void enter();  ///< with the lock held

   private:
    MpiJob& job_;
    Group& group_;
    bool entered_ = false;
  };

  void make_places(MPI_Comm ranks);
  std::int64_t node_key(int rank) const;
  void share_memory();
  void free_splits();
  Resources take_resources();
  void release();
  RequestPtr start_receive(std::span<std::byte> bytes, int peer, int tag, bool patient);
  MpiCommunicator& node_group() { return node_group_ ? *node_group_ : *this; }

  // The steps of a collective: it gets the next number, announces that this rank's input is ready, and is waited for.
  Place next(std::string_view name) const { return {group_, name, group_.begun + 1, -1}; }
  void arrive(const Place& place, Kind kind, std::size_t size, std::uint64_t where = 0);
  void run(Operation& operation, const Place& place, Kind kind, std::size_t size, std::uint64_t where = 0);
  template <typename T, typename Combine>
  void combine(std::span<T> values, std::string_view name, Kind kind);
  std::unique_ptr<Operation> make_sum(std::span<float> values, const Place& place, std::uint64_t& where);
  std::unique_ptr<Operation> make_tree_sum(std::span<const std::span<float>> vectors, const TreeSum& order,
                                           const Place& place, std::uint64_t& where);
  template <typename OnNode, typename OnNodes, typename ByMessages>
  RequestPtr start_half(std::span<float> values, std::string_view name, Kind kind);
  void wait_for_room(const Place& place);
  Participants participants(const Place& place) const;

  Terms terms_;
  Group group_;
  Membership membership_{*terms_.job, group_};
  int rank_ = 0;
  Topology topology_;
  MPI_Comm collectives_ = MPI_COMM_NULL, messages_ = MPI_COMM_NULL, node_ = MPI_COMM_NULL;
  std::unique_ptr<MpiCommunicator> node_group_;  ///< the ranks of this node, where there are several nodes
  std::unique_ptr<Board> board_;                 ///< of this node; null where its ranks share no memory
  std::unique_ptr<SharedAllocator> shared_;
  std::uint64_t last_in_window_ = 0;                             ///< number of the last collective in shared memory
  std::atomic<int> in_flight_ = 0;                               ///< started sums that are not done
  std::shared_ptr<Splits> splits_ = std::make_shared<Splits>();  ///< from this communicator
  std::weak_ptr<Splits> home_;  ///< of the communicator that this was split from, if it was
  std::uint64_t number_ = 0;    ///< its number in `home_`
  bool has_resources_ = true;
};

}  // namespace unisono::comm::mpi
