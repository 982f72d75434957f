#include "unisono/session/abilities.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "unisono/base/errors.hpp"

namespace unisono::session {
namespace {

constexpr double kFewMicroBatches = 1.05;  // a step may be so much longer than with any number of them
constexpr double kFewStages = 1.02;
constexpr double kOfLimits = 0.95;  // that the largest batch may take, since predictions are off by a few percent
constexpr std::int64_t kMostPerStage = 64;       // micro-batches of a replica
constexpr std::int64_t kUsualPerStage = 4;       // … where the batch is chosen, too
constexpr Index kMostExamples = Index{1} << 20;  // of a micro-batch

/// The order of the ranks that the config asks for.
std::vector<int> order_of_stages(const settings::Config& config, int stages) {
  const auto& given = config.replica.placement.ranks;
  std::vector<int> order(static_cast<std::size_t>(stages));
  std::iota(order.begin(), order.end(), 0);
  if (!given.empty() && stages > 1) std::ranges::copy(given, order.begin());
  return order;
}

/// Chooses the placement for steps of given sizes.
class Placer {
 public:
  Placer(const StagePlan& plan, const settings::Config& config) : plan_(plan), config_(config) {}

  PlacedModel place(const StepSizes& sizes) const {
    PlacedModel placed{.sizes = sizes, .placement = {}, .problem = plan_.problem(sizes)};
    const std::vector<int> order = order_of_stages(config_, sizes.stages);
    placed.placement = in_order(reordered(placed.problem, order), sizes);
    for (int& rank : placed.placement.ranks) rank = order[static_cast<std::size_t>(rank)];
    return placed;
  }

 private:
  /// The same problem for ranks in another order.
  static parallel::PlacementProblem reordered(parallel::PlacementProblem problem, const std::vector<int>& order) {
    const auto seconds = problem.seconds;
    const auto limits = problem.limits;
    for (std::size_t stage = 0; stage < order.size(); ++stage) {
      problem.seconds[stage] = seconds[static_cast<std::size_t>(order[stage])];
      problem.limits[stage] = limits[static_cast<std::size_t>(order[stage])];
    }
    return problem;
  }
  parallel::Placement in_order(const parallel::PlacementProblem& problem, const StepSizes& sizes) const {
    if (sizes.stages == 1) return priced(problem, {.cuts = {0, plan_.segments()}, .ranks = {0}});
    const bool by_hand = !config_.replica.placement.first_layers.empty();
    if (!by_hand && config_.replica.asks_for_placement()) return parallel::place(problem);
    parallel::Placement placement = with_cuts(problem, sizes);  // without first layers: of equal flops
    return by_hand || !placement.lack(problem.limits) ? placement : parallel::place(problem);
  }
  parallel::Placement with_cuts(const parallel::PlacementProblem& problem, const StepSizes& sizes) const {
    const parallel::ReplicaSettings settings = plan_.with(sizes).replica;
    parallel::Placement placement{.cuts = parallel::Stages(plan_.staged(), settings, 1).cuts()};
    placement.ranks.resize(static_cast<std::size_t>(sizes.stages));
    std::iota(placement.ranks.begin(), placement.ranks.end(), 0);
    const bool may_choose = settings.recompute == parallel::Recompute::automatic;
    placement.recompute = may_choose ? parallel::Recompute::none : settings.recompute;
    placement = priced(problem, std::move(placement));
    if (!may_choose || !placement.lack(problem.limits)) return placement;
    placement.recompute = parallel::Recompute::all;
    return priced(problem, std::move(placement));
  }

  const StagePlan& plan_;
  const settings::Config& config_;
};

double seconds_of_example(const PlacedModel& placed) {
  return placed.placement.seconds / static_cast<double>(placed.sizes.batch_size);
}

/// Whether a fits, or lacks less.
bool lacks_less(const PlacedModel& a, const PlacedModel& b) {
  const auto missing = [](const PlacedModel& one) {
    const auto lack = one.placement.lack(one.problem.limits);
    return lack ? lack->bytes : 0;
  };
  return missing(a) < missing(b);
}

/// The first of those that fit whose steps are at most so much longer than the shortest; else the one that lacks least.
PlacedModel first_of_the_best(std::vector<PlacedModel> found, double factor) {
  double least = std::numeric_limits<double>::infinity();
  for (const PlacedModel& one : found) {
    if (one.fits()) least = std::min(least, seconds_of_example(one));
  }
  for (PlacedModel& one : found) {
    if (one.fits() && seconds_of_example(one) <= factor * least) return std::move(one);
  }
  return std::move(*std::ranges::min_element(found, lacks_less));
}

class Chooser {
 public:
  Chooser(const StagePlan& plan, const settings::Config& config)
      : plan_(plan), config_(config), placer_(plan, config) {}

  PlacedModel choose() const {
    std::vector<PlacedModel> found;
    for (const int stages : stages_to_try()) found.push_back(with_stages(stages));
    return first_of_the_best(std::move(found), kFewStages);
  }

