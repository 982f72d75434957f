// Population-based training. Jaderberg et al., "Population based training of neural networks", 2017. All trials train;
// one that has got to e epochs, a multiple of exploit_every_epochs, is compared with all k that have, by their losses
// then, before it goes on:
//     exploit  If it is one of the worst ⌊f k⌋, it takes over weights and values of one of the best ⌊f k⌋, drawn at
//              random (truncation selection, f = exploited_fraction).
//     explore  Then each number is multiplied by 0.8 or 1.2, within its range, but whole ones move by at least one
//              step; of a list of numbers it is the one before or behind. What may change the form of the weights or
//              of the optimizer's state stays with the weights: other choices, and whole numbers of the model.
// The trial that has been trained least goes on first, so that trials wait for no one. A trial can be copied while no
// later step of it has ended; so of trials at the same e, those that copy go on first, and the better ones last. One
// that failed goes on as a copy, or not at all.
// Which trials are copied depends on the order in which steps end; what is drawn is a function of (trial, e).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "method_kind.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::search {
namespace {

/// A number, or a list of them, that may change while a model trains.
bool is_explored(const Parameter& p) {
  const bool shapes = p.key.starts_with("model.") || p.key.starts_with("model[");
  if (p.scale != Scale::choice) return p.step == 0 || !shapes;
  return !shapes && std::ranges::all_of(p.choices, [](const auto& choice) { return choice.number().has_value(); });
}

/// The place of a value that is changed a little. \param up or down
double explored(const Parameter& p, double u, bool up) {
  if (!is_explored(p)) return u;
  if (p.values() > 0) {
    const std::int64_t i = p.index(u);
    std::int64_t moved = i + (up ? 1 : -1);
    if (p.scale != Scale::choice) {
      const double value = p.low + static_cast<double>(i * p.step);
      const auto by = static_cast<std::int64_t>(std::round(0.2 * std::abs(value) / static_cast<double>(p.step)));
      moved = i + (up ? 1 : -1) * std::max<std::int64_t>(by, 1);
    }
    return p.middle(std::clamp<std::int64_t>(moved, 0, p.values() - 1));
  }
  const double value = *p.at(u).number() * (up ? 1.2 : 0.8);
  return *p.place_of({.value = std::clamp(value, p.low, p.high)});
}

class Population final : public SearchMethod {
 public:
  explicit Population(SearchProblem problem);

  std::optional<SearchStep> next() const override;
  void started(const SearchStep& step) override;
  void ended(const SearchStep& step, double loss) override;
  bool is_complete() const override { return running_ == 0 && !next(); }
  Point point(std::int64_t trial) const override { return member(trial).point; }
  std::int64_t trials() const override { return problem_.settings.trials; }
  bool depends_on_timing() const override { return true; }

 private:
  struct Member {
    std::int64_t epochs = 0;  ///< at the end of its last step
    double loss = 0;          ///< then
    bool running = false;
    Point point;
    std::map<std::int64_t, Point> points;  ///< of its steps, by their epochs
  };
  /// The trials that have got to so many epochs, the best first.
  using Ranking = std::set<std::pair<double, std::int64_t>>;

  const Member& member(std::int64_t trial) const { return members_[static_cast<std::size_t>(trial)]; }
  std::optional<std::int64_t> source_of(std::int64_t trial) const;
  Point explore(const Point& point, std::int64_t trial, std::int64_t epochs) const;
  RandomStream stream(Draw draw, std::int64_t trial, std::int64_t epochs) const {
    return search_stream(problem_, draw, static_cast<std::uint64_t>(epochs) << 32 | static_cast<std::uint64_t>(trial));
  }

