// Synchronous data-parallel training: all ranks step on the mean gradient over the global batch.
//     g ← Σ_r (1/n) Σ_{i ∈ batch of r} ∇ℓ_i(θ)          n: examples of the step on all ranks
//     θ ← θ − rate · direction(g)                        on every rank, with the same bits
//   Each example has the same weight, so the ranks' parts may be uneven or empty. g is summed in buckets, from its end
//   to its start, each as soon as the backward pass has finished it.
//   Goyal et al., "Accurate, large minibatch SGD", 2017; Li et al., "PyTorch distributed", VLDB 2020, for the buckets.
//   With shard = "optimizer" each rank makes its part of the step, with the same bits: see exchange/sharded_update.cpp.
// Cost per step: allreduces of 4N bytes in all, N flops; local running statistics add one of their own size.
#include "allreduce.hpp"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>

#include "step.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/parallel/exchange.hpp"
#include "unisono/parallel/sharded_update.hpp"

namespace unisono::strategies {
namespace {

enum class ShardChoice { automatic, optimizer, none };

constexpr Named<ShardChoice> kShards[] = {
    {ShardChoice::automatic, "automatic",
     "\"optimizer\" where all ranks are on one node and that is faster: for large models; else \"none\""},
    {ShardChoice::optimizer, "optimizer",
     "each rank keeps the optimizer's state of its part of the parameters (ZeRO-1); on one node the ranks share one "
     "copy of the parameters"},
    {ShardChoice::none, "none", "every rank keeps the optimizer's whole state"}};

struct AllreduceSettings {
  ShardChoice shard = ShardChoice::automatic;
};

class Allreduce final : public Strategy {
 public:
  Allreduce(ShardChoice shard, parallel::CompressionSettings compression)
      : shard_(shard), compression_(std::move(compression)) {}

  void require(const models::Model& model, int ranks) const override;
  void train(TrainContext& run) override;
  parallel::Sharding sharding() const override;
  std::vector<parallel::StateVector> state_vectors() const override {
    return parallel::compression_vectors(compression_);
  }
  std::string obstacle_to_gpus() const override {
    if (shard_ == ShardChoice::optimizer) return "strategy.shard works only on CPUs";
    return compression_.is_on() ? "strategy.compression works only on CPUs" : "";
  }
  std::int64_t extra_bytes(const models::Model& model, int ranks, int) const override {
    return compression_bytes(model.layout(), ranks, compression_);
  }
  std::optional<Traffic> traffic(const models::Model& model, int, int, const data::DatasetInfo&) const override {
    return traffic_of_sum(model.layout(), compression_);
  }

