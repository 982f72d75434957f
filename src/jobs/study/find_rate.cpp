#include "unisono/jobs/jobs.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "unisono/base/errors.hpp"
#include "unisono/base/printable.hpp"
#include "unisono/base/svg.hpp"
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
    throw ConfigError(
        fmt::format("optimizer.kind = \"{}\" has no learning rate that could be found", given.optimizer.kind));
  }
  settings::Config config = given;
  config.output = folder + std::string(kRun);
  config.optimizer.learning_rate = options.lowest;
  config.schedule = {};
  config.schedule.growth = std::pow(options.highest / options.lowest, 1.0 / static_cast<double>(options.steps - 1));
  config.train.steps = options.steps;
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
  require_utf8_folder(folder);
  const settings::Config config = test_of(given, options, folder);
  log.info(fmt::format("{}: {} with learning rates from {:g} to {:g}", on_one_line(given.name),
                       count_of(options.steps, "step"), options.lowest, options.highest));
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
    log.info(on_one_line(given.name) + ": interrupted; start it again");
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

namespace {

constexpr double kKept = 0.95;           // of the moving average, in each step
constexpr double kExplosion = 4;         // times the lowest average
constexpr std::size_t kFirstSteps = 10;  // whose averages are of too few losses

/// The slope of the smoothed loss over ln(rate) around a point, by least squares over `half` points on each side.
double slope_at(const std::vector<RatePoint>& points, std::size_t at, std::size_t half) {
  const std::size_t first = at < half ? 0 : at - half, last = std::min(points.size() - 1, at + half);
  const double n = static_cast<double>(last - first + 1);
  double x = 0, y = 0, xx = 0, xy = 0;
  for (std::size_t i = first; i <= last; ++i) {
    const double u = std::log(points[i].rate / points[at].rate), v = points[i].smoothed;
    x += u, y += v, xx += u * u, xy += u * v;
  }
  const double spread = xx - x * x / n;
  return spread > 0 ? (xy - x * y / n) / spread : 0;
}

std::size_t lowest_of(const std::vector<RatePoint>& points) {
  const std::size_t first = std::min(kFirstSteps, points.size() - 1);
  const auto lowest = std::min_element(points.begin() + static_cast<std::ptrdiff_t>(first), points.end(),
                                       [](const RatePoint& a, const RatePoint& b) { return a.smoothed < b.smoothed; });
  return static_cast<std::size_t>(lowest - points.begin());
}

}  // namespace

bool add_loss(RateRange& range, double rate, double loss) {
  if (!std::isfinite(loss)) return range.exploded = true;
  std::vector<RatePoint>& points = range.points;
  const double kept = std::pow(kKept, static_cast<double>(points.size()));  // the weight of all earlier losses, of 1
  const double before = points.empty() ? 0 : points.back().smoothed * (1 - kept);
  const double sum = kKept * before + (1 - kKept) * loss;
  points.push_back({rate, loss, sum / (1 - kKept * kept)});
  if (points.size() <= kFirstSteps) return false;
  range.exploded = points.back().smoothed > kExplosion * points[lowest_of(points)].smoothed;
  return range.exploded;
}

void find_rates(RateRange& range) {
  const std::vector<RatePoint>& points = range.points;
  if (points.size() <= kFirstSteps) return;
  const std::size_t lowest = lowest_of(points);
  const std::size_t half = std::max<std::size_t>(2, points.size() / 40);
  range.lowest_loss_at = points[lowest].rate;
  double steepest = 0;
  for (std::size_t i = kFirstSteps; i <= lowest; ++i) {
    const double slope = slope_at(points, i, half);
    if (slope >= steepest) continue;
    steepest = slope;
    range.steepest_at = points[i].rate;
  }
}

std::string rate_csv(const RateRange& range) {
  std::string text = "step,learning_rate,loss,smoothed_loss\n";
  for (std::size_t i = 0; i < range.points.size(); ++i) {
    const RatePoint& point = range.points[i];
    text += fmt::format("{},{:.6g},{:.6g},{:.6g}\n", i + 1, point.rate, point.loss, point.smoothed);
  }
  return text;
}

namespace {

/// The area in which curves are drawn, and its scales.
class RateAxes {
 public:
  static constexpr double kWidth = 640, kHeight = 400, kLeft = 60, kTop = 40, kRight = 620, kBottom = 350;