  SearchProblem problem_;
  std::vector<Member> members_;
  std::map<std::int64_t, Ranking> rankings_;  ///< by epochs
  std::int64_t running_ = 0;
};

Population::Population(SearchProblem problem) : problem_(std::move(problem)) {
  const SearchSettings& settings = problem_.settings;
  if (settings.exploit_every_epochs >= problem_.epochs) {
    throw ConfigError(fmt::format(
        "search.exploit_every_epochs = {} is not below train.epochs = {}: no trial would ever take over weights; lower "
        "it, or train for longer",
        settings.exploit_every_epochs, problem_.epochs));
  }
  if (settings.exploited_fraction * static_cast<double>(settings.trials) < 1) {
    throw ConfigError(fmt::format(
        "search.exploited_fraction = {} of search.trials = {} is less than one trial, so that none would take over "
        "weights; use more trials, or a larger fraction",
        settings.exploited_fraction, settings.trials));
  }
  members_.resize(static_cast<std::size_t>(settings.trials));
  for (std::size_t i = 0; i < members_.size(); ++i) {
    members_[i].point = random_point(problem_, static_cast<std::int64_t>(i));
  }
}

std::optional<std::int64_t> Population::source_of(std::int64_t trial) const {
  const std::int64_t epochs = member(trial).epochs;
  const auto found = rankings_.find(epochs);
  if (found == rankings_.end()) return std::nullopt;
  const std::vector<std::pair<double, std::int64_t>> ranking(found->second.begin(), found->second.end());
  const double share = problem_.settings.exploited_fraction * static_cast<double>(ranking.size());
  const auto count = static_cast<std::ptrdiff_t>(share);
  const auto own = std::ranges::find(ranking, trial, &Ranking::value_type::second);
  if (ranking.end() - own > count && std::isfinite(own->first)) return std::nullopt;
  std::vector<std::int64_t> sources;
  for (const auto& [loss, other] : std::vector(ranking.begin(), ranking.begin() + count)) {
    if (loss < own->first && member(other).epochs == epochs) sources.push_back(other);
  }
  if (sources.empty()) return std::nullopt;
  return sources[stream(Draw::exploit, trial, epochs).below(sources.size())];
}

std::optional<SearchStep> Population::next() const {
  std::optional<SearchStep> step;
  std::tuple<std::int64_t, bool, double> first;  // epochs, whether it copies no other, −loss
  for (std::int64_t trial = 0; trial < trials(); ++trial) {
    const Member& one = member(trial);
    if (one.running || one.epochs >= problem_.epochs || (step && one.epochs > std::get<0>(first))) continue;
    const std::optional<std::int64_t> source = source_of(trial);
    if (!source && !std::isfinite(one.loss)) continue;
    const std::tuple rank(one.epochs, !source, -one.loss);
    if (step && first <= rank) continue;
    first = rank;
    step = {trial, std::min(one.epochs + problem_.settings.exploit_every_epochs, problem_.epochs), source};
  }
  return step;
}

Point Population::explore(const Point& point, std::int64_t trial, std::int64_t epochs) const {
  RandomStream random = stream(Draw::explore, trial, epochs);
  Point changed = point;
  for (std::size_t i = 0; i < point.size(); ++i) {
    changed[i] = explored(problem_.space.parameters()[i], point[i], random.below(2) == 1);
  }
  return changed;
}

void Population::started(const SearchStep& step) {
  Member& one = members_[static_cast<std::size_t>(step.trial)];
  if (step.copied) one.point = explore(member(*step.copied).points.at(one.epochs), step.trial, one.epochs);
  one.running = true;
  ++running_;
}

void Population::ended(const SearchStep& step, double loss) {
  Member& one = members_[static_cast<std::size_t>(step.trial)];
  one.running = false;
  one.loss = std::isfinite(loss) ? loss : std::numeric_limits<double>::infinity();
  one.epochs = step.epochs;
  one.points[step.epochs] = one.point;
  rankings_[step.epochs].emplace(one.loss, step.trial);
  --running_;
}

void describe_population(ConfigVisitor& visitor, SearchSettings& settings) {
  describe_trials(visitor, settings);
  visitor.field({.name = "exploit_every_epochs",
                 .meaning = "epochs after which a trial is compared with the others",
                 .unit = "epochs",
                 .range = at_least(1).at_most(1 << 30)},
                settings.exploit_every_epochs);
  visitor.field({.name = "exploited_fraction",
                 .meaning = "this share of the trials, the worst, take over weights of as many of the best",
                 .range = above(0).at_most(0.5)},
                settings.exploited_fraction);
}

}  // namespace

SearchMethodKind population_search() {
  return {SearchKind::population, describe_population, [](SearchProblem problem) -> std::unique_ptr<SearchMethod> {
            return std::make_unique<Population>(std::move(problem));
          }};
}

}  // namespace unisono::search
