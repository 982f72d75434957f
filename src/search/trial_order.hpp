#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace unisono::search {

/// Which trials have started and ended, each once. Those that start in the order of their numbers ask for `next`.
class TrialOrder {
 public:
  explicit TrialOrder(std::int64_t count) : count_(count) {}

  std::int64_t count() const { return count_; }
  /// The lowest number of those that have not started; `count` where all have.
  std::int64_t next() const { return next_; }
  /// The lowest number of those that have not ended.
  std::int64_t first_open() const { return first_open_; }
  bool has_started(std::int64_t trial) const { return losses_.contains(trial); }
  bool all_started() const { return next_ == count_; }
  bool all_ended() const { return first_open_ == count_; }
  /// Of a trial that has ended.
  double loss(std::int64_t trial) const { return *losses_.at(trial); }

  void start(std::int64_t trial) {
    losses_.try_emplace(trial);
    while (next_ < count_ && losses_.contains(next_)) ++next_;
  }
  void end(std::int64_t trial, double loss) {
    losses_[trial] = loss;
    for (auto at = losses_.find(first_open_); at != losses_.end() && at->first == first_open_ && at->second; ++at) {
      ++first_open_;
    }
  }

 private:
  std::int64_t count_, next_ = 0, first_open_ = 0;
  std::map<std::int64_t, std::optional<double>> losses_;  ///< of those that have started
};

}  // namespace unisono::search
