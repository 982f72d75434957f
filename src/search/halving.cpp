#include <fmt/format.h>

#include <algorithm>

#include "method_kind.hpp"
#include "rung.hpp"
#include "unisono/base/errors.hpp"

// ASHA, asynchronous successive halving. Li et al., "A system for massively parallel hyperparameter tuning", MLSys
// 2020, algorithm 2: whoever is free takes
//     for k = K − 1, …, 0:   a trial of the best ⌊|rung k| / η⌋ that have ended in rung k and has not gone on: to rung
//                            k + 1
//     otherwise:             a new trial, to rung 0
// Rung k trains to ⌊R / η^{K−k}⌋ epochs; R is train.epochs, η the reduction factor. A trial that goes on is not begun
// anew. Failed trials count in |rung k|, and never go on. Which trials go on depends on the order in which steps end.
namespace unisono::search {
namespace {

class Halving final : public SearchMethod {
 public:
  explicit Halving(SearchProblem problem);

  std::optional<SearchStep> next() const override;
  void started(const SearchStep& step) override;
  void ended(const SearchStep& step, double loss) override {
    rungs_[rung_of(rungs_, step.epochs)].end(step.trial, loss);
    --running_;
  }
  bool is_complete() const override { return running_ == 0 && !next(); }
  Point point(std::int64_t trial) const override { return random_point(problem_, trial); }
  std::int64_t trials() const override { return order_.count(); }
  bool depends_on_timing() const override { return true; }

 private:
  SearchProblem problem_;
  std::vector<Rung> rungs_;
  TrialOrder order_;
  std::int64_t running_ = 0;
};

Halving::Halving(SearchProblem problem)
    : problem_(std::move(problem)),
      rungs_(make_rungs(problem_.epochs, problem_.settings.least_epochs, problem_.settings.reduction_factor)),
      order_(problem_.settings.trials) {
  std::int64_t least = 1;
  for (std::size_t k = 1; k < rungs_.size(); ++k) least *= problem_.settings.reduction_factor;
  if (order_.count() < least) {
    throw ConfigError(fmt::format(
        "search.trials = {} are too few: one in {} goes on from each of {} rungs, so that none would be trained to the "
        "end; use at least {} trials, or raise search.least_epochs",
        order_.count(), problem_.settings.reduction_factor, rungs_.size() - 1, least));
  }
}

std::optional<SearchStep> Halving::next() const {
  for (std::size_t k = rungs_.size() - 1; k-- > 0;) {
    const auto trial = rungs_[k].promotable(rungs_[k].size() / problem_.settings.reduction_factor);
    if (trial) return SearchStep{.trial = *trial, .epochs = rungs_[k + 1].epochs()};
  }
  if (order_.all_started()) return std::nullopt;
  return SearchStep{.trial = order_.next(), .epochs = rungs_[0].epochs()};
}

void Halving::started(const SearchStep& step) {
  const std::size_t k = rung_of(rungs_, step.epochs);
  if (k == 0) {
    order_.start(step.trial);
  } else {
    rungs_[k - 1].promote(step.trial);
  }
  ++running_;
}

void describe_halving(ConfigVisitor& visitor, SearchSettings& settings) {
  describe_trials(visitor, settings);
  describe_rungs(visitor, settings);
}

}  // namespace

void describe_rungs(ConfigVisitor& visitor, SearchSettings& settings) {
  visitor.field({.name = "least_epochs",
                 .meaning = "trials are first trained for this long, or up to reduction_factor times as long",
                 .unit = "epochs",
                 .range = at_least(1).at_most(1 << 30)},
                settings.least_epochs);
  visitor.field({.name = "reduction_factor",
                 .meaning = "one in so many trials goes on, and is trained for so many times as long",
                 .range = at_least(2).at_most(1 << 20)},
                settings.reduction_factor);
}

SearchMethodKind halving_search() {
  return {SearchKind::halving, describe_halving, [](SearchProblem problem) -> std::unique_ptr<SearchMethod> {
            return std::make_unique<Halving>(std::move(problem));
          }};
}

std::vector<Rung> make_rungs(std::int64_t epochs, std::int64_t least, std::int64_t reduction_factor) {
  std::vector<Rung> rungs;
  for (std::int64_t e = epochs; e >= least; e /= reduction_factor) rungs.emplace_back(e);
  if (rungs.size() < 2) {
    throw ConfigError(fmt::format(
        "search.method trains the better trials for {} times as long, and at first for at least {} "
        "(search.least_epochs "
        "= {}), but train.epochs = {} leaves no room for that: raise train.epochs, or lower search.least_epochs or "
        "search.reduction_factor",
        reduction_factor, least == 1 ? "1 epoch" : fmt::format("{} epochs", least), least, epochs));
  }
  std::ranges::reverse(rungs);
  return rungs;
}

std::size_t rung_of(const std::vector<Rung>& rungs, std::int64_t epochs) {
  return static_cast<std::size_t>(std::ranges::find(rungs, epochs, &Rung::epochs) - rungs.begin());
}

// Hyperband. Li et al., "Hyperband: a novel bandit-based approach to hyperparameter optimization", JMLR 2018,
// algorithm 1: with R = train.epochs, the reduction factor η and K + 1 lengths of training ⌊R / η^K⌋, …, R
//     for s = K, …, 0:                                a bracket
//       n = ⌈(K + 1) η^s / (s + 1)⌉ trials, trained for ⌊R / η^s⌋ epochs
//       for i = 1, …, s:  the best ⌊n / η^i⌋ of them, of which all have ended, go on to ⌊R / η^{s−i}⌋ epochs
// and again from s = K while there are trials. While a bracket waits for its last trials, others of it and the next
// brackets go on. Which trials go on does not depend on the order in which steps end.

namespace {

struct Bracket {
  std::int64_t first = 0, count = 0;  ///< trials first … first + count − 1
  std::vector<Rung> rungs;            ///< s + 1 of them
};

/// A trial that can go on within a bracket.
std::optional<SearchStep> promotion(const Bracket& bracket, std::int64_t reduction_factor) {
  std::int64_t expected = bracket.count, best = bracket.count;
  for (std::size_t i = 0; i + 1 < bracket.rungs.size(); ++i) {
    const Rung& rung = bracket.rungs[i];
    if (rung.size() < expected) return std::nullopt;  // trials are running
    best /= reduction_factor;
    if (const auto trial = rung.promotable(best)) {
      return SearchStep{.trial = *trial, .epochs = bracket.rungs[i + 1].epochs()};
    }
    expected = std::min(best, rung.successes());
  }
  return std::nullopt;
}

class Hyperband final : public SearchMethod {
 public:
  explicit Hyperband(SearchProblem problem);

