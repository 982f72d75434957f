#include "unisono/parallel/placement.hpp"

#include <algorithm>
#include <cassert>
#include <map>
#include <numeric>

#include "pipeline/priced.hpp"
#include "pipeline/schedules.hpp"
#include "pipeline/timeline.hpp"

// Cuts and ranks of a pipeline's stages. See the linear partition problem in stages.cpp; here the ranks differ.
//   seconds[U][i] = min over r ∈ U, h < i of seconds[U \ r][h] + c_r(h, i),    t_r(h, i) ≤ T, stage |U| − 1 fits r
// U: the ranks that run the first |U| stages, i: segments that these hold, t: seconds of a micro-batch, c: those for
// which all others wait, messages included. For each T that may be the largest t of the best placement; larger ones
// cannot be, once (m − 1)·T and the least Σ t exceed what was found.
namespace unisono::parallel {
namespace {

constexpr double kImpossible = std::numeric_limits<double>::infinity();
constexpr int kMostFreeRanks = 8;       // sets of ranks that are used up: 2^8
constexpr std::size_t kMostTries = 96;  // maxima above the least possible one
constexpr std::size_t kRefined = 8;     // best placements that are refined
constexpr double kRoom = 1.2;           // by which the programme's length may be off

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// The ranks that have run out, as bits; or, where the order is fixed, the first so many.
using Used = unsigned;

/// What a rank is, for the choice of the one that comes next.
bool are_alike(const PlacementProblem& problem, int a, int b) {
  const auto sum = [&](int rank) { return problem.seconds[at(rank)]; };
  return problem.limits[at(a)] == problem.limits[at(b)] &&
         std::ranges::equal(sum(a), sum(b), [](const PassSeconds& x, const PassSeconds& y) {
           return x.forward == y.forward && x.backward_inputs == y.backward_inputs &&
                  x.backward_weights == y.backward_weights;
         });
}

/// The dynamic programme over pieces in sequence.
class Search {
 public:
  /// \param order the rank of each stage; empty: any order
  Search(const Prices& prices, std::vector<int> order) : prices_(prices), order_(std::move(order)) {
    const PlacementProblem& problem = prices.problem();
    for (int b = 0; b < problem.stages(); ++b) {
      Used before = 0;
      for (int a = 0; a < b; ++a) {
        if (are_alike(problem, a, b)) before |= 1U << at(a);
      }
      alike_before_.push_back(before);
    }
  }

  /// The placement with the least Σ t of those whose largest t is at most this; nothing where there is none.
  struct Found {
    Placement placement;
    double sum = 0, largest = 0;
  };
  std::optional<Found> best(double largest) {
    const auto cost = [largest](double seconds, double alone, double lack) {
      return lack > 0 || seconds > largest ? kImpossible : alone;
    };
    return run(cost, std::plus<>());
  }
  /// The placement whose stage that lacks most memory lacks least.
  std::optional<Found> least_lack() {
    const auto cost = [](double, double, double lack) { return lack; };
    return run(
        cost, [](double a, double b) { return std::max(a, b); }, -kImpossible);
  }
  /// All times that a stage may take, from the least.
  std::vector<double> times() const;

 private:
  struct State {
    std::vector<double> cost;               // [segments + 1] of having placed so many
    std::vector<std::pair<int, int>> from;  // [segments + 1] segments before this piece, and its rank
  };
  int pieces() const { return prices_.problem().pieces(); }
  int segments() const { return prices_.problem().segments(); }

  template <typename Cost, typename Join>
  std::optional<Found> run(const Cost& cost, const Join& join, double empty = 0);
  template <typename Cost, typename Join>
  void extend(Used used, int piece, const Cost& cost, const Join& join);
  std::vector<int> next_ranks(Used used, int piece) const;
  Used with(Used used, int rank) const { return order_.empty() ? used | 1U << at(rank) : used + 1; }
  Found traced(const std::vector<Used>& history) const;
  Found found() const;

