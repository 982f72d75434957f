#pragma once

#include <string>
#include <vector>

#include "unisono/data/dataset.hpp"
#include "unisono/search/space.hpp"
#include "unisono/settings/plans.hpp"
#include "unisono/trials/nested_plan.hpp"
#include "validation/folds.hpp"

namespace unisono::jobs {

/// A search within each outer fold: its trials are compared on folds of the outer fold's training examples alone, and
/// the best one is trained on all of these and measured on the outer fold, which had no part in the choice.
class NestedSearch {
 public:
  /// \param text of `planned` \param data the set. All but `planned` must outlive it. \throws ConfigError, DataError
  NestedSearch(const settings::PlannedConfig& planned, const Folds& outer, const ConfigText& text,
               const models::ModelKinds& models, const data::DatasetInfo& data);

  trials::NestedPlan& plan() { return plan_; }
  const trials::NestedPlan& plan() const { return plan_; }
  data::Fold fold_of(const records::TrialRun& training) const;
  std::vector<std::string> overrides(const records::TrialRun& training) const;
  /// What the search in an outer fold has chosen: "optimizer.learning_rate = 0.1"; empty: it is not known yet.
  std::string choice(std::int64_t outer) const;

 private:
  const Folds& outer_;
  std::int64_t seed_;
  std::vector<Folds> inner_;  ///< of the training examples of each outer fold, by their places among these
  search::Space space_;
  trials::NestedPlan plan_;
};

}  // namespace unisono::jobs
