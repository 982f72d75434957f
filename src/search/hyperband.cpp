// Hyperband. Li et al., "Hyperband: a novel bandit-based approach to hyperparameter optimization", JMLR 2018,
// algorithm 1: with R = train.epochs, the reduction factor η and K + 1 lengths of training ⌊R / η^K⌋, …, R
//     for s = K, …, 0:                                a bracket
//       n = ⌈(K + 1) η^s / (s + 1)⌉ trials, trained for ⌊R / η^s⌋ epochs
//       for i = 1, …, s:  the best ⌊n / η^i⌋ of them, of which all have ended, go on to ⌊R / η^{s−i}⌋ epochs
// and again from s = K while there are trials. While a bracket waits for its last trials, others of it and the next
// brackets go on. Which trials go on does not depend on the order in which steps end.
#include <fmt/format.h>

#include <algorithm>

#include "method_kind.hpp"
#include "rung.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::search {
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
                 .minimum = 0,
                 .maximum = 1'000'000},
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
