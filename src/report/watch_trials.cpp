#include "watch_trials.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "texts.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/text.hpp"
#include "unisono/records/progress.hpp"
#include "unisono/records/run_record.hpp"
#include "watch.hpp"

namespace unisono::report {
namespace {

constexpr std::size_t kTrialCurveWidth = 32, kMostRunning = 16;

/// "optimizer.learning_rate = 0.05, train.batch_size = 32"
std::string settings_text(const SearchHistory& search, std::int64_t trial) {
  std::string text;
  for (const auto& [key, value] : search.settings_of(trial)) {
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", key, value);
  }
  return text;
}

/// "epoch 3, loss 0.21" of a run folder, as far as it has one.
std::string course_of(const std::string& folder) {
  try {
    const records::RunRecord run = records::read_run(folder);
    if (run.steps == 0) return "";
    const auto loss = run.metrics.find("train loss");
    std::string text = fmt::format("epoch {}", run.epochs);
    if (loss != run.metrics.end()) text += fmt::format(", loss {}", number_text(loss->second));
    return text;
  } catch (const Error&) {
    return "";  // it has just begun, or keeps nothing
  }
}

std::string running_lines(const TrialsHistory& job, const auto& what, const auto& course) {
  std::string lines;
  std::size_t shown = 0;
  for (const TrainingSpan& span : job.trainings) {
    if (!span.is_running) continue;
    if (++shown > kMostRunning) continue;
    lines += fmt::format("  {:<24} {:>9}  {}\n", what(span.training), records::clock_text(span.end - span.start),
                         course(span.training));
  }
  if (shown > kMostRunning) lines += fmt::format("  and {} more\n", shown - kMostRunning);
  return lines;
}

std::string time_line(const TrialsHistory& job, double left) {
  std::string text = fmt::format("  {:<24} {:>9}", "time", records::clock_text(job.seconds));
  if (job.status == "running" && left >= 0 && job.ended() > 0)
    text += fmt::format("  {} left", records::clock_text(left));
  return text + "\n";
}

std::int64_t failed_trials(const SearchHistory& search) {
  return std::count_if(search.plan->trials().begin(), search.plan->trials().end(), [](const auto& trial) {
    return trial.second.has_ended && trial.second.status != records::TrialStatus::complete;
  });
}

/// Trials that have come to an end; of searches in steps, of those that have begun.
std::int64_t ended_trials(const SearchHistory& search) {
  return std::count_if(search.plan->trials().begin(), search.plan->trials().end(),
                       [](const auto& trial) { return trial.second.has_ended; });
}

std::string best_lines(const SearchHistory& search) {
  std::vector<double> course;
  for (const StepEnd& step : search.steps) {
    double best = course.empty() ? std::nan("") : course.back();
    if (!std::isnan(step.value) && (std::isnan(best) || search.is_better(step.value, best))) best = step.value;
    course.push_back(best);
  }
  const auto best = search.plan->best();
  if (!best) return "";
  return fmt::format("  {:<24} {:>9}  trial {}  {}\n    {}\n", "best " + words_of(search.metric),
                     number_text(search.value(*best)), *best, sparkline(course, kTrialCurveWidth),
                     settings_text(search, *best));
}

}  // namespace

std::string picture_of(const SearchHistory& search) {
  const TrialsHistory& job = search.job;
  const std::int64_t all = search.plan->method().trials(), ended = ended_trials(search);
  const double left = job.status == "running" ? seconds_left(search) : -1;
  // Where trials are trained in steps, how many have ended says little about how much is left.
  const bool by_time = search.is_in_steps() && left >= 0 && job.ended() > 0;
  double done = static_cast<double>(ended) / static_cast<double>(std::max<std::int64_t>(1, all));
  if (by_time) done = job.seconds / std::max(1e-9, job.seconds + left);
  std::string text =
      fmt::format("{}: {}, {}\n", job.name(), job.status, name_of(search.settings().method, search::kSearchKinds));
  text += fmt::format("  {}  trials {}/{}", progress_bar(done), grouped(ended), grouped(all));
  if (job.running() > 0) text += fmt::format("  {} running", job.running());
  if (const std::int64_t failed = failed_trials(search); failed > 0)
    text += fmt::format("  {} failed", grouped(failed));
  text += "\n" + best_lines(search);
  text += running_lines(
      job, [](const records::TrialRun& training) { return training.text(); },
      [&](const records::TrialRun& training) {
        const std::string course = course_of(search.folder_of(training));
        return course + (course.empty() ? "" : "  ") + settings_text(search, training.trial);
      });
  return text + time_line(job, left);
}

std::string picture_of(const ValidationHistory& validation) {
  const TrialsHistory& job = validation.job;
  const auto ended = std::ssize(validation.folds);
  const double done = static_cast<double>(ended) / static_cast<double>(std::max<std::int64_t>(1, job.folds));
  std::string text = fmt::format("{}: {}\n  {}  folds {}/{}", job.name(), job.status, progress_bar(done),
                                 grouped(ended), grouped(job.folds));
  if (job.running() > 0) text += fmt::format("  {} running", job.running());
  text += "\n";
  for (const FoldFigures& one : validation.figures) {
    text += fmt::format("  {:<24} {:>9}  {}\n", "mean " + words_of(one.name), number_text(one.interval.mean),
                        sparkline(validation.values(one.name), kTrialCurveWidth));
  }
  text += running_lines(
      job,
      [](const records::TrialRun& training) {
        if (training.is_nested()) return training.text();
        return training.refit ? std::string("all examples") : fmt::format("fold {}", training.fold);
      },
      [](const records::TrialRun&) { return ""; });
  return text + time_line(job, seconds_left(job));
}

}  // namespace unisono::report
