#pragma once

#include <memory>

#include "unisono/base/log.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/data/staging.hpp"

namespace unisono::session {

class NeighbourCopies;

/// A set that the ranks of a group stage together (data.stage). With a global partition, each node keeps its share, and
/// the first rank of each node answers other nodes' requests for it. Construction and destruction are collective.
class SharedStaging {
 public:
  /// \param world must outlive it, as the log must
  SharedStaging(comm::Communicator& world, const data::DataSettings& settings, Log& log);
  ~SharedStaging();
  SharedStaging(const SharedStaging&) = delete;
  SharedStaging& operator=(const SharedStaging&) = delete;

  /// What this rank has read so far.
  data::StagedBytes read_bytes() const { return set_ ? set_->read_bytes() : data::StagedBytes{}; }

 private:
  void divide(comm::Communicator& world, int nodes, Log& log);

  std::unique_ptr<data::StagedSet> set_;  ///< null: there is no such file
  std::unique_ptr<NeighbourCopies> neighbours_;
};

}  // namespace unisono::session
