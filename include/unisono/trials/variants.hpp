#pragma once

#include <optional>
#include <string>
#include <vector>

#include "unisono/settings/config.hpp"
#include "unisono/settings/study_settings.hpp"

namespace unisono::trials {

/// A variant of the training, which a study compares with the serial run, or the serial run itself.
struct Variant {
  std::string name;         ///< "averaging (period 16)"
  std::string folder;       ///< of its runs: "averaging-period-16-4-ranks"
  settings::Config config;  ///< seed and output are set for each training
  int ranks = 1;
  std::string identity;  ///< of all that decides its results and times

  int threads() const;  ///< of a rank
  int cores() const { return ranks * threads(); }
  /// "averaging (period 16), 4 ranks"
  std::string text() const;
};

/// The section [study] of a config; the defaults where it has none.
settings::StudySettings study_of(const ConfigText& text, const models::ModelKinds& models);

/// The serial run, and then the variants in the order of the config, each number of ranks and of threads on its own.
/// \param text the config, whose [study] is read \param ranks of the job
/// \throws ConfigError naming the variant
std::vector<Variant> variants_of(const ConfigText& text, const models::ModelKinds& models, int ranks);

/// The same experiment by L-BFGS, to find the minimum; nothing where its model is not linear, or the minimum is not
/// that of what is trained. \param why on return why not
std::optional<Variant> optimum_of(const Variant& serial, std::string& why);

/// By what a study compares.
struct StudyMetric {
  data::Split split = data::Split::validation;
  std::string name;
  bool larger_is_better = false;
  /// "validation accuracy"
  std::string text() const { return std::string(data::name_of(split)) + " " + name; }
};

}  // namespace unisono::trials
