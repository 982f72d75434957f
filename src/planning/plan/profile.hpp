#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unisono/base/config.hpp"
#include "unisono/parallel/placement.hpp"

namespace unisono::planning {

/// A function of a size that was measured at some sizes, and is linear between them.
struct Curve {
  std::vector<double> sizes, seconds;  ///< sizes ascend

  /// Beyond the first and last size it goes on as between the two nearest ones, but before the first one not below a
  /// line through 0, and behind the last one not below that; one size alone is on a line through 0.
  double at(double size) const;
  bool empty() const { return sizes.empty(); }
};

/// A way for messages between two ranks.
struct Link {
  double microseconds = 0;          ///< from the start of a short message to its arrival
  double megabytes_per_second = 0;  ///< in each direction; 0: unknown

  double latency() const { return 1e-6 * microseconds; }
  double bytes_per_second() const { return 1e6 * megabytes_per_second; }
  void describe(ConfigVisitor& visitor);
};

/// The steps of a rank, of several numbers of examples, while some ranks compute at once.
struct StepCurves {
  std::vector<double> examples;
  std::vector<double> gradient;  ///< seconds of the gradients alone
  std::vector<double> whole;     ///< seconds of whole steps, updates included, as one rank makes them by itself
  std::vector<double> update;    ///< seconds of an update by itself
  void describe(ConfigVisitor& visitor);

  Curve gradients() const { return {examples, gradient}; }
  Curve whole_steps() const { return {examples, whole}; }
  Curve updates() const { return {examples, update}; }
};

/// What a rank's thread that waits for messages takes from those that compute: the more, the shorter its waits are.
struct WaitingCosts {
  std::vector<double> seconds;  ///< of a wait, which begins anew when it is over; in ascending order
  std::vector<double> factor;   ///< how many times as long computing takes meanwhile
  void describe(ConfigVisitor& visitor);

  /// Between the measured waits, linear in the logarithm; beyond them, as at the nearest one.
  double factor_at(double wait) const;
};

/// Of whole-batch methods: seconds of a portion of the training set, its gradient added to the others'. 0: not
/// measured.
struct PortionSeconds {
  double examples = 0;                               ///< of a portion, on average
  double one_rank = 0, one_host = 0, all_hosts = 0;  ///< while no other rank, all of one host, all of all compute
  double float_ns = 0;                               ///< to read or write a float of a vector
  void describe(ConfigVisitor& visitor);
};

/// Seconds of the passes of each segment of the network, between two neighbouring cut points, for one example.
struct SegmentSeconds {
  std::vector<double> forward, backward_inputs, backward_weights;
  void describe(ConfigVisitor& visitor);
  std::vector<parallel::PassSeconds> passes() const;
};

/// Seconds of sums over ranks.
struct SumCurve {
  std::vector<double> bytes, seconds;
  void describe(ConfigVisitor& visitor);
  Curve curve() const { return {bytes, seconds}; }
};

/// What a compressed sum takes.
struct EncoderSpeed {
  static constexpr double kLeast = 1e-6;  ///< nanoseconds of what takes next to nothing
  std::string of = {};                    ///< the way of training whose messages these are
  double encode_ns = 0;                   ///< to compress a float, on one core
  double add_ns = 0;                      ///< to add a message to a sum, for each float that it is about
  double bytes_per_float = 0;             ///< of a message
  /// What sums over the ranks of a host, and over all ranks, add to a step, for each float; 0: not measured.
  double in_host_ns = 0, of_all_ns = 0;
  void describe(ConfigVisitor& visitor);
};

/// What was measured of a model on some ranks: enough to predict its steps on others. A file in TOML, which may be
/// edited: a link's speed may be given for a cluster that is not there.
struct Profile {
  std::string cpu = {};    ///< "AMD EPYC 9R14"
  std::string model = {};  ///< what was trained, in words; profiles of other models do not fit
  std::int64_t hosts = 1, ranks_per_host = 1, threads = 1;  ///< on which it was measured
  StepCurves one_rank = {};                                 ///< while no other rank computes
  StepCurves one_host = {};                                 ///< while all ranks of one host compute
  StepCurves all_hosts = {};                                ///< while all ranks of all hosts compute
  /// Steps of a single rank with all cores of its host as threads, and how many these are; empty and 0: not measured.
  StepCurves whole_host = {};
  std::int64_t whole_host_threads = 0;
  /// Steps of a thread of one rank, while each of its threads makes steps with a model of its own; empty: not measured.
  StepCurves workers = {};
  PortionSeconds portions = {};
  SegmentSeconds segments = {};                  ///< while all compute; empty: only the flops of layers are known
  WaitingCosts waiting = {};                     ///< while all compute, and each rank has a thread that waits
  SumCurve sums_in_host = {}, sums_of_all = {};  ///< over the ranks of a host, and over all ranks; empty: there was one
  /// Over the ranks of a host, of vectors that they do not share, as those of layers are; empty: messages decide.
  SumCurve sums_of_layers = {};
  Link in_host = {}, between_hosts = {};
  double busy_link_share = 1;  ///< of the speed between hosts, what messages get while the ranks compute
  /// … and what they get while each host sends to all others. Both count for links whose speed is given, too.
  double crowded_link_share = 1;
  std::vector<EncoderSpeed> encoders = {};
  double memory_mebibytes = 0;  ///< that a rank may take; 0: unknown

  void describe(ConfigVisitor& visitor);

  /// Bytes that a rank may take; infinitely many where that is unknown.
  double memory_limit() const;
};

/// \throws ConfigError where it is no profile
Profile read_profile(const std::string& path);
std::string text_of(const Profile& profile);

}  // namespace unisono::planning
