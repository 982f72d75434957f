#include "line_search.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace unisono::optim {
namespace {

constexpr int kMostTrials = 24;     // of finite values
constexpr int kMostNotFinite = 60;  // each is ten times as short as the last one
constexpr double kNotFinite = 0.1;  // factor of a step after a value that is not finite
constexpr double kLargestStep = 1e20;
constexpr double kLeastWidth = 1e-9;  // of an interval, relative to its end

bool decreases(const LinePoint& start, const LinePoint& trial, const LineConstants& c) {
  return trial.value <= start.value + c.decrease * trial.step * start.slope;
}

bool is_level(double value, double reference, const LineConstants& c) {
  return std::abs(value - reference) <= c.noise * std::abs(reference);
}

}  // namespace

bool passes(LineTest test, const LinePoint& start, const LinePoint& trial, const LineConstants& c) {
  const bool falls_by_slopes =
      is_level(trial.value, start.value, c) && trial.slope <= (2 * c.decrease - 1) * start.slope;
  switch (test) {
    case LineTest::strong_wolfe:
      return decreases(start, trial, c) && std::abs(trial.slope) <= -c.curvature * start.slope;
    case LineTest::approximate_wolfe:
      return falls_by_slopes && trial.slope >= c.curvature * start.slope;
    case LineTest::armijo:
      return decreases(start, trial, c) && trial.value < start.value;
    case LineTest::approximate_armijo:
      return falls_by_slopes;
    case LineTest::none:
      break;
  }
  return false;
}

LineAnswer LineSearch::accept(LineTest test, [[maybe_unused]] const LinePoint& start,
                              [[maybe_unused]] const LinePoint& trial,
                              [[maybe_unused]] const LineConstants& constants) {
  assert(passes(test, start, trial, constants));
  test_ = test;
  return LineAnswer::accepted;
}

// Moré, Thuente

namespace {

/// The minimum of the cubic through two points with slopes, as b + r (a − b). \param outside a minimum is sought
/// beyond both; NaN where there is none
double cubic_step(const LinePoint& a, const LinePoint& b, bool outside = false) {
  const double theta = 3 * (a.value - b.value) / (b.step - a.step) + a.slope + b.slope;
  const double scale = std::max({std::abs(theta), std::abs(a.slope), std::abs(b.slope)});
  const double square = (theta / scale) * (theta / scale) - (a.slope / scale) * (b.slope / scale);
  if (outside && square <= 0) return std::numeric_limits<double>::quiet_NaN();
  double gamma = scale * std::sqrt(std::max(0.0, square));
  if (b.step > a.step) gamma = -gamma;
  const double p = (gamma - b.slope) + theta;
  const double q = ((gamma - b.slope) + gamma) + a.slope;
  return b.step + p / q * (a.step - b.step);
}

/// The zero of the line through two slopes.
double secant_step(const LinePoint& a, const LinePoint& b) {
  return b.step + b.slope / (b.slope - a.slope) * (a.step - b.step);
}

/// The minimum of the parabola through a, its slope, and b.
double parabola_step(const LinePoint& a, const LinePoint& b) {
  return a.step + a.slope / ((a.value - b.value) / (b.step - a.step) + a.slope) / 2 * (b.step - a.step);
}

double nearer(double to, double a, double b) { return std::abs(a - to) < std::abs(b - to) ? a : b; }

/// Section 4 of the paper: the next trial, from the ends of the interval (`best`, `other`) and the last trial.
/// \param least, largest where a trial may lie while no minimum is bracketed
double next_trial(const LinePoint& best, const LinePoint& other, const LinePoint& trial, bool bracketed, double least,
                  double largest) {
  const double secant = secant_step(best, trial);
  if (trial.value > best.value) {  // case 1: higher; a minimum is bracketed
    const double cubic = cubic_step(trial, best), parabola = parabola_step(best, trial);
    return std::abs(cubic - best.step) < std::abs(parabola - best.step) ? cubic : cubic + (parabola - cubic) / 2;
  }
  if (trial.slope * best.slope < 0) {  // case 2: lower, the slope has changed its sign; bracketed
    const double cubic = cubic_step(best, trial);
    return std::abs(cubic - trial.step) > std::abs(secant - trial.step) ? cubic : secant;
  }
  const double outwards = trial.step > best.step ? largest : least;
  if (std::abs(trial.slope) < std::abs(best.slope)) {  // case 3: lower, the slope is smaller
    double cubic = cubic_step(best, trial, /*outside=*/true);
    const bool ahead = (cubic - trial.step) * (trial.step - best.step) > 0;
    if (!ahead) cubic = outwards;
    if (!bracketed)
      return std::clamp(std::abs(cubic - trial.step) > std::abs(secant - trial.step) ? cubic : secant, least, largest);
    const double next = nearer(trial.step, cubic, secant);
    const double bound = trial.step + 0.66 * (other.step - trial.step);
    return trial.step > best.step ? std::min(bound, next) : std::max(bound, next);
  }
  return bracketed ? cubic_step(other, trial) : outwards;  // case 4: lower, the slope is not smaller
}

}  // namespace

void MoreThuente::start(double value, double slope, double first) {
  *this = MoreThuente(constants_);
  start_ = best_ = other_ = {.step = 0, .value = value, .slope = slope};
  step_ = first;
  width_ = kLargestStep;
  previous_width_ = 2 * width_;
  largest_ = 5 * first;
}