 private:
  std::vector<int> stages_to_try() const {
    if (config_.replica.stages > 0) return {config_.stages()};
    std::vector<int> stages;
    for (int number = 1; number <= plan_.abilities().ranks; ++number) {
      const auto pieces = number == 1 ? 1 : number * config_.replica.chunks;
      if (plan_.abilities().ranks % (number * plan_.tensor()) == 0 && pieces <= plan_.segments())
        stages.push_back(number);
    }
    return stages;
  }

  PlacedModel with_stages(int stages) const {
    if (config_.train.batch_size < 0) return with_largest_batch(stages);
    std::vector<PlacedModel> found;
    for (const std::int64_t number : micro_batches_to_try(stages)) {
      found.push_back(placer_.place({stages, config_.train.batch_size, number}));
    }
    return first_of_the_best(std::move(found), kFewMicroBatches);
  }

  std::vector<std::int64_t> micro_batches_to_try(int stages) const {
    if (config_.train.micro_batches > 0) return {config_.train.micro_batches};
    const Index batch = config_.train.batch_size;
    std::vector<std::int64_t> numbers = {std::min<Index>(plan_.replicas(stages), batch)};
    for (std::int64_t each = stages == 1 ? 2 : stages; each <= kMostPerStage * stages; each *= 2) {
      const std::int64_t number = each * plan_.replicas(stages);
      if (number <= batch) numbers.push_back(number);
    }
    return numbers;
  }

  /// Of the batches whose micro-batches are equally large.
  PlacedModel with_largest_batch(int stages) const {
    const std::int64_t usual = (stages == 1 ? 1 : kUsualPerStage * stages) * plan_.replicas(stages);
    const std::int64_t number = config_.train.micro_batches > 0 ? config_.train.micro_batches : usual;
    const auto with = [&](Index examples) { return placer_.place({stages, examples * number, number}); };
    const auto fits_easily = [](const PlacedModel& placed) {
      std::vector<double> limits = placed.problem.limits;
      for (double& limit : limits) limit *= kOfLimits;
      return !placed.placement.lack(limits);
    };
    PlacedModel best = with(1);
    const Index most = plan_.most_examples() > 0 ? std::max<Index>(1, plan_.most_examples() / number) : kMostExamples;
    Index fits = 1, too_large = most + 1;
    if (!fits_easily(best)) return best;
    for (Index next = std::min<Index>(2, most); fits + 1 < too_large;) {
      PlacedModel tried = with(next);
      if (fits_easily(tried)) {
        fits = next;
        best = std::move(tried);
        next = too_large > most ? std::min(2 * fits, most) : (fits + too_large) / 2;
      } else {
        too_large = next;
        next = (fits + too_large) / 2;
      }
    }
    return best;
  }

  const StagePlan& plan_;
  const settings::Config& config_;
  Placer placer_;
};

std::string layers_of(const StagePlan& plan, const PlacedModel& placed, int stage) {
  parallel::ReplicaSettings settings = plan.with(placed.sizes).replica;
  if (placed.sizes.stages == 1) return "all layers";
  settings.placement.first_layers = plan.first_layers(placed.placement.cuts);
  return parallel::Stages(plan.staged(), settings, 1).text_of(stage);
}

bool fits(const StagePlan& plan, const settings::Config& config, const StepSizes& sizes) {
  return Placer(StagePlan(plan, config), config).place(sizes).fits();
}

/// Looks for changes of a config with which a model would fit.
class Remedies {
 public:
  Remedies(const StagePlan& plan, const settings::Config& config, const StepSizes& sizes)
      : plan_(plan), config_(config), sizes_(sizes) {
    recomputing_.replica.recompute = parallel::Recompute::all;
  }

  std::vector<std::string> find() {
    try_recomputation_and_micro_batches();
    try_smaller(config_.train.evaluation_batch_size, 1, "train.evaluation_batch_size", [this](Index less) {
      settings::Config changed = config_;
      changed.train.evaluation_batch_size = less;
      return fits(plan_, changed, sizes_);
    });
    try_smaller(sizes_.batch_size, sizes_.micro_batches, "train.batch_size", [this](Index less) {
      return fits(plan_, config_, {sizes_.stages, less, sizes_.micro_batches});
    });
    try_more_stages();
    return std::move(found_);
  }

