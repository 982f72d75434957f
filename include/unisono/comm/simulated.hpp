#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "unisono/base/virtual_runtime.hpp"
#include "unisono/comm/communicator.hpp"

namespace unisono::comm {

/// When the messages of a recorded run arrived. The k-th one between two ranks with one tag says when the k-th such
/// message of simulated ranks arrives.
class RecordedArrivals {
 public:
  RecordedArrivals() = default;
  explicit RecordedArrivals(std::span<const Arrival> arrivals);

  bool empty() const { return lines_.empty(); }
  /// When the next of these messages arrives, in seconds from Communicator::begin_arrivals on; nothing: no such message
  /// is left.
  std::optional<double> next(int from, int to, int tag);
  /// Notes that a message was sent only after it had arrived in the recorded run.
  void count_late() { ++late_; }

  std::int64_t followed() const { return followed_; }  ///< messages for which there was one
  std::int64_t missing() const { return missing_; }    ///< messages for which there was none
  std::int64_t late() const { return late_; }

 private:
  struct Line {
    std::vector<double> seconds;
    std::size_t next = 0;
  };
  std::map<std::tuple<int, int, int>, Line> lines_;  ///< by sender, receiver and tag
  std::int64_t followed_ = 0, missing_ = 0, late_ = 0;
};

/// How fast messages are between simulated ranks. A message takes the latency and then its bytes over the bandwidth.
/// Each host has one link for all that its ranks send to other hosts, and one for all that they receive from there;
/// messages that want it at the same time share it.
struct SimulatedNetwork {
  struct Link {
    double bytes_per_second = 0, seconds = 0;  ///< bandwidth and latency
  };
  int ranks_per_host = 1;
  Link between_hosts;
  Link in_host;           ///< for each message by itself: ranks of a host do not wait for each other's
  double sum_factor = 1;  ///< how many times as long sums over hosts take as their bytes on the links
  /// How long after Communicator::begin_arrivals each rank sends and receives nothing but what belongs to collectives;
  /// empty: all start at once.
  std::vector<double> starts = {};
  RecordedArrivals* recorded = nullptr;  ///< says when messages arrive, in place of the links; null: nobody does
};

/// Runs body(communicator) on so many simulated ranks. Their messages take simulated time; collectives take as long as
/// the algorithms that run between real hosts would. When all have ended, the first exception other than a PeerFailure
/// is rethrown.
/// \param fails_at the simulated second at which a host fails: all ranks get a PeerFailure when they next communicate
/// \return whether it did: false where all have ended before
bool run_simulated(VirtualRuntime& runtime, int ranks, const SimulatedNetwork& network,
                   const std::function<void(Communicator&)>& body,
                   double fails_at = std::numeric_limits<double>::infinity());

}  // namespace unisono::comm