LineAnswer MoreThuente::see(double value, double slope) {
  const LinePoint trial{.step = step_, .value = value, .slope = slope};
  if (!std::isfinite(value) || !std::isfinite(slope)) return shorten();
  if (settling_) return accept(LineTest::armijo, start_, trial, constants_);
  for (const LineTest test : {LineTest::strong_wolfe, LineTest::approximate_wolfe}) {
    if (passes(test, start_, trial, constants_)) return accept(test, start_, trial, constants_);
  }
  return refine(trial);
}

/// Back towards the best step.
LineAnswer MoreThuente::shorten() {
  limit_ = step_;
  step_ = best_.step + kNotFinite * (step_ - best_.step);
  if (!bracketed_) {
    least_ = best_.step;
    largest_ = limit_;
  }
  return ++not_finite_ < kMostNotFinite && step_ != best_.step ? LineAnswer::evaluate : settle(limit_);
}

LineAnswer MoreThuente::refine(const LinePoint& trial) {
  if (modified_ && decreases(start_, trial, constants_) && trial.slope >= 0) modified_ = false;
  choose(trial);
  return ++trials_ < kMostTrials && !is_exhausted() ? LineAnswer::evaluate : settle(trial.step);
}

/// Step and interval for the next trial. While `modified_`, values and slopes are those of ψ.
void MoreThuente::choose(const LinePoint& trial) {
  const bool above = modified_ && trial.value <= best_.value && !decreases(start_, trial, constants_);
  const double line = above ? constants_.decrease * start_.slope : 0;
  const auto less_line = [line](const LinePoint& p) {
    return LinePoint{.step = p.step, .value = p.value - p.step * line, .slope = p.slope - line};
  };
  const LinePoint best = less_line(best_), other = less_line(other_), at = less_line(trial);
  step_ = next_trial(best, other, at, bracketed_, least_, largest_);
  if (at.value > best.value) {
    other_ = trial;
    bracketed_ = true;
  } else {
    if (at.slope * best.slope < 0) {
      other_ = best_;
      bracketed_ = true;
    }
    best_ = trial;
  }
  update_interval(trial);
}

void MoreThuente::update_interval(const LinePoint& trial) {
  if (bracketed_) {
    const double length = std::abs(other_.step - best_.step);
    if (length >= 0.66 * previous_width_) step_ = best_.step + (other_.step - best_.step) / 2;
    previous_width_ = width_;
    width_ = length;
    least_ = std::min(best_.step, other_.step);
    largest_ = std::max(best_.step, other_.step);
    return;
  }
  step_ = std::min(step_, kLargestStep);
  if (step_ >= limit_) step_ = trial.step + (limit_ - trial.step) / 2;
  least_ = step_ + 1.1 * (step_ - best_.step);
  largest_ = step_ + 4 * (step_ - best_.step);
}

/// Whether rounding errors leave no room between the ends.
bool MoreThuente::is_exhausted() const {
  if (!std::isfinite(step_)) return true;
  if (!bracketed_) return step_ == best_.step;
  return step_ <= least_ || step_ >= largest_ || largest_ - least_ <= kLeastWidth * largest_;
}

/// Takes the best trial so far, evaluating it again if it was not the last one.
LineAnswer MoreThuente::settle(double last) {
  const LinePoint best = best_;
  if (!passes(LineTest::armijo, start_, best, constants_)) return LineAnswer::failed;
  step_ = best.step;
  settling_ = true;
  return last == best.step ? accept(LineTest::armijo, start_, best, constants_) : LineAnswer::evaluate;
}

// Armijo

void Armijo::start(double value, double slope, double first, double reference) {
  *this = Armijo(constants_);
  start_ = {.step = 0, .value = value, .slope = slope};
  reference_ = reference;
  step_ = first;
}

LineAnswer Armijo::see(double value, double slope) {
  return see(PathTrial{.value = value, .linear = step_ * start_.slope, .mean = step_ * (start_.slope + slope) / 2});
}

LineAnswer Armijo::see(const PathTrial& trial) {
  if (!std::isfinite(trial.value) || !std::isfinite(trial.mean)) {
    step_ *= kNotFinite;
    return ++not_finite_ < kMostNotFinite ? LineAnswer::evaluate : LineAnswer::failed;
  }
  const double wanted = constants_.decrease * trial.linear;
  const bool moves = trial.value != start_.value || trial.mean != trial.linear;  // else x + α d is x, as floats
  if (!moves) return LineAnswer::failed;
  if (wanted < 0) {
    if (trial.value <= reference_ + wanted)
      test_ = LineTest::armijo;
    else if (is_level(trial.value, start_.value, constants_) && trial.mean <= wanted)
      test_ = LineTest::approximate_armijo;
    if (test_ != LineTest::none) return LineAnswer::accepted;
  }
  const double least = -trial.linear / (2 * (trial.value - start_.value - trial.linear));
  step_ *= least >= 0.1 && least <= 0.5 ? least : (least < 0.1 ? 0.1 : 0.5);
  return ++trials_ < kMostTrials ? LineAnswer::evaluate : LineAnswer::failed;
}

}  // namespace unisono::optim