 private:
  void try_recomputation_and_micro_batches() {
    const bool may_recompute = sizes_.stages > 1 && config_.replica.recompute == parallel::Recompute::none;
    const bool recomputes = may_recompute && fits(plan_, recomputing_, sizes_);
    if (recomputes) found_.emplace_back("replica.recompute = \"all\"");
    if (const auto more = enough_micro_batches(config_)) {
      found_.push_back(fmt::format("train.micro_batches = {}", more));
    } else if (may_recompute && !recomputes) {
      const auto together = enough_micro_batches(recomputing_);
      if (together)
        found_.push_back(fmt::format("replica.recompute = \"all\" with train.micro_batches = {}", together));
    }
  }
  /// 0: any number would be too small.
  std::int64_t enough_micro_batches(const settings::Config& config) const {
    for (std::int64_t more = 2 * sizes_.micro_batches; more <= sizes_.batch_size; more *= 2) {
      if (fits(plan_, config, {sizes_.stages, sizes_.batch_size, more})) return more;
    }
    return 0;
  }
  template <typename Try>
  void try_smaller(Index now, Index least, std::string_view key, const Try& would_fit) {
    for (Index less = now / 2; less >= least; less /= 2) {
      if (would_fit(less)) return found_.push_back(fmt::format("{} = {}", key, less));
    }
  }
  void try_more_stages() {
    constexpr int kMost = 64;
    settings::Config changed = config_;
    changed.replica.placement.first_layers.clear();
    changed.replica.placement.ranks.clear();
    const StagePlan same(plan_, changed);
    for (int stages = sizes_.stages + 1; stages * config_.replica.chunks <= plan_.segments() && stages <= kMost;
         ++stages) {
      const StagePlan other(same, stages * plan_.replicas(sizes_.stages) * plan_.tensor());
      if (!Placer(other, changed).place({stages, sizes_.batch_size, sizes_.micro_batches}).fits()) continue;
      return found_.push_back(fmt::format("{} stages (mpirun -n {})", stages, other.abilities().ranks));
    }
  }

  const StagePlan& plan_;
  const settings::Config& config_;
  const StepSizes sizes_;
  settings::Config recomputing_ = config_;
  std::vector<std::string> found_;
};

}  // namespace

PlacedModel place_model(const StagePlan& plan, const settings::Config& config) {
  return Chooser(plan, config).choose();
}

Settled chosen(const StagePlan& plan, Settled asked, const PlacedModel& placed) {
  const bool whole = placed.sizes.stages == 1;
  parallel::ReplicaSettings& replica = asked.config.replica;
  settings::TrainSettings& train = asked.config.train;
  const auto choose = [&](auto& field, auto value, std::string key, std::string why) {
    asked.choose(field, std::remove_reference_t<decltype(field)>(std::move(value)),
                 {std::move(key), ChosenBy::placement, std::move(why)});
  };
  choose(replica.stages, placed.sizes.stages, "replica.stages", "the shortest step that memory allows");
  choose(replica.recompute, whole ? plan.with(placed.sizes).replica.recompute : placed.placement.recompute,
         "replica.recompute", whole ? "each rank holds the whole model" : "the memory of the stages");
  if (train.batch_size < 0)
    choose(train.batch_size, placed.sizes.batch_size, "train.batch_size", "as many examples as memory allows");
  choose(train.micro_batches, placed.sizes.micro_batches, "train.micro_batches",
         "the fewest with which steps are not much longer than with any number");
  if (whole) return asked;
  choose(replica.placement.first_layers, plan.first_layers(placed.placement.cuts), "replica.placement.first_layers",
         "the shortest step that memory allows");
  std::vector<std::int64_t> ranks(placed.placement.ranks.begin(), placed.placement.ranks.end());
  if (std::ranges::is_sorted(ranks)) ranks.clear();
  choose(replica.placement.ranks, std::move(ranks), "replica.placement.ranks", "what the ranks can do");
  return asked;
}

std::string refusal(const StagePlan& plan, const settings::Config& config, const PlacedModel& placed) {
  const auto lack = placed.placement.lack(placed.problem.limits).value();
  const auto stage = static_cast<std::size_t>(lack.stage);
  const auto rank = static_cast<std::size_t>(placed.placement.ranks[stage]);
  const std::vector<std::string> remedies = Remedies(plan, config, placed.sizes).find();
  return fmt::format(
      "replica: the model fits into no placement on {}: {} would need {}, {} more than the {} that rank {} may take; "
      "{}",
      count_of(plan.abilities().ranks, "rank"),
      placed.sizes.stages == 1 ? std::string("a rank with all layers")
                               : fmt::format("stage {} ({})", lack.stage, layers_of(plan, placed, lack.stage)),
      bytes_text(placed.placement.bytes[stage]), bytes_text(lack.bytes), bytes_text(placed.problem.limits[rank]),
      rank * static_cast<std::size_t>(plan.tensor()),
      remedies.empty()
          ? "neither activations that are computed anew, nor more micro-batches, smaller batches or more stages would "
            "do: give the ranks more memory"
          : fmt::format("what would do: {}", fmt::join(remedies, ", or ")));
}

std::string bytes_text(double bytes) {
  const double mebi = bytes / (1 << 20);
  if (mebi >= 10240) return fmt::format("{:.1f} GiB", mebi / 1024);
  return mebi < 1 ? fmt::format("{:.1f} KiB", mebi * 1024) : fmt::format("{:.1f} MiB", mebi);
}

}  // namespace unisono::session
