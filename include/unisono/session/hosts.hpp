#pragma once

#include <string>

#include "unisono/base/counters.hpp"
#include "unisono/comm/communicator.hpp"

namespace unisono::session {

/// The hosts on which a group of ranks runs.
struct Hosts {
  int count = 1;
  int ranks = 1, most_ranks = 1;  ///< in all; on the host that has most of them
};
/// Collective; two small messages.
Hosts hosts_of(comm::Communicator& group);

/// What to tell the user of several hosts where one of them would probably have trained faster: its ranks would have
/// computed on all examples, and sent nothing to other hosts. Empty where that would not have been faster.
/// \param seconds means over the ranks, which share the examples
std::string advice_on_hosts(const Seconds& seconds, const Hosts& hosts);

}  // namespace unisono::session
