#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>

#include "method_kind.hpp"
#include "parzen.hpp"

// Tree-structured Parzen estimator. Bergstra, Bardenet, Bengio, Kégl, "Algorithms for hyper-parameter optimization",
// NeurIPS 2011, section 4. The N trials that a trial knows are divided by their losses:
//     ℓ(x)  density of the best ⌈γ N⌉, γ = 0.15        g(x)  density of the others
//     x = argmax ℓ(x) / g(x) over 24 draws from ℓ      which has the largest expected improvement
// Each parameter has densities of its own, from the trials where it was drawn (the tree), over its u in [0, 1), where
// the space is uniform. Numbers have Parzen estimators; choice i of n has the probability
//     (1 + trials that took it) / (n + trials)
// Trial n knows the results of trials below n − lookahead, whatever else has ended, and waits for them: it is a
// function of n and of their losses, on any number of ranks. Where it knows fewer than startup_trials, it is drawn at
// random.
namespace unisono::search {
namespace {

constexpr double kGoodShare = 0.15;
constexpr int kCandidates = 24;

/// The density of one parameter over u, from values of it.
class Density {
 public:
  Density(const Parameter& parameter, const std::vector<double>& us)
      : parameter_(parameter), numbers_(parameter.scale == Scale::choice ? std::vector<double>() : us) {
    if (parameter.scale != Scale::choice) return;
    counts_.assign(parameter.choices.size(), 1);
    for (const double u : us) ++counts_[static_cast<std::size_t>(parameter.index(u))];
    total_ = us.size() + parameter.choices.size();
  }

  double draw(RandomStream& random) const {
    if (counts_.empty()) return numbers_.draw(random);
    std::uint64_t left = random.below(total_);
    std::size_t i = 0;
    while (left >= counts_[i]) left -= counts_[i++];
    return parameter_.middle(static_cast<std::int64_t>(i));
  }
  double at(double u) const {
    if (counts_.empty()) return numbers_.density(u);
    return static_cast<double>(counts_[static_cast<std::size_t>(parameter_.index(u))]) / static_cast<double>(total_);
  }

 private:
  const Parameter& parameter_;
  ParzenEstimator numbers_;
  std::vector<std::uint64_t> counts_;
  std::uint64_t total_ = 0;
};

class Tpe final : public SearchMethod {
 public:
  explicit Tpe(SearchProblem problem) : problem_(std::move(problem)), order_(problem_.settings.trials) {}

  std::optional<SearchStep> next() const override {
    const bool waits = order_.first_open() < known(order_.next());
    return order_.all_started() || waits ? std::nullopt : std::optional(SearchStep{.trial = order_.next()});
  }
  void started(const SearchStep& step) override {
    points_.try_emplace(step.trial, place(step.trial));
    order_.start(step.trial);
  }
  void ended(const SearchStep& step, double loss) override { order_.end(step.trial, loss); }
  bool is_complete() const override { return order_.all_ended(); }
  Point point(std::int64_t trial) const override { return points_.at(trial); }
  std::int64_t trials() const override { return order_.count(); }

 private:
  /// Trials below this one are known to a trial.
  std::int64_t known(std::int64_t trial) const {
    return std::max<std::int64_t>(trial - problem_.settings.lookahead, 0);
  }
  Point place(std::int64_t trial) const;
  double best_draw(std::size_t parameter, const std::vector<std::int64_t>& ranking, RandomStream& random) const;

