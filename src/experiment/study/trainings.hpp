#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "study/measure.hpp"
#include "study/plan.hpp"
#include "study/record.hpp"
#include "unisono/experiment/run.hpp"

namespace unisono::experiment {

/// Makes a study's trainings one after the other, and measures each. While some ranks train, the others sleep.
class StudyTrainings {
 public:
  /// Is given each finished training on rank 0.
  using Finished = std::function<void(const StudyTraining& training, const StudyRecord& record)>;

  /// Collective. \param records of earlier trainings, on rank 0 \param log of the trainings
  StudyTrainings(Job& job, const StudyPlan& plan, std::vector<StudyRecord> records, Log& log);

  /// Makes what is missing. Collective. \return whether all are made; false: a signal came
  bool make(const Finished& finished);
  /// On rank 0: all that were made.
  const std::vector<StudyRecord>& records() const { return records_; }

 private:
  bool train(const StudyTraining& training, const Finished& finished);
  RunResult run_on(comm::Communicator& group, const StudyTraining& training, bool goes_on);
  StudyRecord record_of(const StudyTraining& training, const RunResult& result);
  void compare(const StudyTraining& training, MeasuredModel model, StudyRecord& record);
  const StudyRecord* find(const Way& way, std::int64_t seed) const;
  const MeasuredModel* serial(std::int64_t seed);

  Job& job_;
  const StudyPlan& plan_;
  Log& log_;
  std::vector<StudyRecord> records_;
  std::map<int, comm::Communicator*> groups_;      ///< of the first so many ranks; elsewhere: of the others
  std::map<std::int64_t, MeasuredModel> serials_;  ///< of the first seed and of the present one
};

}  // namespace unisono::experiment
