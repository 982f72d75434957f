#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "study/measure.hpp"
#include "unisono/session/run.hpp"
#include "unisono/trials/study_plan.hpp"
#include "unisono/trials/study_record.hpp"

namespace unisono::jobs {

/// Makes a study's trainings one after the other, and measures each. While some ranks train, the others sleep.
class StudyTrainings {
 public:
  /// Is given each finished training on rank 0.
  using Finished = std::function<void(const trials::StudyTraining& training, const trials::StudyRecord& record)>;

  /// Collective. \param records of earlier trainings, on rank 0 \param log of the trainings
  StudyTrainings(session::Job& job, const trials::StudyPlan& plan, std::vector<trials::StudyRecord> records, Log& log);

  /// Makes what is missing. Collective. \return whether all are made; false: a signal came
  bool make(const Finished& finished);
  /// On rank 0: all that were made.
  const std::vector<trials::StudyRecord>& records() const { return records_; }

 private:
  bool train(const trials::StudyTraining& training, const Finished& finished);
  session::RunResult run_on(comm::Communicator& group, const trials::StudyTraining& training, bool goes_on);
  trials::StudyRecord record_of(const trials::StudyTraining& training, const session::RunResult& result);
  void compare(const trials::StudyTraining& training, MeasuredModel model, trials::StudyRecord& record);
  const trials::StudyRecord* find(const trials::Way& way, std::int64_t seed) const;
  const MeasuredModel* serial(std::int64_t seed);

  session::Job& job_;
  const trials::StudyPlan& plan_;
  Log& log_;
  std::vector<trials::StudyRecord> records_;
  std::map<int, comm::Communicator*> groups_;      ///< of the first so many ranks; elsewhere: of the others
  std::map<std::int64_t, MeasuredModel> serials_;  ///< of the first seed and of the present one
};

}  // namespace unisono::jobs
