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
                 .minimum = 1,
                 .maximum = 1 << 30},
                settings.least_epochs);
  visitor.field({.name = "reduction_factor",
                 .meaning = "one in so many trials goes on, and is trained for so many times as long",
                 .minimum = 2,
                 .maximum = 1 << 20},
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

}  // namespace unisono::search
