#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "unisono/base/svg.hpp"
#include "unisono/jobs/find_rate.hpp"

namespace unisono::jobs {
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
