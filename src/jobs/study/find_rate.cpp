#include "unisono/jobs/find_rate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "unisono/base/text.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/records/metrics_log.hpp"
#include "unisono/records/run_folder.hpp"
#include "unisono/session/run.hpp"

namespace unisono::jobs {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRun = "/run";  // in the output folder, while the test is made

void require_range(const FindRateOptions& options) {
  if (!(options.lowest > 0 && options.lowest < options.highest && std::isfinite(options.highest))) {
    throw ConfigError(fmt::format("--lowest {} --highest {}: two rates above 0 are expected, the lower one first",
                                  options.lowest, options.highest));
  }
}

/// The config of the test: as many steps as the options say, if nothing stops it before, and each is reported.
settings::Config test_of(const settings::Config& given, const FindRateOptions& options, const std::string& folder) {
  if (given.whole_batch()) {
    throw ConfigError(fmt::format("optimizer.kind = \"{}\" has no learning rate: it searches along each direction",
                                  given.optimizer.kind));
  }
  settings::Config config = given;
  config.output = folder + std::string(kRun);
  config.optimizer.learning_rate = options.lowest;
  config.schedule = {};
  config.schedule.growth = std::pow(options.highest / options.lowest, 1.0 / static_cast<double>(options.steps - 1));
  config.train.epochs = std::min<std::int64_t>(options.steps, 1 << 30);  // at least a step in each; see Follower
  config.train.report_every_steps = 1;
  config.train.evaluate_every_epochs = 0;
  config.train.divergence = 0;
  config.train.early_stopping = {};
  config.checkpoint.every_epochs = config.checkpoint.every_steps = 0;
  config.checkpoint.keep_best = false;
  config.strategy.record = false;
  if (models::has_in_place_kind(given.model) && settings::updates_in_place(given)) {
    config.strategy = {};
    config.strategy.kind = kind_with(&strategies::StrategyTraits::on_one_rank);
  } else if (!traits_of(given.strategy).steps_together) {
    config.strategy = {};
  }
  return config;
}

/// Reads the losses that a run reports, while it goes on.
class Follower {
 public:
  Follower(const std::string& run, std::int64_t steps) : reader_(run), steps_(steps) {}

  /// \return whether the test is over
  bool look() {
    while (!is_over_) {
      const auto line = reader_.next();
      if (!line) break;
      take(line->fields());
    }
    return is_over_;
  }
  RateRange& range() { return range_; }

 private:
  void take(const nlohmann::ordered_json& line) {
    if (line.value("event", "") != "train" || !line.contains("learning_rate")) return;
    const auto loss = line.value("loss", nlohmann::ordered_json());
    is_over_ = add_loss(range_, line["learning_rate"], loss.is_number() ? loss.get<double>() : kNotFinite) ||
               std::ssize(range_.points) >= steps_;
  }

  static constexpr double kNotFinite = std::numeric_limits<double>::infinity();
  records::MetricsReader reader_;
  std::int64_t steps_;
  RateRange range_;
  bool is_over_ = false;
};

void clear(const std::string& folder) {
  std::error_code ignored;
  fs::remove_all(folder + std::string(kRun), ignored);
}

std::string text_of(const RateRange& range, const std::string& folder) {
  const std::string end = range.exploded
                              ? fmt::format("the loss explodes at {:.3g}", range.points.back().rate)
                              : fmt::format("the loss does not explode up to {:.3g}", range.points.back().rate);
  const std::string files = fmt::format("  files       {0}/find-rate.svg, {0}/find-rate.csv", folder);
  if (range.suggestion() == 0)
    return fmt::format("  {}, and falls at none of these rates: try a lower --lowest\n{}", end, files);
  return fmt::format(
      "  suggestion  learning_rate = {:.2g}, a tenth of the rate at which the loss is lowest ({:.2g})\n"
      "  steepest    at {:.2g} the loss falls fastest\n"
      "  limit       {}\n{}",
      range.suggestion(), range.lowest_loss_at, range.steepest_at, end, files);
}

}  // namespace

RateRange find_rate(comm::Communicator& world, const settings::Config& given, const FindRateOptions& options,
                    Log& log) {
  require_range(options);
  const std::string folder = options.output.empty() ? "rates/" + given.name : options.output;
  const settings::Config config = test_of(given, options, folder);
  log.info(fmt::format("{}: {} with learning rates from {:g} to {:g}", given.name, count_of(options.steps, "step"),
                       options.lowest, options.highest));
  if (world.is_root()) data::inspect_dataset(config.data);  // before there is a folder
  Log quiet(world.rank(), /*terminal=*/false);
  session::Job job(world, quiet, {.heeds_signals = true});
  const bool one_rank = traits_of(config.strategy).on_one_rank;
  comm::Communicator& group = job.split(!one_rank || world.is_root() ? 0 : 1, world.rank());
  if (world.is_root()) clear(folder);
  world.barrier();
  Follower follower(config.run_folder(), options.steps);
  if (!one_rank || world.is_root()) {
    session::run(job, group, config,
                 {.existing = records::Existing::overwrite, .watching = session::Watching::none, .stop = [&] {
                    return world.is_root() && follower.look();
                  }});
  }
  RateRange& range = follower.range();
  range.interrupted = world.max(job.received_signal() != 0 ? 1 : 0) != 0;
  if (range.interrupted) {
    if (world.is_root()) clear(folder);
    log.info(given.name + ": interrupted; start it again");
    return range;
  }
  if (world.is_root()) {
    if (!follower.look()) range.exploded = true;  // it diverged
    find_rates(range);
    clear(folder);
    if (range.points.empty())
      throw session::TrainingError("the loss is not finite at the lowest rate; try a lower --lowest");
    records::write_text_file(folder + "/find-rate.csv", rate_csv(range));
    records::write_text_file(folder + "/find-rate.svg", rate_picture(range, given.name));
    log.info(text_of(range, folder));
  }
  world.barrier();
  return range;
}

}  // namespace unisono::jobs
