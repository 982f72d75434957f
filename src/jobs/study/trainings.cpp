#include "study/trainings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "trials/remote_dispatcher.hpp"
#include "unisono/records/folder_owner.hpp"

namespace unisono::jobs {
namespace {

constexpr int kTag = 81;

/// Rank 0 tells all others how a training ended. Those that did not take part must not use cores until then, so they
/// sleep between their looks.
std::int64_t told_by_root(comm::Communicator& ranks, std::int64_t outcome) {
  std::array message = {outcome};
  if (ranks.is_root()) {
    for (int rank = 1; rank < ranks.size(); ++rank) ranks.send(std::as_bytes(std::span(message)), rank, kTag);
    return outcome;
  }
  const auto request = ranks.start_receive(std::as_writable_bytes(std::span(message)), 0, kTag);
  constexpr double kPauseSeconds = 2e-3;
  wait_asleep(ranks, *request, kPauseSeconds);
  return message[0];
}

}  // namespace

StudyTrainings::StudyTrainings(session::Job& job, const trials::StudyPlan& plan,
                               std::vector<trials::StudyRecord> records, Log& log)
    : job_(job), plan_(plan), log_(log), records_(std::move(records)) {
  for (const trials::StudyTraining& training : trainings_of(plan)) {
    const int ranks = training.way->ranks;
    if (groups_.contains(ranks)) continue;
    groups_[ranks] = &job.split(job.ranks().rank() < ranks ? 0 : 1, job.ranks().rank());
  }
}

bool StudyTrainings::make(const Finished& finished) {
  const std::vector<trials::StudyTraining> trainings = trainings_of(plan_);
  std::vector<std::int64_t> is_made;
  for (const auto& [way, seed] : trainings) is_made.push_back(find(*way, seed) != nullptr ? 1 : 0);
  job_.ranks().broadcast_vector(is_made);
  for (std::size_t i = 0; i < trainings.size(); ++i) {
    if (is_made[i] == 0 && !train(trainings[i], finished)) return false;
  }
  return true;
}

/// \return whether to go on
bool StudyTrainings::train(const trials::StudyTraining& training, const Finished& finished) {
  comm::Communicator& ranks = job_.ranks();
  const std::int64_t stop = ranks.max(job_.received_signal() != 0 ? 1 : 0);
  if (stop != 0) return false;
  const bool root = ranks.is_root();
  const bool goes_on =
      ranks.max(root && records::holds_run(plan_.run_folder(*training.way, training.seed)) ? 1 : 0) != 0;
  bool is_whole = true;
  if (ranks.rank() < training.way->ranks) {
    const session::RunResult result = run_on(*groups_.at(training.way->ranks), training, goes_on);
    is_whole = result.status != session::RunStatus::interrupted;
    if (root && is_whole) {
      records_.push_back(record_of(training, result));
      finished(training, records_.back());
    }
  }
  return told_by_root(ranks, is_whole ? 1 : 0) != 0;
}

session::RunResult StudyTrainings::run_on(comm::Communicator& group, const trials::StudyTraining& training,
                                          bool goes_on) {
  settings::Config config = training.way->config;
  config.seed = training.seed;
  config.output = plan_.run_folder(*training.way, training.seed);
  return run(job_, group, config,
             {.existing = goes_on ? records::Existing::resume : records::Existing::overwrite,
              .watching = session::Watching::none});
}

const trials::StudyRecord* StudyTrainings::find(const trials::Way& way, std::int64_t seed) const {
  const auto found = std::ranges::find_if(
      records_, [&](const trials::StudyRecord& record) { return record.way == way.identity && record.seed == seed; });
  return found == records_.end() ? nullptr : &*found;
}

trials::StudyRecord StudyTrainings::record_of(const trials::StudyTraining& training, const session::RunResult& result) {
  const trials::Way& way = *training.way;
  trials::StudyRecord record{.way = way.identity, .seed = training.seed, .steps = result.steps};
  if (result.status == session::RunStatus::diverged) {
    record.diverged = true;
    record.message = result.message;
    return record;
  }
  const std::string folder = plan_.run_folder(way, training.seed);
  MeasuredModel model = measure(folder, plan_.metric, plan_.optimum ? &plan_.ways.front() : nullptr, log_);
  const double examples_per_step = static_cast<double>(model.train) / static_cast<double>(result.steps_per_epoch);
  MeasuredCourse course = course_of(folder, plan_.metric, examples_per_step);
  record.value = model.value;
  record.loss = model.loss;
  record.objective = model.objective;
  record.examples = static_cast<double>(result.steps) * examples_per_step;
  record.seconds = course.seconds;
  record.curve = std::move(course.curve);
  compare(training, std::move(model), record);
  return record;
}

/// With the serial run of the same seed, and a serial run with that of the first one.
void StudyTrainings::compare(const trials::StudyTraining& training, MeasuredModel model, trials::StudyRecord& record) {
  const bool is_serial = training.way == &plan_.ways.front();
  const std::int64_t other = is_serial ? plan_.first_seed : training.seed;
  const bool is_first = is_serial && training.seed == plan_.first_seed;
  if (const MeasuredModel* reference = is_first ? nullptr : serial(other))
    record.distance = distance_between(model, *reference);
  if (!is_serial) return;
  std::erase_if(serials_, [&](const auto& one) { return one.first != plan_.first_seed; });
  serials_[training.seed] = std::move(model);
}

/// The serial run of a seed; null where it diverged, or was not made yet.
const MeasuredModel* StudyTrainings::serial(std::int64_t seed) {
  const trials::Way& way = plan_.ways.front();
  const trials::StudyRecord* record = find(way, seed);
  if (record == nullptr || record->diverged) return nullptr;
  const auto known = serials_.find(seed);
  if (known != serials_.end()) return &known->second;
  std::erase_if(serials_, [&](const auto& one) { return one.first != plan_.first_seed; });
  return &(serials_[seed] = measure(plan_.run_folder(way, seed), plan_.metric, nullptr, log_));
}

}  // namespace unisono::jobs
