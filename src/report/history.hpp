#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "unisono/records/run_record.hpp"

namespace unisono::report {

/// A figure over a run's steps.
struct Curve {
  std::vector<double> steps, values;  ///< NaN where a value is not finite

  bool empty() const { return steps.empty(); }
};

/// All that a run's folder tells about its course.
struct RunHistory {
  records::RunRecord record;
  std::string config;              ///< the text of config.toml
  std::string log;                 ///< log.txt, or its last part
  nlohmann::ordered_json summary;  ///< of the last time that the run ended; an empty object before that
  /// Every number of metrics.jsonl: "train loss", "train seconds.compute" of reports, "validation accuracy" of
  /// evaluations.
  std::map<std::string, Curve> curves;
  double steps_per_epoch = 0;  ///< 0: not known yet

  /// The empty curve where there is none of this name.
  const Curve& curve(const std::string& name) const;
  /// Names of the model's metrics that there are curves of, losses first: "loss", "accuracy".
  std::vector<std::string> metrics() const;
  /// Epochs that these steps are; the steps themselves where it is not known how many an epoch has.
  std::vector<double> epochs_of(const std::vector<double>& steps) const;
  /// The last part of the folder's name, or what the config calls the run.
  std::string name() const;
};

/// \throws CheckpointError saying what is wrong with the folder
RunHistory read_history(const std::string& folder);

}  // namespace unisono::report