 private:
  ShardChoice shard_;
  parallel::CompressionSettings compression_;
};

parallel::Sharding Allreduce::sharding() const {
  if (shard_ == ShardChoice::optimizer) return parallel::Sharding::always;
  return shard_ == ShardChoice::automatic && !compression_.is_on() ? parallel::Sharding::where_faster
                                                                   : parallel::Sharding::never;
}

void Allreduce::require(const models::Model& model, int ranks) const {
  Strategy::require(model, ranks);
  parallel::require_fitting_blocks(compression_, model.layout());
}

void describe_allreduce(StrategySettings& settings, ConfigVisitor& visitor) {
  visitor.choice({.name = "shard", .meaning = "what the ranks divide among them instead of each keeping all of it"},
                 settings.own.of<AllreduceSettings>().shard, kShards);
  visitor.section({.name = "compression", .meaning = "what ranks send instead of whole gradients"},
                  settings.own.of<parallel::CompressionSettings>());
}

void check_allreduce(const StrategySettings& settings, const StrategyTerms& terms, ConfigVisitor& visitor) {
  const auto compression = settings.own.of<parallel::CompressionSettings>();
  compression.check({terms.clip_norm, terms.optimizer_states, terms.reproducible}, visitor);
  if (settings.own.of<AllreduceSettings>().shard != ShardChoice::optimizer) return;
  visitor.require("strategy", !compression.is_on(),
                  "strategy.shard sums each part of the gradient on the rank that updates it, which compressed sums "
                  "are not made for: set strategy.shard = \"none\", or strategy.compression.kind = \"none\"");
  visitor.require("strategy", !terms.reproducible,
                  "strategy.shard sums gradients in the order of the ranks: set communication.reduction = \"fast\", or "
                  "strategy.shard = \"none\"");
}

std::unique_ptr<Strategy> make_allreduce(const StrategySettings& settings) {
  return std::make_unique<Allreduce>(settings.own.of<AllreduceSettings>().shard,
                                     settings.own.of<parallel::CompressionSettings>());
}

/// The sum over the ranks that the run asks for.
std::unique_ptr<parallel::GradientExchange> make_sum(TrainContext& run,
                                                     const parallel::CompressionSettings& compression) {
  if (compression.is_on()) return parallel::make_compressed_sum(run, compression);
  if (run.leaves == 0)
    return parallel::make_bucketed_sum(run.communicator, run.gradient, run.bucket_bytes, run.runtime);
  return parallel::make_reproducible_sum(run.communicator, run.backend, run.gradient, run.leaves, run.bucket_bytes,
                                         run.runtime);
}

/// Without other ranks, and without anything that changes g before the step.
bool train_alone(TrainContext& run, std::int64_t last_step) {
  parallel::OwnSteps steps(run);
  bool go_on = true;
  for (std::int64_t step = run.first_step; go_on && step < last_step; ++step) {
    const double rate = run.schedule.rate(step);
    const data::Batch batch = steps.make(parallel::MeanOver::all_replicas, rate, run.observer.reads_gradient(step));
    StepRecord record = make_record(batch, step + 1, rate, /*consistent=*/true);
    record.gradient_is_whole = steps.gradient_is_whole();
    go_on = run.observer.step(record);
  }
  return go_on;
}

/// \param sum of g over the ranks; null: none is needed before the step
/// \param sharded makes the steps; null: every rank makes them as a whole
bool train_until(TrainContext& run, std::int64_t last_step, std::unique_ptr<parallel::GradientExchange> sum,
                 parallel::ShardedUpdate* sharded) {
  std::optional<parallel::TimedExchange> exchange;
  if (sum) exchange.emplace(run.backend, run.seconds, std::move(sum));
  bool go_on = true;
  for (std::int64_t step = run.first_step; go_on && step < last_step; ++step) {
    const double rate = run.schedule.rate(step);
    if (sharded != nullptr) sharded->clear();
    const data::Batch batch =
        run.replica.gradient_of_step(run, parallel::MeanOver::all_replicas, exchange ? &*exchange : nullptr);
    if (exchange) exchange->finish();
    if (sharded != nullptr) {
      sharded->step(rate);
    } else {
      parallel::update_parameters(run, rate);
    }
    parallel::average_local_statistics(run, batch.rank_step_size);
    go_on = run.observer.step(make_record(batch, step + 1, rate, /*consistent=*/true));
  }
  return go_on;
}

void Allreduce::train(TrainContext& run) {
  if (run.state_shards == nullptr) {
    train_with_allreduce(run, run.total_steps, compression_);
    return;
  }
  parallel::ShardedUpdate update(run);
  train_until(run, run.total_steps, update.make_sum(), &update);
}

}  // namespace

bool train_with_allreduce(TrainContext& run, std::int64_t last_step, const parallel::CompressionSettings& compression) {
  if (run.communicator.size() == 1 && !compression.is_on() && run.leaves == 0) return train_alone(run, last_step);
  return train_until(run, last_step, make_sum(run, compression), nullptr);
}

Traffic traffic_of_sum(const ParameterLayout& layout, const parallel::CompressionSettings& compression) {
  if (!compression.is_on()) {
    return {.exchanges = {{.floats = layout.size(), .during = During::backward}}, .makes_serial_steps = true};
  }
  auto encoder = parallel::make_encoder(compression);
  if (!encoder) {
    const parallel::FactorSizes sizes = parallel::factor_sizes(layout, compression);
    // They are added to the residual; then each column of the factors costs about ten passes, as measured.
    const auto passes = 3.0 + 10.0 * static_cast<double>(compression.rank);
    return {
        .exchanges = {{.floats = sizes.left + sizes.exact, .encoded = true}, {.floats = sizes.right, .encoded = true}},
        .touched_floats = passes * static_cast<double>(sizes.compressed)};
  }
  const parallel::CompressedBlocks blocks = parallel::divide_blocks(layout, compression);
  const Index compressed = parallel::size_of(blocks.compressed);
  const Exchange encoded{.pattern = encoder->is_dense() ? Pattern::slices : Pattern::gather,
                         .floats = compressed,
                         .encoded = true,
                         .during = compression.clip_norm == 0 ? During::backward : During::nothing};
  return {.exchanges = {encoded, {.floats = parallel::size_of(blocks.exact)}},
          .encoder = std::move(encoder),
          .touched_floats = 3.0 * static_cast<double>(compressed),  // the gradient is added to the residual
          .waits = {{}}};
}

namespace {

constexpr std::string_view kSentLater = "gradients are rounded; what is not sent is added to later ones";

}  // namespace

std::string relief_of_allreduce(const StrategySettings&, bool) {
  const std::string rarer =
      names_of_kinds([](const StrategyTraits& traits) { return traits.trains_replicas && !traits.steps_together; });
  return fmt::format("a larger train.batch_size, strategy.compression or strategy.kind = {} sends less", rarer);
}

StrategyKind allreduce_strategy() {
  return {.name = "allreduce",
          .meaning = "all ranks make every step together, with the mean gradient over the global batch",
          .describe = describe_allreduce,
          .check = check_allreduce,
          .make = make_allreduce,
          .traits = {.steps_together = true,
                     .needs_gradient = true,
                     .has_one_model = true,
                     .trains_replicas = true,
                     .simulated = true},
          .relief = relief_of_allreduce,
          .proposals = {{"allreduce", {}, "the serial run's steps"},
                        {"allreduce, bf16", {"compression.kind=\"bf16\""}, kSentLater, true},
                        {"allreduce, eight_bit", {"compression.kind=\"eight_bit\""}, kSentLater, true},
                        {"allreduce, one_bit", {"compression.kind=\"one_bit\""}, kSentLater},
                        {"allreduce, top_k", {"compression.kind=\"top_k\""}, kSentLater, true},
                        {"allreduce, threshold", {"compression.kind=\"threshold\""}, kSentLater},
                        {"allreduce, power_sgd", {"compression.kind=\"power_sgd\""}, kSentLater, true}}};
}

}  // namespace unisono::strategies
