// Minimisation of the loss of the whole training set: L-BFGS, Newton, conjugate gradients, gradient descent.
//   An iteration of the method (optim/batch_method.hpp) asks for f(x) and ∇f(x) at some points, most often at one:
//     a coordinator deals portions of the set to the ranks, more to the faster ones     batch/portions.hpp
//     each rank adds up its portions' gradients, as far as the tree of portions allows  batch/portions.hpp
//     each rank gets its shard of the sum, and works on its shards of all vectors       batch/divided_function.hpp
//   The tree's leaves are the portions, whoever computes them. So the result is, bit for bit, that of one rank.
//   Dean et al., "Large scale distributed deep networks" (Sandblaster), NIPS 2012, section 4.2; Chen, Wang & Zhou,
//   "Large-scale L-BFGS using MapReduce", NIPS 2014, for the sharded vectors.
// Cost per evaluation and rank: 4N bytes for θ, and 4N for each of its nodes of the tree, one where portions do not
// move; a few small reductions. Memory: vectors of the method / P, and N floats for each node.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "batch/alternating.hpp"
#include "batch/divided_function.hpp"
#include "step.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/optim/catalog.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {
namespace {

constexpr std::int64_t kLeastPortions = 8, kMostPortions = 64;  // where they are chosen by set and model

struct BatchSettings {
  std::int64_t portions = 0;  ///< 0: chosen by set and model
  bool backup = true;
};

class BatchStrategy final : public Strategy {
 public:
  explicit BatchStrategy(const StrategySettings& settings) : settings_(settings.own.of<BatchSettings>()) {}
  void require(const models::Model& model, int ranks) const override;
  void train(TrainContext& run) override;
  std::int64_t extra_bytes(const models::Model& model, int ranks, int states) const override;
  int portions(const models::Model& model, const data::DatasetInfo& data) const override;
  std::optional<Traffic> traffic(const models::Model& model, int ranks, int states,
                                 const data::DatasetInfo&) const override;

 private:
  void count(TrainContext& run, const optim::BatchIteration& iteration, const DividedFunction& function) const;

  BatchSettings settings_;
};

void describe_batch(StrategySettings& settings, ConfigVisitor& visitor) {
  auto& own = settings.own.of<BatchSettings>();
  visitor.number_or({.name = "portions",
                     .meaning = "portions that the training set is cut into, which are dealt to the ranks: more of "
                                "them balance ranks of unequal speed better, and cost more additions of gradients. "
                                "They decide the result's rounding, and ranks do not",
                     .range = at_least(1).at_most(1 << 16)},
                    own.portions, {"auto", "8 to 64, by the sizes of set and model"});
  visitor.field(
      {.name = "backup",
       .meaning = "give portions that a slow rank is computing to idle ranks, too; the first to finish counts"},
      own.backup);
}

void check_batch(const StrategySettings& settings, const StrategyTerms& terms, ConfigVisitor& visitor) {
  const auto own = settings.own.of<BatchSettings>();
  visitor.require("strategy", !terms.alternating || (own.portions == 0 && own.backup),
                  "portions and backup mean nothing to als, which divides users and items among the "
                  "ranks: remove them");
}

}  // namespace

/// As the settings say or, by default, a function of model and set: at most 64 where that is no more than a tenth of a
/// pass's time for adding up their gradients, but at least 8, and never more than there are examples.
int BatchStrategy::portions(const models::Model& model, const data::DatasetInfo& data) const {
  constexpr double kSecondsPerFlop = 0.02e-9, kSecondsPerSparseFlop = 0.25e-9;  // of products; of gathered weights
  constexpr double kSecondsPerFloat = 2e-9, kSecondsPerPortion = 20e-6;  // to clear and add a gradient; its notes
  auto portions = settings_.portions;
  if (portions == 0) {
    const double flops = model.flops_per_example() * static_cast<double>(data.train);
    const double pass = flops * (data.kind == data::SetKind::sparse ? kSecondsPerSparseFlop : kSecondsPerFlop);
    const double additions = kSecondsPerPortion + kSecondsPerFloat * static_cast<double>(model.layout().size());
    const double affordable = std::clamp(0.1 * pass / additions, 1.0, static_cast<double>(kMostPortions));
    portions =
        std::max(kLeastPortions, static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(affordable))));
  }
  return static_cast<int>(std::clamp<std::int64_t>(portions, 1, std::max<std::int64_t>(1, data.train)));
}

