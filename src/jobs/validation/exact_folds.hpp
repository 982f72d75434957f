#pragma once

#include <optional>
#include <string>
#include <vector>

#include "unisono/records/trial_run.hpp"
#include "unisono/settings/config.hpp"
#include "unisono/settings/cross_validation_settings.hpp"
#include "validation/least_squares.hpp"

namespace unisono::jobs {

/// The least squares that a config's model minimises; nothing where it is not one that can be solved exactly.
/// \param why on return why not
std::optional<Ridge> ridge_of(const settings::Config& config, const data::Dataset& set, std::string& why);

/// What the exact models of all folds are worth.
struct ExactFolds {
  std::vector<records::TrialResult> results;  ///< by fold: loss, rmse, mae
  std::vector<double> predictions;            ///< fold after fold
};

/// \param by_fits a fit for each fold; otherwise by the shortcut where there is one \throws DataError
ExactFolds solve_folds(const Ridge& ridge, data::Dataset& set, const Folds& folds, bool by_fits);

}  // namespace unisono::jobs
