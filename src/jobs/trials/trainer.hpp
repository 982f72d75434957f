#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trials/dispatcher.hpp"
#include "unisono/records/trial_run.hpp"
#include "unisono/session/job.hpp"
#include "unisono/session/run.hpp"
#include "unisono/settings/config.hpp"

namespace unisono::jobs {

/// What all trainings of a job have in common.
struct TrialTerms {
  const ConfigText& config;  ///< of which an order changes keys
  const models::ModelKinds& models;
  /// The examples of a training; empty: as the config says.
  std::function<std::optional<data::Fold>(const records::TrialRun&)> fold_of = {};
  std::string metric = "auto";  ///< the validation metric that counts
  std::int64_t threads = 1;     ///< of each rank
  double seconds = 0;           ///< a training that takes longer fails; 0: none does
  bool reports_epochs = false;  ///< whether a training may be ended after any epoch
};

/// What a config changes for a training on all examples, none of which says when to stop or which weights are the best.
inline constexpr std::array kRefitOverrides = {"data.validation_fraction=0", "train.early_stopping={}",
                                               "checkpoint.best={}"};

/// Trains for so many epochs, of a run that would have train.epochs, to which its learning rates belong. 0: for all
void take_epochs(settings::Config& config, std::int64_t epochs);

/// Makes the training that is ordered, on all ranks of a group. Collective over the group; every rank gets the same
/// result. What is wrong with the training itself is a result; other errors are thrown.
/// \param whole the job, of which the group is a part \param dispatcher the group's rank 0 asks it whether to go on;
/// null elsewhere
records::TrialResult make_trial_run(session::Job& whole, comm::Communicator& group, const TrialTerms& terms,
                                    const records::TrialTask& task, Dispatcher* dispatcher);

/// The set of a job's trainings, in memory once a node. Its construction is collective over the job.
class SharedSet {
 public:
  /// \param text of `config`; where the set's arrangement in memory depends on a seed, that is fixed in it
  SharedSet(session::Job& job, ConfigText& text, const settings::Config& config);

  const data::DatasetInfo& info() const;
  data::Dataset& set() const;
  /// The config with which trainings find this set open.
  const ConfigText& text() const { return text_; }

 private:
  ConfigText& text_;
  std::shared_ptr<session::SharedDataset> set_;
};

}  // namespace unisono::jobs
