#pragma once
// NCCL between threads of one process: communicators, and operations that meet at a number.

#include <nccl.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "simulated_cuda/machine.hpp"

namespace simulated {

/// What one rank gives and wants. Counts are elements; `peer` is the root or the other end.
struct RankOperation {
  enum class Kind { all_reduce, reduce_scatter, all_gather, broadcast, send, receive };
  Kind kind = Kind::all_reduce;
  const void* send = nullptr;
  void* receive = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t reduction = ncclSum;
  int peer = 0;
  double factor = 1;  ///< of this rank's values in a sum

  bool pairwise() const { return kind == Kind::send || kind == Kind::receive; }
};

/// Ranks that have come to one operation.
struct Meeting {
  std::map<int, RankOperation> here;
  std::size_t left = 0;
  bool done = false;
};

struct Communicator;

/// All ranks that were made with one unique id.
struct Clique {
  int size = 0;
  std::vector<std::shared_ptr<Communicator>> ranks;  ///< nullptr: has not come yet
  int joined = 0;
  ncclResult_t outcome = ncclInProgress;  ///< of the initialisation
  bool aborted = false;                   ///< by one of its ranks
  std::map<std::uint64_t, Meeting> collectives;
  std::map<std::pair<int, int>, std::map<std::uint64_t, Meeting>> pairs;  ///< from, to
};

/// One rank's end.
struct Communicator {
  std::shared_ptr<Clique> clique;
  int rank = 0;
  int device = 0;
  bool aborted = false;  ///< by this rank
  bool finalized = false;
  std::size_t outstanding = 0;  ///< operations that were given to streams and are not done
  std::uint64_t next_collective = 0;
  std::map<int, std::uint64_t> next_send, next_receive;
  std::map<int, double> weighted_sums;  ///< reductions that were made, and the factor of each
};

/// Operations of one group on one stream: they wait for their peers side by side.
class GroupWork : public Work {
 public:
  void add(std::shared_ptr<Communicator> communicator, const RankOperation& operation);
  std::shared_ptr<void> begin() const override;
  Progress run(Session& session, void* memory) const override;

 private:
  struct Member {
    std::shared_ptr<Communicator> communicator;
    RankOperation operation;
  };
  struct Tickets;
  std::vector<Member> members_;
};

/// Why NCCL does not take the operation, or nullptr.
const char* objection(const Communicator& communicator, const RankOperation& operation);

/// What this thread has called since ncclGroupStart.
struct Group {
  int depth = 0;
  std::map<std::shared_ptr<Stream>, std::shared_ptr<GroupWork>> works;
  std::vector<std::shared_ptr<Communicator>> joining;
};
Group& group();

Handles<ncclComm_t, Communicator>& communicators();

/// This thread's last message.
std::string& last_message();
ncclResult_t refuse(ncclResult_t result, const char* why);

// What NCCL's functions do; the session is the caller's where one is passed.
ncclUniqueId new_id();
ncclResult_t make(ncclComm_t* handle, int size, const ncclUniqueId& id, int rank, const ncclConfig_t* config);
ncclResult_t add(const RankOperation& operation, ncclComm_t handle, cudaStream_t stream_handle);
/// The end of the outermost group.
ncclResult_t submit_group(Session& session);
std::shared_ptr<Communicator> usable(ncclComm_t handle, ncclResult_t& result);
/// Waits for the communicator's operations and takes no more.
ncclResult_t finish(Session& session, Communicator& c);

/// Waits for `condition`, and runs what is pending meanwhile. Aborts after 60 s without progress.
void wait_until(Session& session, const std::function<bool()>& condition, const char* what);

}  // namespace simulated
