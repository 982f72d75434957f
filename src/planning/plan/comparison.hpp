#pragma once

#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "plan/noise.hpp"
#include "plan/prediction.hpp"
#include "plan/profile.hpp"
#include "plan/ways.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/settings/config.hpp"

namespace unisono::planning {

/// Examples of a step of all ranks: those of the whole training set where a method passes over it.
inline Index examples_of_step(const settings::Config& config, const data::DatasetInfo& data) {
  return config.whole_batch() ? data.train : config.train.batch_size;
}

/// A line of the table.
struct Line {
  const Way* way;
  Prediction made;
};

/// What is predicted of a config: a table, and a recommendation.
class Comparison {
 public:
  Comparison(const settings::Config& config, const Profile& profile, const data::DatasetInfo& data, const Ways& ways)
      : config_(config), profile_(profile), data_(data), ways_(ways) {}

  /// \param proposes whether pipelines, shared layers and other numbers of threads are proposed, too
  void predict(const Planned& planned, const std::vector<int>& hosts, bool proposes);
  /// \param config_path of the recommended config, for the command that starts it
  std::string text(const std::string& config_path) const;
  nlohmann::ordered_json json() const;
  const Line& recommended() const;
  /// Says what steps are worth by the gradient's noise.
  void add(GradientNoise noise) { noise_ = std::move(noise); }
  /// \throws ConfigError where the way does not suit these ranks
  const Prediction& prediction_for(const Ranks& ranks) const;

 private:
  bool fits(const Line& line) const { return static_cast<double>(line.made.memory_bytes) <= profile_.memory_limit(); }
  double epoch_seconds(const Line& line) const {
    return static_cast<double>(data_.train) / line.made.examples_per_second;
  }
  /// Iterations of whole-batch methods may take several passes over the set: how many is not known before.
  bool knows_epochs() const { return data_.train > 0 && !config_.whole_batch(); }
  const char* step_text() const { return config_.whole_batch() ? "pass" : "step"; }
  Index step_examples() const { return examples_of_step(config_, data_); }
  void predict(const Planned& planned, const Way& way, const std::set<Ranks>& all);
  const Way* way_to_divide(const Planned& planned, const std::set<Ranks>& all) const;
  void propose_pipelines(const Planned& planned, const Way& way, const std::set<Ranks>& all);
  void propose_shared_layers(const Planned& planned, const Way& way, const std::set<Ranks>& all);
  void propose_whole_host(const Planned& planned);
  void add(const Way& way, const Prediction& made);
  template <typename Suits>
  const Line* fastest(const Suits& suits) const;
  const Line& frugal(const Line& fastest) const;
  void require_memory() const;
  std::optional<double> least_whole() const;
  std::vector<std::string> reasons() const;
  std::string table() const;
  nlohmann::ordered_json json_of(const Line& line) const;

  const settings::Config& config_;
  const Profile& profile_;
  const data::DatasetInfo& data_;
  const Ways& ways_;
  std::deque<Way> proposed_;      ///< that are looked at beside `ways_`
  std::vector<Line> lines_;       ///< that fit, the fastest first
  std::vector<Line> over_limit_;  ///< those that need more memory than a rank may take
  std::vector<UnfitWay> unfit_;
  std::optional<GradientNoise> noise_;
};

}  // namespace unisono::planning
