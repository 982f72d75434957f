#include "run/summary.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>
#include <string_view>

#include "unisono/base/errors.hpp"
#include "unisono/base/printable.hpp"
#include "unisono/models/factory.hpp"
#include "unisono/optim/catalog.hpp"
#include "unisono/parallel/counters.hpp"
#include "unisono/records/metrics_log.hpp"
#include "unisono/records/progress.hpp"
#include "unisono/session/evaluation.hpp"
#include "unisono/session/model_parts.hpp"
#include "unisono/session/run_checks.hpp"
#include "unisono/session/stage_report.hpp"

namespace unisono::session {
namespace {

/// The strategy's advice on how to reduce communication.
std::string relief_of(const settings::Config& config) {
  return kind_of(config.strategy).relief(config.strategy, models::has_in_place_kind(config.model));
}

std::string advice_on_messages(const settings::Config& config) {
  if (optim::traits_of(config.optimizer).alternating) {
    return "ranks waited for rows of the tables: fewer ranks with more threads each send fewer of them";
  }
  return fmt::format("{}: {}", kind_of(config.strategy).waiting, relief_of(config));
}

/// What to do where a part of the time is large; empty for compute and the rest.
std::string advice_on(double Seconds::*part, bool resident, const settings::Config& config) {
  if (part == &Seconds::exposed_communication) return advice_on_messages(config);
  if (part == &Seconds::straggler_wait) {
    return "ranks waited for slower ones: look for other load on their nodes, or ranks that share cores";
  }
  if (part == &Seconds::bubble) {
    return "stages waited for each other: more micro-batches (train.micro_batches), another replica.schedule, or "
           "stages of more equal cost (replica.placement) would help";
  }
  if (part == &Seconds::input) {
    return resident
               ? "ranks waited for batches to be prepared: less augmentation, features that are stored as they are "
                 "needed, or more cores would help"
               : "ranks waited for data: larger chunks, a faster disk, or data.reader = \"resident\" would help";
  }
  if (part == &Seconds::optimizer) {
    return config.whole_batch()
               ? "the method's vectors take long compared with the passes: more ranks share them, and a smaller "
                 "optimizer.history (lbfgs) has fewer"
               : "the update takes long compared with the gradient: use a larger train.batch_size";
  }
  if (part == &Seconds::evaluation) {
    return "evaluations take long: evaluate less often (train.evaluate_every_epochs)";
  }
  if (part == &Seconds::checkpoint) {
    return "writing checkpoints takes long: write them less often (checkpoint.every_epochs)";
  }
  return "";
}

std::string metrics_text(const std::string& name, const std::vector<models::Metric>& metrics) {
  std::string text = name;
  for (const models::Metric& metric : metrics) {
    if (metric.shown) text += fmt::format(" {} {}", metric.name, records::metric_text(metric.value, 4));
  }
  return text;
}

std::string result_line(const Summary& summary) {
  std::vector<std::string> parts;
  if (summary.steps > 0) parts.push_back(metrics_text("train", summary.train));
  for (const auto& [split, metrics] : summary.evaluations) {
    parts.push_back(metrics_text(std::string(data::name_of(split)), metrics));
  }
  return parts.empty() ? "none: there are neither training steps nor examples to test with"
                       : fmt::format("{}", fmt::join(parts, "; "));
}

std::string speed_line(const Summary& summary) {
  if (summary.steps == 0) return "";
  const double speed = summary.examples_per_second();
  return fmt::format("  speed       {}, {:.1f} GFLOP/s\n", records::speed_text(speed, summary.tokens_per_example),
                     speed * summary.flops_per_example * 1e-9);
}

std::string unseen_lines(const Summary& summary) {
  std::string lines;
  for (const std::string& text : summary.unseen_texts) lines += fmt::format("  unknown     {}\n", on_one_line(text));
  return lines;
}

std::string time_line(const Seconds& seconds) {
  std::string text;
  for (const SecondsPart& part : kSecondsParts) {
    const double share = seconds.*part.value / std::max(seconds.sum(), 1e-9);
    if (share < 0.0005) continue;
    text += fmt::format("{}{} {:.1f} %", text.empty() ? "" : ", ", words_of(part.name), 100 * share);
  }
  return text;
}

/// Advice on the largest part of the time that is not computation, if it is at least a tenth. Not for very short runs,
/// where a checkpoint may take most of the time.
std::string advice_line(const Seconds& seconds, bool resident, const settings::Config& config) {
  if (config.strategy.replayed_workers > 0) return "";  // a replay cannot be changed
  if (seconds.sum() < 5) return "";
  double largest = 0;
  std::string advice;
  for (const SecondsPart& part : kSecondsParts) {
    const std::string one = advice_on(part.value, resident, config);
    if (one.empty() || seconds.*part.value <= largest) continue;
    largest = seconds.*part.value;
    advice = one;
  }
  return largest < 0.1 * seconds.sum() ? "" : fmt::format("  advice      {}\n", advice);
}

/// Whether one of several hosts would have been faster. Not where ranks hold parts of a model, for which one host may
/// have no room, or the parameters of others, nor in very short runs.
std::string hosts_line(const Summary& summary, const settings::Config& config) {
  const bool shares_examples = config.ranks_of_replica() == 1 && summary.workers == summary.ranks;
  if (!shares_examples || config.strategy.replayed_workers > 0 || summary.seconds.sum() < 5) return "";
  const std::string advice = advice_on_hosts(summary.seconds, summary.hosts);
  return advice.empty() ? "" : fmt::format("  hosts       {}\n", advice);
}

/// What the strategy and others count, and the units of these figures.
void add_counters(const Summary& summary, const settings::Config& config, nlohmann::ordered_json& json) {
  const int threads = summary.threads * summary.workers * config.ranks_of_replica();
  if (threads > 1) json["examples_per_second_and_thread"] = summary.examples_per_second() / threads;
  json.update(records::to_json(summary.counters, Shown::in_summary), /*merge_objects=*/true);
  json["counters"] = records::units_json(summary.counters, Shown::in_summary);
}

PipelineFigures figures_of(const Summary& summary, const settings::Config& config) {
  return pipeline_figures(config, summary.workers,
                          {.seconds = summary.seconds,
                           .boundary_bytes = summary.counters.get<parallel::PipelineCounters>().boundary_bytes,
                           .steps = summary.steps - summary.resumed_at_step});
}

/// A replay cannot be changed, so there is no advice on it.
CounterTerms terms_of(const Summary& summary, const settings::Config& config) {
  return {.ranks = summary.ranks,
          .epochs = summary.epochs_made,
          .relief = config.strategy.replayed_workers > 0 ? "" : relief_of(config)};
}

}  // namespace

std::string_view name_of(Ending ending) {
  switch (ending) {
    case Ending::complete:
      return "complete";
    case Ending::converged:
      return "converged";
    case Ending::interrupted:
      return "interrupted";
    case Ending::diverged:
      return "diverged";
  }
  return {};
}

std::string place_text(std::int64_t step, std::int64_t steps_per_epoch) {
  if (step % steps_per_epoch == 0) return fmt::format("epoch {}", step / steps_per_epoch);
  return "step " + grouped(step);
}

std::string ending_text(const Summary& summary) {
  if (summary.stopped_early) {
    return fmt::format("complete, stopped early with the weights of {},",
                       place_text(summary.kept_step(), summary.steps_per_epoch));
  }
  return std::string(name_of(summary.ending));
}

nlohmann::ordered_json settings_json(const settings::Config& config) {
  const settings::EarlyStoppingSettings& stopping = config.train.early_stopping;
  return {{"metric", stopping.metric},
          {"on", data::name_of(stopping.on)},
          {"patience", stopping.patience},
          {"min_delta", stopping.min_delta},
          {"best_metric", config.checkpoint.best.metric},
          {"best_on", data::name_of(config.checkpoint.best.on)}};
}

/// The epochs that so many steps are: 3, or 1.25.
nlohmann::ordered_json epochs_json(std::int64_t steps, std::int64_t steps_per_epoch) {
  if (steps % steps_per_epoch == 0) return steps / steps_per_epoch;
  return static_cast<double>(steps) / static_cast<double>(steps_per_epoch);
}

/// The best checkpoint, and whether the run ended with it.
void add_best(const Summary& summary, const settings::Config& config, nlohmann::ordered_json& json) {
  const BestEvaluation& best = summary.best;
  const nlohmann::ordered_json epoch = epochs_json(summary.kept_step(), summary.steps_per_epoch);
  if (!best.criterion.empty())
    json["best"] = {{"metric", best.criterion}, {"value", best.value}, {"step", best.step}, {"epoch", epoch}};
  if (!summary.stopped_early) return;
  json["stopped_early"] = {{"step", summary.steps},
                           {"epoch", summary.epochs},
                           {"weights_of_step", summary.kept_step()},
                           {"weights_of_epoch", epoch},
                           {"by", settings_json(config)}};
}

std::string threshold_text(const Summary& summary, const settings::Config& config) {
  if (!summary.threshold) return "";
  return fmt::format(
      "  threshold   {:.4g}: from this output on, the second class is predicted (validation {} {:.4g})\n",
      summary.threshold->threshold, config.train.threshold_by, summary.threshold->value);
}

/// "569, 4 and 3 steps, on 2000, 128 and 96 different examples"
std::string workers_text(const Summary& summary) {
  if (summary.worker_steps.empty()) return "";
  const auto list = [](const std::vector<std::int64_t>& numbers) {
    constexpr std::size_t kMost = 16;
    if (numbers.size() > kMost) {
      const auto [least, most] = std::ranges::minmax(numbers);
      return fmt::format("{} to {}", grouped(least), grouped(most));
    }
    std::vector<std::string> texts;
    for (const std::int64_t number : numbers) texts.push_back(grouped(number));
    return unisono::all_of({texts.begin(), texts.end()});
  };
  std::string text = fmt::format("  workers     {} steps", list(summary.worker_steps));
  if (!summary.worker_examples.empty())
    text += fmt::format(", on {} different examples", list(summary.worker_examples));
  return text + "\n";
}

nlohmann::ordered_json choices_json(const std::vector<Choice>& choices, const settings::Config& config) {
  auto json = nlohmann::ordered_json::array();
  const std::string effective = choices.empty() ? "" : settings::effective_config(config);
  for (const Choice& choice : choices) {
    const std::string value = settings::value_of_key(effective, choice.key);  // numbers, texts and lists are as in JSON
    json.push_back({{"key", choice.key},
                    {"value", nlohmann::ordered_json::parse(value, nullptr, /*allow_exceptions=*/false)},
                    {"by", name_of(choice.by)},
                    {"why", choice.why}});
  }
  return json;
}

double Summary::examples_per_second() const {
  const double training = seconds.sum() - seconds.evaluation - seconds.checkpoint;
  return static_cast<double>(examples) / std::max(training, 1e-9);
}

nlohmann::ordered_json to_json(const Summary& summary, const settings::Config& config) {
  nlohmann::ordered_json json = {
      {"name", config.name},
      {"status", name_of(summary.ending)},
      {"strategy", config.strategy.kind},
      {"ranks", summary.ranks},
      {"hosts", summary.hosts.count},
      {"threads", summary.threads},
      {"batch_size", config.train.batch_size},
      {"batch_size_per_rank", static_cast<double>(config.train.batch_size) / summary.workers},
      {"batch_statistics", summary.batch_statistics},
      {"parameters", summary.parameters},
      {"epochs", summary.epochs},
      {"steps", summary.steps},
      {"resumed_at_step", summary.resumed_at_step},
      {"train", records::to_json(summary.train)}};
  for (const auto& [split, metrics] : summary.evaluations)
    json[std::string(data::name_of(split))] = records::to_json(metrics);
  for (const auto& [split, unseen] : summary.unseen)
    json["unseen"][std::string(data::name_of(split))] = to_json(unseen);
  add_best(summary, config, json);
  if (summary.threshold) {
    json["threshold"] = {{"value", summary.threshold->threshold},
                         {config.train.threshold_by, summary.threshold->value}};
  }
  if (!summary.worker_steps.empty()) json["worker_steps"] = summary.worker_steps;
  if (!summary.worker_examples.empty()) json["worker_examples"] = summary.worker_examples;
  json["examples_per_second"] = summary.examples_per_second();
  if (summary.tokens_per_example > 0) {
    json["tokens_per_second"] = summary.examples_per_second() * static_cast<double>(summary.tokens_per_example);
  }
  json["gflops_per_second"] = summary.examples_per_second() * summary.flops_per_example * 1e-9;
  if (summary.minimisation) json["minimisation"] = to_json(*summary.minimisation);
  add_counters(summary, config, json);
  if (summary.stages > 1) json["pipeline"] = to_json(figures_of(summary, config));
  if (summary.comparison) json["compared_with"] = to_json(*summary.comparison);
  if (summary.shard_bytes > 0)
    json["optimizer_state"] = {{"largest_shard_bytes", summary.shard_bytes}, {"bytes", summary.whole_state_bytes}};
  json["peak_memory_bytes"] = summary.peak_memory_bytes;
  json["seconds"] = records::to_json(summary.seconds);
  if (config.fault.is_on()) json["fault"] = config.fault.text();
  json["seed"] = config.seed;
  json["chosen"] = choices_json(summary.choices, config);
  for (const ConfigChange& change : summary.changes) {
    json["changed"].push_back(
        {{"key", change.key}, {"before", change.before}, {"after", change.after}, {"step", change.step}});
  }
  json["device"] = summary.device;
  json["hashes"] = {{"config", fmt::format("{:016x}", summary.config_hash)},
                    {"data", fmt::format("{:016x}", summary.data_identity)},
                    {"build", fmt::format("{:016x}", summary.build)}};
  return json;
}

std::string warning_on_shares(const std::vector<std::int64_t>& worker_steps) {
  if (worker_steps.empty()) return "";
  const auto least = std::ranges::min_element(worker_steps);
  const std::int64_t all = std::accumulate(worker_steps.begin(), worker_steps.end(), std::int64_t{0});
  const auto workers = std::ssize(worker_steps);
  if (2 * workers * *least >= all) return "";
  return fmt::format(
      "worker {} made {} of {}, less than half of a share of {}: the model has learnt little from this worker's "
      "examples. Give all ranks cores of equal speed of their own, or use a strategy whose ranks make equally many "
      "steps",
      least - worker_steps.begin(), grouped(*least), count_of(all, "step"), grouped(all / workers));
}

nlohmann::ordered_json summary_after(std::int64_t steps, const std::string& run_folder) {
  auto summary = records::read_summary(run_folder);
  const auto early = summary.value("stopped_early", nlohmann::ordered_json());
  const bool fits = (early.is_object() ? early.value("weights_of_step", nlohmann::ordered_json())
                                       : summary.value("steps", nlohmann::ordered_json())) == steps;
  return fits ? summary : nlohmann::ordered_json::object();
}

bool stopped_early_by(const nlohmann::ordered_json& summary, const settings::Config& config) {
  const auto early = summary.value("stopped_early", nlohmann::ordered_json());
  if (!config.train.early_stopping.is_on() || !early.is_object()) return false;
  nlohmann::ordered_json by = early.value("by", nlohmann::ordered_json());
  for (const char* key : {"on", "best_on"}) {  // older summaries have the number of a split
    const auto found = by.find(key);
    if (found == by.end() || !found->is_number_unsigned() || *found >= data::kSplits.size()) continue;
    *found = data::name_of(data::kSplits[found->get<std::size_t>()]);
  }
  return by == settings_json(config);
}

std::string_view way_on(const Summary& summary) {
  return summary.ending == Ending::interrupted && summary.in_folder ? "; continue with --resume" : "";
}

/// What a rank keeps of a sharded optimizer.
std::string shard_text(const Summary& summary) {
  if (summary.shard_bytes == 0) return "";
  return fmt::format("  optimizer   {:.3g} MB of its state in the largest rank, of {:.3g} MB\n",
                     1e-6 * static_cast<double>(summary.shard_bytes),
                     1e-6 * static_cast<double>(summary.whole_state_bytes));
}

/// "2 epochs", "1.53 epochs" where it ended within one.
std::string epochs_text(const Summary& summary) {
  if (summary.steps % summary.steps_per_epoch == 0) return count_of(summary.epochs, "epoch");
  return fmt::format("{:.3g} epochs",
                     static_cast<double>(summary.steps) / static_cast<double>(summary.steps_per_epoch));
}

std::string to_text(const Summary& summary, const settings::Config& config) {
  return fmt::format(
             "{}: {} after {}, {}, in {}{}\n"
             "  trained     {}, {} on {} × {}, a {}'s batch: {}\n"
             "  result      {}\n"
             "{}"
             "  time        {}\n",
             on_one_line(config.name), ending_text(summary), epochs_text(summary), count_of(summary.steps, "step"),
             records::clock_text(summary.seconds.sum()), way_on(summary), count_of(summary.parameters, "parameter"),
             config.strategy.kind, ranks_text(config, summary.ranks, summary.workers, summary.stages),
             count_of(summary.threads, "thread"), config.ranks_of_replica() > 1 ? "replica" : "rank",
             local_batch_text(config, summary.workers), result_line(summary), speed_line(summary),
             time_line(summary.seconds)) +
         unseen_lines(summary) + (config.fault.is_on() ? fmt::format("  fault       {}\n", config.fault.text()) : "") +
         (summary.stages > 1 ? fmt::format("  pipeline    {}\n", to_text(figures_of(summary, config))) : "") +
         threshold_text(summary, config) + (summary.minimisation ? to_text(*summary.minimisation) : "") +
         workers_text(summary) + summary.counters.text(terms_of(summary, config)) +
         (summary.comparison ? fmt::format("  compared    {}\n", to_text(*summary.comparison)) : "") +
         shard_text(summary) + advice_line(summary.seconds, summary.resident, config) + hosts_line(summary, config) +
         fmt::format("  memory      {:.0f} MiB in the largest rank",
                     static_cast<double>(summary.peak_memory_bytes) / (1 << 20)) +
         (summary.in_folder ? fmt::format("\n  folder      {}", config.run_folder()) : "");
}

namespace {

using optim::BatchEnd;

struct EndName {
  BatchEnd end;
  std::string_view name, meaning;
  std::string_view way_on;  ///< what lets a run that ended so continue
};

constexpr std::string_view kNoFurther = "no setting of this method brings it closer to the minimum";

constexpr EndName kEnds[] = {
    {BatchEnd::none, "epochs", "train.epochs iterations were made", "more train.epochs let it continue"},
    {BatchEnd::gradient, "gradient_tolerance", "no element of the gradient is larger than optimizer.gradient_tolerance",
     "a smaller optimizer.gradient_tolerance lets it continue"},
    {BatchEnd::function, "function_tolerance", "the loss changed by less than optimizer.function_tolerance",
     "a smaller optimizer.function_tolerance lets it continue"},
    {BatchEnd::passes, "passes", "optimizer.passes were made; more of them may lower the loss further",
     "more optimizer.passes let it continue"},
    {BatchEnd::no_decrease, "no_decrease",
     "no step lowers the loss by more than rounding errors; if the gradient is still large, the features' scales "
     "differ "
     "too much",
     kNoFurther},
    {BatchEnd::stalled, "stalled",
     "neither the loss nor its gradient has become smaller for many iterations: rounding errors are larger than what "
     "is "
     "left to gain",
     kNoFurther},
    {BatchEnd::constant, "constant",
     "the gradient is zero at the start: the loss does not depend on the parameters, or they are at a minimum",
     kNoFurther},
    {BatchEnd::not_finite, "not_finite", "the loss or its gradient was not finite at the start", kNoFurther}};

constexpr EndName kInterrupted = {BatchEnd::none, "interrupted", "the run was interrupted", ""};
constexpr EndName kStoppedEarly = {BatchEnd::none, "early_stopping", "train.early_stopping; the best weights are kept",
                                   "a larger train.early_stopping.patience lets it continue"};
constexpr EndName kSeparable = {
    BatchEnd::gradient, "separable",
    "all training examples are classified correctly, so that without a penalty the loss has no minimum and weights "
    "grow without end: set model.l2",
    "set model.l2, in a new run, to give the loss a minimum"};

const EndName& end_of(const Minimisation& minimisation) {
  if (minimisation.stopped_early) return kStoppedEarly;
  if (minimisation.interrupted) return kInterrupted;
  if (minimisation.separable && minimisation.last.end != BatchEnd::none) return kSeparable;
  return *std::ranges::find(kEnds, minimisation.last.end, &EndName::end);
}

}  // namespace

bool Minimisation::has_converged() const {
  return !separable && (last.end == BatchEnd::gradient || last.end == BatchEnd::function);
}

std::string Minimisation::short_of_convergence() const {
  const EndName& end = end_of(*this);
  const bool could_go_on = end.end == BatchEnd::none || end.end == BatchEnd::passes;
  const bool was_stopped = stopped_early || interrupted;
  return could_go_on && !was_stopped && !separable ? std::string(end.meaning) : "";
}

std::string Minimisation::ended_by() const { return std::string(end_of(*this).name); }

nlohmann::ordered_json to_json(const optim::BatchIteration& iteration) {
  nlohmann::ordered_json json = {{"objective", iteration.value}};
  if (iteration.gradient_magnitude >= 0) json["gradient_magnitude"] = iteration.gradient_magnitude;
  if (iteration.step_length >= 0) json["step_length"] = iteration.step_length;
  json["evaluations"] = iteration.evaluations;
  if (iteration.products > 0) json["hessian_products"] = iteration.products;
  if (iteration.hessians > 0) json["hessians"] = iteration.hessians;
  return json;
}

nlohmann::ordered_json to_json(const Minimisation& minimisation) {
  nlohmann::ordered_json json = {{"ended_by", minimisation.ended_by()}};
  if (!minimisation.stopped_early) json["objective"] = minimisation.last.value;
  const double gradient = minimisation.last.gradient_magnitude;
  if (!minimisation.stopped_early && gradient >= 0) json["gradient_magnitude"] = gradient;
  json["passes"] = minimisation.last.passes;
  return json;
}

namespace {

std::string end_in(const nlohmann::ordered_json& summary) {
  const auto found = summary.find("minimisation");
  return found == summary.end() ? std::string() : found->value("ended_by", std::string());
}

}  // namespace

bool ended_by_itself(const nlohmann::ordered_json& summary) {
  const std::string end = end_in(summary);
  return !end.empty() && end != kEnds[0].name && end != kInterrupted.name && end != kStoppedEarly.name;
}

std::string way_on(const nlohmann::ordered_json& summary) {
  const std::string end = end_in(summary);
  for (const EndName& one : {kStoppedEarly, kSeparable}) {
    if (one.name == end) return std::string(one.way_on);
  }
  const auto* const found = std::ranges::find(kEnds, end, &EndName::name);
  return std::string((found == std::end(kEnds) ? kEnds[0] : *found).way_on);
}

std::string to_text(const Minimisation& minimisation) {
  const double gradient = minimisation.last.gradient_magnitude;
  const EndName& end = end_of(minimisation);
  std::string reached;  // of the weights that are kept
  if (!minimisation.stopped_early) reached = fmt::format("objective {:.8g}, ", minimisation.last.value);
  if (!reached.empty() && gradient >= 0) reached += fmt::format("largest element of the gradient {:.3g}, ", gradient);
  std::string text = fmt::format("  minimum     {}{} passes; ended by {}: {}\n", reached, minimisation.last.passes,
                                 end.name, end.meaning);
  if (minimisation.separable && end.name == kEnds[0].name)
    text += fmt::format("              {}\n", kSeparable.meaning);
  return text;
}

}  // namespace unisono::session