  const Prices& prices_;
  std::vector<int> order_;
  std::vector<Used> alike_before_;             // [ranks] those alike with smaller numbers: they come first
  std::vector<std::map<Used, State>> levels_;  // [pieces + 1]
};

std::vector<int> Search::next_ranks(Used used, int piece) const {
  if (!order_.empty()) return {order_[at(piece % prices_.problem().stages())]};
  std::vector<int> ranks;
  for (int rank = 0; rank < prices_.problem().stages(); ++rank) {
    const bool is_free = (used >> at(rank) & 1U) == 0;
    if (is_free && (alike_before_[at(rank)] & ~used) == 0) ranks.push_back(rank);
  }
  return ranks;
}

template <typename Cost, typename Join>
void Search::extend(Used used, int piece, const Cost& cost, const Join& join) {
  const int stages = prices_.problem().stages(), stage = piece % stages, chunk = piece / stages;
  const State& before = levels_[at(piece)].at(used);
  for (const int rank : next_ranks(used, piece)) {
    State& next = levels_[at(piece + 1)]
                      .try_emplace(with(used, rank), State{std::vector<double>(at(segments() + 1), kImpossible),
                                                           std::vector<std::pair<int, int>>(at(segments() + 1))})
                      .first->second;
    for (int last = piece + 1; last <= segments() - (pieces() - piece - 1); ++last) {
      for (int first = piece; first < last; ++first) {
        if (before.cost[at(first)] == kImpossible) continue;
        const double lack = prices_.bytes(stage, chunk, first, last) - prices_.free_bytes(rank);
        const double sum = join(before.cost[at(first)], cost(prices_.seconds(rank, first, last),
                                                             prices_.seconds_alone(rank, first, last), lack));
        if (sum >= next.cost[at(last)]) continue;
        next.cost[at(last)] = sum;
        next.from[at(last)] = {first, rank};
      }
    }
  }
}

template <typename Cost, typename Join>
std::optional<Search::Found> Search::run(const Cost& cost, const Join& join, double empty) {
  levels_.assign(at(pieces() + 1), {});
  State start{std::vector<double>(at(segments() + 1), kImpossible), {}};
  start.cost.front() = empty;
  levels_.front().emplace(0, std::move(start));
  for (int piece = 0; piece < pieces(); ++piece) {
    for (const auto& [used, state] : levels_[at(piece)]) extend(used, piece, cost, join);
  }
  const State& end = levels_.back().begin()->second;
  if (end.cost.back() == kImpossible) return {};
  return found();
}

Search::Found Search::found() const {
  const PlacementProblem& problem = prices_.problem();
  Found found{.placement = {.cuts = std::vector<int>(at(pieces() + 1), segments()),
                            .ranks = std::vector<int>(at(problem.stages()))}};
  Used used = levels_.back().begin()->first;
  for (int piece = pieces(); piece-- > 0;) {
    const int last = found.placement.cuts[at(piece + 1)];
    const auto [first, rank] = levels_[at(piece + 1)].at(used).from[at(last)];
    found.placement.cuts[at(piece)] = first;
    found.placement.ranks[at(piece % problem.stages())] = rank;
    used = order_.empty() ? used & ~(1U << at(rank)) : used - 1;
    const double seconds = prices_.seconds(rank, first, last);
    found.sum += prices_.seconds_alone(rank, first, last);
    found.largest = std::max(found.largest, seconds);
  }
  return found;
}

std::vector<double> Search::times() const {
  std::vector<double> times;
  const int n = segments();
  for (int rank = 0; rank < prices_.problem().stages(); ++rank) {
    for (int first = 0; first < n; ++first) {
      for (int last = first + 1; last <= n; ++last) times.push_back(prices_.seconds(rank, first, last));
    }
  }
  std::ranges::sort(times);
  times.erase(std::unique(times.begin(), times.end(), [](double a, double b) { return b - a <= 1e-12 * b; }),
              times.end());
  return times;
}

/// How often the largest time of a piece comes in the length of a step, apart from its own place in Σ t.
double repetitions(const PlacementProblem& problem) {
  if (problem.settings.schedule == PipelineSchedule::naive) return 0;
  return std::max(0.1, static_cast<double>(problem.micro_batches * problem.chunks() - 1));
}

/// Candidates: for each of the maxima that may be the best. Empty where nothing fits.
std::vector<Placement> candidates(Search& search, const PlacementProblem& problem) {
  const auto least_sum = search.best(kImpossible);
  if (!least_sum) return {};
  std::vector<Placement> found = {least_sum->placement};
  const double times_largest = repetitions(problem);
  if (times_largest == 0) return found;
  const std::vector<double> times = search.times();
  const auto fits = [&](double largest) { return search.best(largest * (1 + 1e-9)).has_value(); };
  auto time = std::partition_point(times.begin(), times.end(), [&](double one) { return !fits(one); });
  double best = least_sum->sum + times_largest * least_sum->largest;
  for (std::size_t tries = 0; time != times.end() && tries < kMostTries; ++time, ++tries) {
    if (least_sum->sum + times_largest * *time > best * kRoom) break;
    const auto one = search.best(*time * (1 + 1e-9));
    best = std::min(best, one->sum + times_largest * one->largest);
    if (found.back().cuts != one->placement.cuts || found.back().ranks != one->placement.ranks) {
      found.push_back(one->placement);
    }
  }
  return found;
}

/// Placements that differ from this one by one cut, or by two ranks.
std::vector<Placement> neighbours(const Placement& placement, bool any_order) {
  std::vector<Placement> near;
  for (std::size_t cut = 1; cut + 1 < placement.cuts.size(); ++cut) {
    for (const int to : {placement.cuts[cut] - 1, placement.cuts[cut] + 1}) {
      if (to <= placement.cuts[cut - 1] || to >= placement.cuts[cut + 1]) continue;
      near.push_back(placement);
      near.back().cuts[cut] = to;
    }
  }
  for (std::size_t a = 0; any_order && a < placement.ranks.size(); ++a) {
    for (std::size_t b = a + 1; b < placement.ranks.size(); ++b) {
      near.push_back(placement);
      std::swap(near.back().ranks[a], near.back().ranks[b]);
    }
  }
  return near;
}

/// A neighbour that is better, of so many steps away at the most; nothing where there is none.
std::optional<Placement> better_near(const Prices& prices, const Placement& best, const Placement& from, int steps) {
  const Better better{prices.problem()};
  const std::vector<Placement> near = neighbours(from, prices.problem().any_order);
  for (const Placement& one : near) {
    Placement tried = prices.priced(one);
    if (better(tried, best)) return tried;
  }
  for (std::size_t i = 0; steps > 1 && i < near.size(); ++i) {
    if (auto found = better_near(prices, best, near[i], steps - 1)) return found;
  }
  return {};
}

/// Goes to better neighbours as long as there are any; of few stages also to those two steps away.
Placement refined(const Prices& prices, Placement placement) {
  constexpr int kFewStages = 4;
  const int steps = prices.problem().stages() <= kFewStages ? 2 : 1;
  while (auto found = better_near(prices, placement, placement, steps)) placement = std::move(*found);
  return placement;
}

std::vector<int> given_order(int stages) {
  std::vector<int> order(at(stages));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

/// The best of all with one kind of recomputation.
Placement best_of(const Prices& prices) {
  const PlacementProblem& problem = prices.problem();
  // A stage of several pieces has one rank for all: its place in the order is fixed until the refinement.
  const bool any = problem.any_order && problem.chunks() == 1 && problem.stages() <= kMostFreeRanks;
  Search search(prices, any ? std::vector<int>{} : given_order(problem.stages()));
  std::vector<Placement> found = candidates(search, problem);
  if (found.empty()) found.push_back(search.least_lack()->placement);
  for (Placement& one : found) one = prices.priced(std::move(one));
  const Better better{problem};
  std::ranges::stable_sort(found, better);
  found.resize(std::min(found.size(), kRefined));
  for (Placement& one : found) one = refined(prices, std::move(one));
  return *std::ranges::min_element(found, better);
}

}  // namespace

Placement place(const PlacementProblem& problem) {
  assert(problem.pieces() <= problem.segments());
  std::optional<Placement> best;
  std::vector<Recompute> tried = {problem.settings.recompute};
  if (tried.front() == Recompute::automatic) tried = {Recompute::none, Recompute::all};
  for (const Recompute recompute : tried) {
    Placement found = best_of(Prices(problem, recompute));
    if (!best || Better{problem}(found, *best)) best = std::move(found);
  }
  return *best;
}

namespace {

/// The passes of a stage if all were equal.
PassSeconds mean_stage(const SimulatedCosts& costs, int stages) {
  PassSeconds sum;
  for (const PassSeconds& piece : costs.pieces) sum += piece;
  return {sum.forward / stages, sum.backward_inputs / stages, sum.backward_weights / stages};
}

}  // namespace

Forecast forecast(const PlacementProblem& problem, const Placement& placement, int columns) {
  const Prices prices(problem, placement.recompute);
  const SimulatedCosts costs = prices.costs_of(placement);
  const Simulation simulation = simulate(prices.program(), costs);
  Forecast result{.seconds = simulation.seconds,
                  .formula = formula_seconds(problem.settings.schedule, problem.stages(), problem.chunks(),
                                             problem.micro_batches, mean_stage(costs, problem.stages())),
                  .timeline = timeline_text(prices.program(), simulation, columns),
                  .svg = timeline_svg(prices.program(), simulation)};
  double busy = 0;
  for (const SimulatedStage& stage : simulation.stages) {
    busy += stage.busy;
    result.busy.push_back(stage.busy);
    result.bytes_sent.push_back(stage.bytes_sent);
  }
  result.bubble = simulation.seconds > 0 ? 1 - busy / (problem.stages() * simulation.seconds) : 0;
  return result;
}

}  // namespace unisono::parallel
