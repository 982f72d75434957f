#include "watch.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include "page.hpp"
#include "sections.hpp"
#include "unisono/base/clock.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/printable.hpp"
#include "unisono/models/model.hpp"
#include "unisono/records/journal.hpp"
#include "unisono/records/metrics_log.hpp"
#include "unisono/records/progress.hpp"
#include "unisono/records/run_folder.hpp"
#include "unisono/report/report.hpp"
#include "unisono/trials/study_plan.hpp"

namespace unisono::report {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBarWidth = 30, kCurveWidth = 32, kReportsOfSpeed = 5;
constexpr double kSilentSeconds = 60;  // after these a run that no process of this machine makes counts as ended

double number_of(const RunHistory& run, const std::string& key) {
  const auto found = run.record.config.find(key);
  return found == run.record.config.end() ? 0 : std::atof(found->second.c_str());
}

std::string progress_line(const RunHistory& run) {
  const double planned = planned_steps(run);
  std::string text = planned > 0 ? progress_bar(static_cast<double>(run.record.steps) / planned) + "  " : "";
  const double steps = number_of(run, "train.steps");
  const std::string epochs = steps > 0 ? "" : fmt::format("/{:.0f}", number_of(run, "train.epochs"));
  text += fmt::format("epoch {}{}  step {}", run.record.epochs, epochs, grouped(run.record.steps));
  return planned > 0 ? text + "/" + grouped(std::llround(planned)) : text;
}

/// "train loss       0.3246  ▇▅▃▂▁"
void add_curve(const RunHistory& run, const std::string& name, const std::string& words, std::string& text) {
  const Curve& curve = run.curve(name);
  if (curve.empty()) return;
  text += fmt::format("  {:<26} {:>9}  {}\n", words, number_text(curve.values.back()),
                      sparkline(curve.values, kCurveWidth));
}

/// Whether smaller values of a metric are better ones.
bool is_error(const std::string& metric) {
  return models::is_metric(metric) && !models::metric_of(metric, 0).larger_is_better;
}

/// The best evaluation by the metric that the best checkpoint is chosen by.
std::string best_text(const RunHistory& run) {
  const std::string on = run.setting("checkpoint.best.on");
  std::string metric = run.setting("checkpoint.best.metric");
  if (metric == "auto") metric = run.curve(on + " accuracy").empty() ? "loss" : "accuracy";
  std::vector<models::Metric> metrics;
  for (const std::string& name : run.metrics()) metrics.push_back({.name = name});
  if (const auto* const found = models::find_metric(metrics, records::split_and_metric(metric).second)) {
    metric = found->name;
  }
  const Curve& curve = run.curve(on + " " + metric);
  if (on == "train" || curve.empty()) return "";
  const bool error = is_error(metric);
  const auto best = std::max_element(curve.values.begin(), curve.values.end(), [&](double a, double b) {
    if (!std::isfinite(a) || !std::isfinite(b)) return !std::isfinite(a) && std::isfinite(b);
    return error ? a > b : a < b;
  });
  const double step = curve.steps[static_cast<std::size_t>(best - curve.values.begin())];
  return fmt::format("  best {:<21} {:>9}  at step {}\n", on + " " + words_of(metric), number_text(*best),
                     grouped(std::llround(step)));
}

std::string speed_text(const RunHistory& run, bool running) {
  std::string text = fmt::format("  {:<26} {:>9}", "examples/s", records::rate_text(run.record.examples_per_second));
  const double left = seconds_left(run);
  if (running && left >= 0) text += fmt::format("  {} left", records::clock_text(left));
  return text + "\n";
}

std::size_t width_of_terminal() {
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20;
  return known ? size.ws_col : 100;
}

/// Seconds since a file was written to.
double silence(const std::string& path) {
  std::error_code error;
  const auto written = fs::last_write_time(path, error);
  if (error) return 0;
  return std::chrono::duration<double>(fs::file_time_type::clock::now() - written).count();
}

/// What is shown, and whether nothing more is to be expected.
struct Look {
  std::string picture;
  bool has_ended = false;
};

/// \param file that grows: what happens on another machine is seen by it alone
bool has_ended(const std::string& status, const std::string& file) {
  return status != "running" && (status != "unfinished" || silence(file) > kSilentSeconds);
}

Look look_at(const std::string& folder, const models::ModelKinds& models) try {
  const std::string journal = records::trial_journal_of(folder);
  const records::FolderOwner owner = records::owner_of(folder);
  if (owner == records::FolderOwner::search) {
    const SearchHistory search = read_search(folder, models);
    return {picture_of(search), has_ended(search.job.status, journal)};
  }
  if (owner == records::FolderOwner::cross_validation) {
    const ValidationHistory validation = read_validation(folder);
    return {picture_of(validation), has_ended(validation.job.status, journal)};
  }
  if (owner == records::FolderOwner::study) {
    std::error_code ignored;
    const std::string file = records::study_journal_of(folder);
    const std::string status = records::is_locked(file)                      ? "running"
                               : fs::exists(folder + "/study.json", ignored) ? "complete"
                                                                             : "unfinished";
    return {picture_of_study(folder, status), has_ended(status, file)};
  }
  const RunHistory run = read_history(folder);
  return {picture_of(run), has_ended(run.record.status, folder + "/metrics.jsonl")};
} catch (const nlohmann::json::exception& error) {
  throw CheckpointError(fmt::format("{}: one of its JSON files is damaged: {}", folder, error.what()));
}

/// Draws pictures over each other on a terminal, and below each other elsewhere.
class Screen {
 public:
  explicit Screen(bool redraws) : redraws_(redraws && ::isatty(STDOUT_FILENO) == 1) {}