void BatchStrategy::require(const models::Model& model, int) const {
  if (model.alternating() == nullptr) require_gradient(model);
}

namespace {

/// How many nodes of the tree cover some portions.
std::int64_t nodes_of(const comm::SumTree& tree, const comm::Slice& portions) {
  return std::ssize(tree.cover(portions));
}

/// The most nodes that a rank holds at once where no portion moves, that of the portion in progress included.
std::int64_t most_nodes_at_once(std::int64_t portions, int ranks) {
  const comm::SumTree tree(static_cast<int>(portions));
  std::int64_t most = 1;
  for (int rank = 0; rank < ranks; ++rank) {
    const comm::Slice own = comm::slice_of(portions, rank, ranks);
    for (Index now = own.first; now < own.last; ++now) most = std::max(most, nodes_of(tree, {own.first, now}) + 1);
  }
  return most;
}

/// The most nodes that a rank has at the end of a pass.
std::int64_t most_nodes_at_end(std::int64_t portions, int ranks) {
  const comm::SumTree tree(static_cast<int>(portions));
  std::int64_t most = 1;
  for (int rank = 0; rank < ranks; ++rank) most = std::max(most, nodes_of(tree, comm::slice_of(portions, rank, ranks)));
  return most;
}

}  // namespace

/// Gradients of nodes of the tree; with several ranks also one of portions that moved here, and the shards of the
/// others' nodes, of which each has about two.
std::int64_t BatchStrategy::extra_bytes(const models::Model& model, int ranks, int) const {
  if (model.alternating() != nullptr) return alternating_bytes(*model.alternating(), ranks);
  const std::int64_t n = model.layout().size(), portions = settings_.portions > 0 ? settings_.portions : kMostPortions;
  const std::int64_t nodes = most_nodes_at_once(portions, ranks) + (ranks > 1 ? 1 : 0);
  return static_cast<std::int64_t>(sizeof(float)) * (nodes * n + (ranks > 1 ? 2 * n * (ranks - 1) / ranks : 0));
}

/// Of an evaluation, and of an iteration's work on the vectors, of which each rank has its shards.
std::optional<Traffic> BatchStrategy::traffic(const models::Model& model, int ranks, int states,
                                              const data::DatasetInfo& data) const {
  constexpr double kOwn = 10, kEach = 2;  // floats that an iteration touches, beside each vector that is kept: twice
  constexpr double kReductions = 5;       // of a number: values, slopes, whether all ranks are at the same point, …
  constexpr Index kProducts = 3;          // dot products of each vector that is kept, in one reduction
  if (model.alternating() != nullptr) return {};
  const Index n = model.layout().size();
  const Index number = VectorShards(n, ranks).pieces() * Index{sizeof(double) / sizeof(float)};  // a sum's, in floats
  const std::int64_t nodes = most_nodes_at_end(portions(model, data), ranks);
  Traffic traffic{.touched_floats = (kOwn + kEach * states) * static_cast<double>(n) / ranks,
                  .makes_serial_steps = true};
  traffic.exchanges.push_back({.pattern = Pattern::gather, .floats = (1 + nodes) * n / ranks});
  traffic.exchanges.push_back({.floats = kProducts * states * number});
  traffic.exchanges.push_back({.floats = number, .every_steps = 1 / kReductions});
  return traffic;
}

