#include "trials/trial_work.hpp"

#include <algorithm>
#include <map>
#include <memory>

#include "unisono/base/errors.hpp"
#include "unisono/session/model_of_config.hpp"
#include "unisono/session/settled.hpp"
#include "unisono/trials/trial_overrides.hpp"

namespace unisono::jobs {
namespace {

/// A training step takes about as long as so many flops, however small its batch is.
constexpr double kFlopsOfStep = 2e5;

bool makes_longer(const search::Parameter& parameter) {
  return parameter.key.starts_with("model") || parameter.key == "train" || parameter.key == "train.epochs" ||
         parameter.key == "train.batch_size";
}

/// In flops, for each example of the training set.
double work_of(const settings::Config& given, const data::DatasetInfo& data) {
  const settings::Config config = session::settle(given, data).config;
  const double batches = config.train.batch_size > 0 ? 1.0 / static_cast<double>(config.train.batch_size) : 0;
  return static_cast<double>(config.train.epochs) *
         (session::ModelOfConfig(config, data).model().flops_per_example() + kFlopsOfStep * batches);
}

}  // namespace

search::TrialWork work_of_trials(const search::SearchSettings& settings, const search::Space& space,
                                 const ConfigText& text, const models::ModelKinds& models,
                                 const data::DatasetInfo& data) {
  const bool may_end_early = settings.has_target || settings.stop_after_seconds > 0 || settings.median_rule;
  if (may_end_early || std::ranges::none_of(space.parameters(), makes_longer)) return {};
  const auto known =
      std::make_shared<std::map<search::Point, double>>();  // the searches of all outer folds have the same points
  return [&space, &text, &models, &data, known](const search::Point& point) {
    const auto [found, is_new] = known->try_emplace(point, 0);
    if (!is_new) return found->second;
    try {
      found->second = work_of(trials::config_at(text, space.at(point), models), data);
    } catch (const ConfigError&) {  // the trial ends at once with this reason
    }
    return found->second;
  };
}

}  // namespace unisono::jobs