  void show(const std::string& picture) {
    if (picture == shown_) return;
    if (redraws_ && !shown_.empty()) {
      fmt::print("\x1b[{}A\x1b[J", std::count(shown_.begin(), shown_.end(), '\n'));
    }
    fmt::print("{}", printable(picture));
    std::fflush(stdout);
    shown_ = picture;
  }

 private:
  bool redraws_;
  std::string shown_;
};

/// A line of at most so many characters, which a terminal does not break: "a line that is too lo…".
std::string cut(const std::string& line, std::size_t width) {
  std::size_t characters = 0, last = 0;  // where the last character that fits begins
  for (std::size_t i = 0; i < line.size(); ++i) {
    if ((static_cast<unsigned char>(line[i]) & 0xC0U) == 0x80U) continue;
    if (++characters > width) return line.substr(0, last) + "…";
    last = i;
  }
  return line;
}

/// Each line so.
std::string cut_lines(const std::string& text, std::size_t width) {
  std::string lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    lines += cut(text.substr(begin, end - begin), width) + "\n";
    begin = end + 1;
  }
  return lines;
}

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

std::string progress_bar(double done) {
  const auto filled = static_cast<std::size_t>(std::clamp(done, 0.0, 1.0) * kBarWidth);
  return fmt::format("[{:<{}}] {:3.0f} %", std::string(filled, '='), kBarWidth, 100 * done);
}

std::string sparkline(const std::vector<double>& values, std::size_t width) {
  constexpr std::array<const char*, 8> kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  plot::Span span;
  span.add(values);
  if (values.size() < 2 || !span.range()) return "";
  const auto [least, largest] = *span.range();
  const std::size_t columns = std::min(width, values.size());
  std::string text;
  for (std::size_t column = 0; column < columns; ++column) {
    const double value = values[(column + 1) * values.size() / columns - 1];
    if (!std::isfinite(value)) {
      text += " ";
      continue;
    }
    const double height = largest > least ? (value - least) / (largest - least) : 0;
    text += kBlocks[std::min<std::size_t>(7, static_cast<std::size_t>(8 * height))];
  }
  return text;
}

double planned_steps(const RunHistory& run) {
  const double steps = number_of(run, "train.steps");
  return steps > 0 ? steps : number_of(run, "train.epochs") * run.steps_per_epoch;
}

double seconds_left(const RunHistory& run) {
  const Curve& seconds = run.curve("train seconds.total");
  const std::size_t reports = seconds.steps.size();
  if (planned_steps(run) <= 0 || reports == 0) return -1;
  // The reports after the one that is some reports back: their steps, and the seconds that these took.
  const std::size_t first = reports > kReportsOfSpeed ? reports - kReportsOfSpeed : 0;
  const double steps = seconds.steps.back() - (first == 0 ? 0 : seconds.steps[first - 1]);
  double sum = 0;
  for (std::size_t i = first; i < reports; ++i) sum += std::isfinite(seconds.values[i]) ? seconds.values[i] : 0;
  const double left = planned_steps(run) - static_cast<double>(run.record.steps);
  return steps > 0 ? std::max(0.0, left) * sum / steps : -1;
}

std::string picture_of(const RunHistory& run) {
  std::string text = fmt::format("{}: {}\n  {}\n", on_one_line(run.name()), run.record.status, progress_line(run));
  for (const std::string& metric : run.metrics()) {
    for (const std::string split : {"train ", "validation ", "test "})
      add_curve(run, split + metric, words_of(split + metric), text);
  }
  for (const CounterCurve& one : counter_curves(run)) add_curve(run, one.curve, one.words, text);
  return text + best_text(run) + speed_text(run, run.record.status == "running");
}

void watch(const WatchOptions& options) {
  std::string folder = options.folder;
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  Screen screen(!options.once);
  while (true) {
    const Stopwatch watch;
    const Look look = look_at(folder, options.models);
    screen.show(cut_lines(look.picture, width_of_terminal() - 1));
    if (options.once || look.has_ended) return;
    // Long histories take time to read: no more than a tenth of this process's.
    std::this_thread::sleep_for(std::chrono::duration<double>(std::max(options.every_seconds, 9 * watch.seconds())));
  }
}