void BatchStrategy::train(TrainContext& run) {
  if (run.method == nullptr) return train_alternating(run);
  DividedFunction function(run, settings_.backup);
  Buffer x(function.size());
  std::ranges::copy(part(run.state.parameters, function.shards().shard(run.communicator.rank())), x.data());
  bool go_on = true;
  for (std::int64_t step = run.first_step; go_on && step < run.total_steps; ++step) {
    optim::BatchIteration iteration = run.method->iterate(function, x.view());
    const kernels::LossSums losses = function.settle(x.view());
    if (run.communicator.is_root()) run.sums += losses;
    const std::int64_t passes = function.passes() - run.counters.of<BatchCounters>().passes;
    iteration.passes = function.passes();
    count(run, iteration, function);
    go_on = run.observer.step({.step = step + 1,
                               .epoch = step,
                               .last_of_epoch = true,
                               .global_size = passes * run.objective->examples(),
                               .iteration = iteration});
    go_on &= iteration.end == optim::BatchEnd::none;
  }
}

void BatchStrategy::count(TrainContext& run, const optim::BatchIteration& iteration,
                          const DividedFunction& function) const {
  auto& counters = run.counters.of<BatchCounters>();
  counters.passes = iteration.passes;
  counters.evaluations += iteration.evaluations;
  counters.products += iteration.products;
  counters.hessians += iteration.hessians;
  if (function.coordinator() == nullptr) return;
  counters.moved = function.coordinator()->dealer().moved();
  counters.repeated = function.coordinator()->dealer().repeated();
}

void BatchCounters::describe(CounterVisitor& visitor) {
  const auto same = [](std::string_view name) { return Counter{.name = name, .combine = Combine::same}; };
  const CounterGroup group(visitor, "minimisation");
  visitor.count({.name = "passes", .combine = Combine::same, .hidden = true}, passes);
  visitor.count(same("evaluations"), evaluations);
  visitor.count(same("hessian_products"), products);
  visitor.count(same("hessians"), hessians);
  if (portions == 0) return;
  visitor.count(same("portions"), portions);
  visitor.count({.name = "portions_computed"}, computed);
  visitor.count({.name = "portions_cancelled"}, cancelled);
  visitor.count({.name = "portions_moved"}, moved);
  visitor.count({.name = "portions_repeated"}, repeated);
  visitor.count({.name = "nodes", .combine = Combine::same, .hidden = true}, nodes);
  const double all_passes = static_cast<double>(std::max<std::int64_t>(1, passes));
  visitor.figure({.name = "subtrees_per_pass"}, static_cast<double>(nodes) / all_passes);
  visitor.count({.name = "sent_bytes", .unit = "bytes"}, sent_bytes);
}

std::string BatchCounters::text(const CounterTerms&) const {
  if (sent_bytes == 0) return "";
  const auto a_pass = [this](std::int64_t count) {
    return static_cast<double>(count) / static_cast<double>(std::max<std::int64_t>(1, passes));
  };
  return fmt::format(
      "  portions    {}, {:.1f} moved and {:.1f} repeated in a pass; {:.1f} subtrees and {:.3g} MB sent in a pass\n",
      portions, a_pass(moved), a_pass(repeated), a_pass(nodes), a_pass(sent_bytes) * 1e-6);
}

StrategyKind batch_strategy() {
  return {.name = "batch",
          .meaning =
              "whole-batch methods: portions of the training set are dealt to the ranks, and each has a shard "
              "of the method's vectors",
          .describe = describe_batch,
          .check = check_batch,
          .make = construct<BatchStrategy>,
          .traits = {.steps_together = true, .needs_gradient = true, .has_one_model = true, .whole_batch = true},
          .waiting = "ranks waited for shards of vectors",
          .relief = [](const StrategySettings&, bool) -> std::string {
            return "fewer strategy.portions, or strategy.backup = false, send fewer gradients";
          }};
}

}  // namespace unisono::strategies