  explicit RateAxes(const RateRange& range) {
    first_ = std::log10(range.points.front().rate);
    last_ = std::max(first_ + 1e-9, std::log10(range.points.back().rate));
    low_ = high_ = range.points.front().smoothed;
    for (const RatePoint& point : range.points) {
      low_ = std::min(low_, point.smoothed);
      high_ = std::max(high_, point.smoothed);
    }
    // An explosion would flatten all else.
    high_ = std::min(high_, range.points.front().smoothed + (range.points.front().smoothed - low_) * 0.5 + 1e-9);
    const double room = std::max(0.05 * (high_ - low_), 1e-9);
    low_ -= room;
    high_ += room;
  }

  double x(double rate) const { return kLeft + (std::log10(rate) - first_) / (last_ - first_) * (kRight - kLeft); }
  double y(double loss) const {
    return kBottom - std::clamp((loss - low_) / (high_ - low_), 0.0, 1.0) * (kBottom - kTop);
  }
  bool holds(double loss) const { return loss >= low_ && loss <= high_; }

  void draw(SvgDrawing& drawing) const {
    constexpr std::string_view kGrid = "#dddddd", kAxis = "#555555";
    for (int decade = static_cast<int>(std::ceil(first_ - 1e-9)); decade <= last_ + 1e-9; ++decade) {
      const double at = x(std::pow(10.0, decade));
      drawing.line({at, kTop}, {at, kBottom}, kGrid);
      drawing.text({at, kBottom + 18}, fmt::format("1e{}", decade), {.anchor = SvgDrawing::Anchor::middle});
    }
    constexpr int kTicks = 5;
    for (int tick = 0; tick <= kTicks; ++tick) {
      const double loss = low_ + (high_ - low_) * tick / kTicks;
      drawing.line({kLeft, y(loss)}, {kRight, y(loss)}, kGrid);
      drawing.text({kLeft - 6, y(loss) + 4}, fmt::format("{:.3g}", loss), {.anchor = SvgDrawing::Anchor::end});
    }
    drawing.line({kLeft, kTop}, {kLeft, kBottom}, kAxis);
    drawing.line({kLeft, kBottom}, {kRight, kBottom}, kAxis);
    drawing.text({(kLeft + kRight) / 2, kBottom + 38}, "learning rate", {.anchor = SvgDrawing::Anchor::middle});
    drawing.text({kLeft - 50, kTop - 10}, "loss");
  }

 private:
  double first_, last_, low_, high_;
};

void mark(SvgDrawing& drawing, const RateAxes& axes, double rate, std::string_view colour, const std::string& text,
          double height) {
  const double x = axes.x(rate);
  drawing.line({x, RateAxes::kTop}, {x, RateAxes::kBottom}, colour);
  const bool left = x > 0.7 * RateAxes::kRight;
  drawing.text({x + (left ? -5 : 5), height}, text,
               {.anchor = left ? SvgDrawing::Anchor::end : SvgDrawing::Anchor::start});
}

}  // namespace

std::string rate_picture(const RateRange& range, const std::string& name) {
  SvgDrawing drawing(RateAxes::kWidth, RateAxes::kHeight);
  drawing.rectangle({0, 0, RateAxes::kWidth, RateAxes::kHeight}, "#ffffff");
  drawing.text({RateAxes::kWidth / 2, 20}, name + ": loss at rising learning rates",
               {.size = 14, .anchor = SvgDrawing::Anchor::middle});
  if (range.points.size() < 2) return drawing.str();
  const RateAxes axes(range);
  axes.draw(drawing);
  const auto curve = [&](double RatePoint::*loss, std::string_view colour) {
    for (std::size_t i = 1; i < range.points.size(); ++i) {
      const RatePoint &a = range.points[i - 1], &b = range.points[i];
      if (!axes.holds(a.*loss) && !axes.holds(b.*loss)) continue;
      drawing.line({axes.x(a.rate), axes.y(a.*loss)}, {axes.x(b.rate), axes.y(b.*loss)}, colour);
    }
  };
  curve(&RatePoint::loss, "#b8cce4");
  curve(&RatePoint::smoothed, "#1f4e9c");
  if (range.suggestion() > 0) {
    mark(drawing, axes, range.lowest_loss_at, "#999999", fmt::format("lowest {:.2g}", range.lowest_loss_at), 56);
    mark(drawing, axes, range.steepest_at, "#d08020", fmt::format("steepest {:.2g}", range.steepest_at), 72);
    if (range.suggestion() >= range.points.front().rate)
      mark(drawing, axes, range.suggestion(), "#208040", fmt::format("suggestion {:.2g}", range.suggestion()), 88);
  }
  return drawing.str();
}

}  // namespace unisono::jobs