  std::optional<SearchStep> next() const override;
  void started(const SearchStep& step) override;
  void ended(const SearchStep& step, double loss) override {
    Bracket& bracket = bracket_of(step.trial);
    bracket.rungs[rung_of(bracket.rungs, step.epochs)].end(step.trial, loss);
    --running_;
  }
  bool is_complete() const override { return running_ == 0 && !next(); }
  Point point(std::int64_t trial) const override { return random_point(problem_, trial); }
  std::int64_t trials() const override { return order_.count(); }

 private:
  void add_brackets();
  Bracket& bracket_of(std::int64_t trial) {
    return *std::prev(std::ranges::upper_bound(brackets_, trial, {}, &Bracket::first));
  }

  SearchProblem problem_;
  std::vector<Bracket> brackets_;
  TrialOrder order_;
  std::int64_t running_ = 0;
};

Hyperband::Hyperband(SearchProblem problem) : problem_(std::move(problem)), order_(0) {
  const std::int64_t wanted = problem_.settings.trials;
  const auto end = [this] { return brackets_.empty() ? 0 : brackets_.back().first + brackets_.back().count; };
  do {
    add_brackets();
  } while (end() < wanted);
  const auto past = std::ranges::find_if(brackets_, [&](const Bracket& b) { return b.first + b.count >= wanted; });
  const std::int64_t above = past->first + past->count;
  if (wanted > 0 && above != wanted) {
    throw ConfigError(fmt::format(
        "search.trials = {} ends within a bracket, of which no trial could go on; use {}{}, or remove it for one pass "
        "over all brackets",
        wanted, past->first > 0 ? fmt::format("{} or ", past->first) : "", above));
  }
  if (wanted > 0) brackets_.erase(past + 1, brackets_.end());
  order_ = TrialOrder(end());
}

/// Those of one pass, s = K, …, 0.
void Hyperband::add_brackets() {
  const std::int64_t eta = problem_.settings.reduction_factor;
  const std::vector<Rung> rungs = make_rungs(problem_.epochs, problem_.settings.least_epochs, eta);
  std::int64_t power = 1;  // η^s
  for (std::size_t s = 1; s < rungs.size(); ++s) power *= eta;
  for (auto s = static_cast<std::int64_t>(rungs.size()) - 1; s >= 0; --s, power /= eta) {
    const std::int64_t first = brackets_.empty() ? 0 : brackets_.back().first + brackets_.back().count;
    const std::int64_t n = (static_cast<std::int64_t>(rungs.size()) * power + s) / (s + 1);
    brackets_.push_back({first, n, {rungs.end() - s - 1, rungs.end()}});
  }
}

std::optional<SearchStep> Hyperband::next() const {
  for (const Bracket& bracket : brackets_) {
    if (bracket.first >= order_.next()) break;
    if (const auto step = promotion(bracket, problem_.settings.reduction_factor)) return step;
  }
  if (order_.all_started()) return std::nullopt;
  const std::int64_t trial = order_.next();
  const auto bracket = std::prev(std::ranges::upper_bound(brackets_, trial, {}, &Bracket::first));
  return SearchStep{.trial = trial, .epochs = bracket->rungs[0].epochs()};
}

void Hyperband::started(const SearchStep& step) {
  Bracket& bracket = bracket_of(step.trial);
  const std::size_t i = rung_of(bracket.rungs, step.epochs);
  if (i == 0) {
    order_.start(step.trial);
  } else {
    bracket.rungs[i - 1].promote(step.trial);
  }
  ++running_;
}

void describe_hyperband(ConfigVisitor& visitor, SearchSettings& settings) {
  visitor.field({.name = "trials",
                 .meaning = "number of trials, baselines included, up to the end of a bracket; 0: one pass over all "
                            "brackets",
                 .range = at_least(0).at_most(1'000'000)},
                settings.trials);
  describe_rungs(visitor, settings);
}

}  // namespace

SearchMethodKind hyperband_search() {
  return {SearchKind::hyperband, describe_hyperband, [](SearchProblem problem) -> std::unique_ptr<SearchMethod> {
            return std::make_unique<Hyperband>(std::move(problem));
          }};
}

}  // namespace unisono::search
