#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "unisono/data/dataset.hpp"
#include "unisono/session/model_parts.hpp"
#include "unisono/settings/config.hpp"

namespace unisono::session {

/// Who decides what a config leaves open.
enum class ChosenBy { data, placement, trial, resumed_run };
/// The name of a decider: "data", "placement", "trial", "resumed run".
std::string_view name_of(ChosenBy by);

/// A decision about a key of a config. The chosen value is in the config itself.
struct Choice {
  std::string key;  ///< "train.batch_size"
  ChosenBy by;
  std::string why;
};

/// A config, and who decided what in it. Functions that decide take a Settled and return another one.
struct Settled {
  /// The config as it was asked for, without choices.
  Settled(settings::Config asked) : config(std::move(asked)) {}  // not explicit: nothing is decided yet

  /// Sets a field of `config`. A value that the field had already is no choice.
  template <typename T>
  void choose(T& field, T value, Choice choice) {
    if (field == value) return;
    field = std::move(value);
    choices.push_back(std::move(choice));
  }

  settings::Config config;
  std::vector<Choice> choices;
};

/// Fills in what a config leaves to the data, and checks settings that depend on the data. \throws ConfigError
Settled settle(Settled asked, const data::DatasetInfo& data);

/// Checks that the model's steps can be divided as the config says. \throws ConfigError if the config divides steps
/// into micro-batches although the model is updated in place
void require_divisible_steps(const settings::Config& config, const strategies::Strategy& strategy,
                             const models::Model& model);

/// Whether the config leaves the number of threads to choose_threads, for a set of this kind.
bool leaves_threads_open(const settings::Config& config, data::SetKind set);

/// Where strategy.threads = 0, and the threads of a rank train one linear model or factorization: trains a copy of the
/// model on a few thousand of the examples, with one thread and with as many as the rank may use, several times in
/// turn. More than one thread is chosen only where several are clearly faster. The run that follows is the run of a
/// config that names the number; where ranks with different numbers of cores use all their cores, the number stays 0.
/// All ranks choose the same. Collective.
Settled choose_threads(const ModelPlace& where, Settled asked, data::Dataset& data);

}  // namespace unisono::session