std::string picture_of(const SearchHistory& search) {
  const TrialsHistory& job = search.job;
  const std::int64_t all = search.plan->method().trials(), ended = ended_trials(search);
  const double left = job.status == "running" ? seconds_left(search) : -1;
  // Where trials are trained in steps, how many have ended says little about how much is left.
  const bool by_time = search.is_in_steps() && left >= 0 && job.ended() > 0;
  double done = static_cast<double>(ended) / static_cast<double>(std::max<std::int64_t>(1, all));
  if (by_time) done = job.seconds / std::max(1e-9, job.seconds + left);
  std::string text = fmt::format("{}: {}, {}\n", on_one_line(job.name()), job.status,
                                 name_of(search.settings().method, search::kSearchKinds));
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

namespace {

/// What the journal of a study says of it.
struct StudyCourse {
  std::string metric;
  nlohmann::json trainings = nlohmann::json::array();            ///< planned; of older versions nothing
  std::map<std::string, std::map<std::int64_t, double>> values;  ///< by variant and seed; NaN: it diverged
  std::int64_t diverged = 0;

  bool has(const nlohmann::json& training) const {
    const auto found = values.find(training.at("identity").get<std::string>());
    return found != values.end() && found->second.contains(training.at("seed").get<std::int64_t>());
  }
};

StudyCourse read_course(const std::string& folder) {
  StudyCourse study;
  for (const nlohmann::json& entry : records::read_journal(records::study_journal_of(folder))) {
    const std::string event = entry.value("event", "");
    if (event == "plan") {
      study.metric = entry.at("metric");
      study.trainings = entry.at("trainings");
    } else if (event == "training") {
      const trials::StudyRecord record = trials::study_record_from(entry.at("record"));
      study.values[record.variant][record.seed] = record.diverged ? std::nan("") : record.value;
      if (record.diverged) ++study.diverged;
    }
  }
  return study;
}

std::string mean_text(const std::map<std::int64_t, double>& values) {
  double sum = 0;
  std::int64_t count = 0;
  for (const auto& [seed, value] : values) {
    if (!std::isfinite(value)) continue;
    sum += value;
    ++count;
  }
  if (count == 0) return fmt::format("{:>9}", "–");
  return fmt::format("{:>9}  mean of {}", number_text(sum / static_cast<double>(count)), count_of(count, "seed"));
}

/// The trainings that run, with their courses.
std::string running_lines(const StudyCourse& study, const std::string& folder) {
  std::string lines;
  for (const nlohmann::json& training : study.trainings) {
    const std::string run = folder + "/" + training.at("folder").get<std::string>();
    if (study.has(training) || !records::is_locked(run + "/.lock")) continue;
    lines += fmt::format("  {}, seed {}: {}\n", training.at("variant").get<std::string>(),
                         training.at("seed").get<std::int64_t>(), course_of(run));
  }
  return lines;
}

}  // namespace

std::string picture_of_study(const std::string& folder, const std::string& status) {
  const StudyCourse study = read_course(folder);
  const auto planned = std::ssize(study.trainings);
  const auto ended = std::ranges::count_if(study.trainings, [&](const auto& training) { return study.has(training); });
  std::string text = fmt::format("{}: {}\n", on_one_line(folder), status);
  if (planned == 0) return text;
  text +=
      fmt::format("  {}  trainings {}/{}{}\n", progress_bar(static_cast<double>(ended) / static_cast<double>(planned)),
                  grouped(ended), grouped(planned),
                  study.diverged > 0 ? fmt::format("  {} diverged", grouped(study.diverged)) : "");
  text += fmt::format("  {}\n", study.metric);
  std::set<std::string> shown;
  for (const nlohmann::json& training : study.trainings) {
    const auto identity = training.at("identity").get<std::string>();
    const auto values = study.values.find(identity);
    if (!shown.insert(identity).second || values == study.values.end()) continue;
    text += fmt::format("    {:<36} {}\n", training.at("variant").get<std::string>(), mean_text(values->second));
  }
  return text + running_lines(study, folder);
}

std::string picture_of(const ValidationHistory& validation) {
  const TrialsHistory& job = validation.job;
  const auto ended = std::ssize(validation.folds);
  const double done = static_cast<double>(ended) / static_cast<double>(std::max<std::int64_t>(1, job.folds));
  std::string text = fmt::format("{}: {}\n  {}  folds {}/{}", on_one_line(job.name()), job.status, progress_bar(done),
                                 grouped(ended), grouped(job.folds));
  if (job.running() > 0) text += fmt::format("  {} running", job.running());
  text += "\n";
  for (const FoldFigures& one : validation.figures) {
    const bool is_partial = one.folds < static_cast<double>(ended);
    text += fmt::format("  {:<24} {:>9}  {}{}\n", "mean " + words_of(one.name), number_text(one.interval.mean),
                        sparkline(validation.values(one.name), kTrialCurveWidth),
                        is_partial ? fmt::format("  of {} of {} folds", number_text(one.folds), ended) : "");
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
