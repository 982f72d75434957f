#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "unisono/optim/batch_method.hpp"

namespace unisono::session {

/// What a method for the whole training set reached, for metrics and the summary.
struct Minimisation {
  optim::BatchIteration last = {};  ///< the last iteration
  /// Whether the loss has no minimum: all training examples are classified correctly, and nothing holds the weights.
  bool separable = false;
  bool interrupted = false, stopped_early = false;  ///< the run, before the method ended

  bool has_converged() const;
  /// "gradient_tolerance", "epochs", "early_stopping", …
  std::string ended_by() const;
};

/// The figures of an iteration, for metrics.jsonl.
nlohmann::ordered_json to_json(const optim::BatchIteration& iteration);
/// For summary.json; the strategy's counters are added to it.
nlohmann::ordered_json to_json(const Minimisation& minimisation);
/// Whether summary.json is of a run that its method ended before train.epochs.
bool ended_by_itself(const nlohmann::ordered_json& summary);
/// What lets it continue, for such a run or one that made train.epochs iterations or stopped early.
std::string way_on(const nlohmann::ordered_json& summary);
/// Lines of the summary.
std::string to_text(const Minimisation& minimisation);

}  // namespace unisono::session