  SearchProblem problem_;
  TrialOrder order_;
  std::map<std::int64_t, Point> points_;
};

Point Tpe::place(std::int64_t trial) const {
  if (problem_.is_baseline(trial) || known(trial) < problem_.settings.startup_trials) {
    return random_point(problem_, trial);
  }
  std::vector<std::pair<double, std::int64_t>> losses;
  for (std::int64_t t = 0; t < known(trial); ++t) {
    const double loss = order_.loss(t);
    losses.emplace_back(std::isfinite(loss) ? loss : std::numeric_limits<double>::infinity(), t);
  }
  std::ranges::sort(losses);
  std::vector<std::int64_t> ranking;
  for (const auto& [loss, t] : losses) ranking.push_back(t);

  RandomStream random = search_stream(problem_, Draw::candidates, static_cast<std::uint64_t>(trial));
  Point point(problem_.space.parameters().size(), 0.5);
  for (std::size_t j = 0; j < point.size(); ++j) {
    if (problem_.space.is_active(j, point)) point[j] = best_draw(j, ranking, random);
  }
  return point;
}

/// \param ranking the known trials, the best first
double Tpe::best_draw(std::size_t parameter, const std::vector<std::int64_t>& ranking, RandomStream& random) const {
  const auto good_trials = static_cast<std::size_t>(std::ceil(kGoodShare * static_cast<double>(ranking.size())));
  std::vector<double> good, bad;
  for (std::size_t i = 0; i < ranking.size(); ++i) {
    const Point& point = points_.at(ranking[i]);
    if (problem_.space.is_active(parameter, point)) (i < good_trials ? good : bad).push_back(point[parameter]);
  }
  const Parameter& p = problem_.space.parameters()[parameter];
  const Density of_good(p, good), of_bad(p, bad);
  double best = 0, best_ratio = -1;
  for (int i = 0; i < kCandidates; ++i) {
    const double u = of_good.draw(random);
    const double ratio = of_good.at(u) / of_bad.at(u);
    if (ratio > best_ratio) {
      best = u;
      best_ratio = ratio;
    }
  }
  return best;
}

void describe_tpe(ConfigVisitor& visitor, SearchSettings& settings) {
  describe_trials(visitor, settings);
  visitor.field({.name = "lookahead",
                 .meaning = "trial n knows the results of trials below n − lookahead, and waits for them: one more "
                            "trial than this can run at once. Raise it with the number of trials that run at once",
                 .unit = "trials",
                 .range = at_least(0).at_most(1'000'000)},
                settings.lookahead);
  visitor.field({.name = "startup_trials",
                 .meaning = "trials that know fewer results than this are drawn at random",
                 .unit = "trials",
                 .range = at_least(1).at_most(1'000'000)},
                settings.startup_trials);
  describe_median_rule(visitor, settings);
}

/// The normal distribution function.
double normal_share(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

}  // namespace

SearchMethodKind tpe_search() {
  return {SearchKind::tpe, describe_tpe, [](SearchProblem problem) -> std::unique_ptr<SearchMethod> {
            return std::make_unique<Tpe>(std::move(problem));
          }};
}

ParzenEstimator::ParzenEstimator(std::vector<double> observations) {
  std::ranges::sort(observations);
  const double least = 1 / std::min(100.0, static_cast<double>(observations.size()) + 1);
  for (std::size_t i = 0; i < observations.size(); ++i) {
    const double x = observations[i];
    const double below = i == 0 ? 0 : observations[i - 1];
    const double above = i + 1 == observations.size() ? 1 : observations[i + 1];
    const double width = std::max({x - below, above - x, least});
    normals_.push_back({x, width, normal_share((1 - x) / width) - normal_share(-x / width)});
  }
}

double ParzenEstimator::draw(RandomStream& random) const {
  const std::uint64_t i = random.below(normals_.size() + 1);
  if (i == normals_.size()) return uniform(random);
  for (;;) {  // the mean lies within, so that at least a third of the draws do
    const double x = normals_[i].mean + normals_[i].width * static_cast<double>(random.normal());
    if (x >= 0 && x < 1) return x;
  }
}

double ParzenEstimator::density(double x) const {
  double sum = 1;
  for (const auto& [mean, width, mass] : normals_) {
    const double z = (x - mean) / width;
    sum += std::exp(-0.5 * z * z) / (std::sqrt(2 * std::numbers::pi) * width * mass);
  }
  return sum / (static_cast<double>(normals_.size()) + 1);
}

}  // namespace unisono::search
