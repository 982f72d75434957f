#pragma once

#include <vector>

#include "plan/profile.hpp"
#include "unisono/strategies/traffic.hpp"

namespace unisono::planning {

/// The ranks that a prediction is about: on so many hosts, as many on each, rank after rank.
struct Ranks {
  int hosts = 1, per_host = 1;
  int all() const { return hosts * per_host; }
  auto operator<=>(const Ranks&) const = default;
};

/// Seconds and bytes of an exchange, if all ranks begin it at once.
struct ExchangeCost {
  double copying = 0;     ///< by the ranks' cores: messages within a host
  double link = 0;        ///< on the links between hosts
  double sent_bytes = 0;  ///< by a host, to other hosts
  double seconds() const { return copying + link; }
};

/// What exchanges take on some ranks. Messages of a host to others share its link; messages within a host share its
/// memory.
class Network {
 public:
  /// \param profile must outlive it \param measured_links whether sums of all ranks are as measured, where the ranks
  /// are those of the profile; false: as the links say
  Network(const Profile& profile, const Ranks& ranks, bool measured_links)
      : profile_(profile), ranks_(ranks), measured_links_(measured_links) {}

  /// \param bytes of the exchange's vector, as it is sent
  ExchangeCost cost(const strategies::Exchange& exchange, double bytes) const;
  /// A sum of what layers compute, which lies in each rank's own memory.
  ExchangeCost sum_of_layers(double bytes) const;

 private:
  ExchangeCost sum(double bytes) const;
  ExchangeCost slices(double bytes) const;
  ExchangeCost gather(double bytes) const;
  ExchangeCost neighbours(const strategies::Exchange& exchange, double bytes) const;
  ExchangeCost serve(double bytes) const;
  ExchangeCost messages(double inside, double outside, int others) const;

  const Profile& profile_;
  Ranks ranks_;
  bool measured_links_;
};

}  // namespace unisono::planning
