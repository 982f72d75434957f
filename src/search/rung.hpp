#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace unisono::search {

/// The trials of a search by successive halving that have been trained for the same number of epochs.
class Rung {
 public:
  explicit Rung(std::int64_t epochs) : epochs_(epochs) {}

  std::int64_t epochs() const { return epochs_; }
  void end(std::int64_t trial, double loss) {
    const bool failed = !std::isfinite(loss);
    ended_.emplace(failed ? std::numeric_limits<double>::infinity() : loss, trial);
    successes_ += failed ? 0 : 1;
  }
  void promote(std::int64_t trial) { promoted_.insert(trial); }

  std::int64_t size() const { return static_cast<std::int64_t>(ended_.size()); }
  /// How many have not failed.
  std::int64_t successes() const { return successes_; }
  /// The best that has not gone on, among the `count` best (of equal ones, the lower number); none that failed.
  std::optional<std::int64_t> promotable(std::int64_t count) const {
    for (const auto& [loss, trial] : ended_) {
      if (count-- <= 0 || !std::isfinite(loss)) break;
      if (!promoted_.contains(trial)) return trial;
    }
    return std::nullopt;
  }

 private:
  std::int64_t epochs_, successes_ = 0;
  std::set<std::pair<double, std::int64_t>> ended_;
  std::set<std::int64_t> promoted_;
};

/// The rungs of trials that are trained to the end: ⌊R/η^K⌋, …, ⌊R/η⌋, R epochs, for the largest K at which the first
/// is at least `least`. \throws ConfigError where there is only one
std::vector<Rung> make_rungs(std::int64_t epochs, std::int64_t least, std::int64_t reduction_factor);

/// The rung of steps of so many epochs.
std::size_t rung_of(const std::vector<Rung>& rungs, std::int64_t epochs);

}  // namespace unisono::search
