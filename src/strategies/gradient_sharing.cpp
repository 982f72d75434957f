// Gradient sharing: decentralised asynchronous training by encoded updates.
//   Each rank holds θ_r, an optimizer and a residual r_r. A step of rank r, with g_r over its own n_r of the global
//   batch's n examples, has the update
//     u_r ← −rate · n_r/n · direction(g_r)
//     e_r ← encode(r_r + u_r):   ±τ where |r_r + u_r| ≥ τ, nothing elsewhere
//     r_r ← r_r + u_r − e_r
//     θ_r ← θ_r + e_r, at once, and e_r goes to all other ranks, over a tree
//   and every rank applies every other rank's e_s exactly once, when it arrives, between two steps of its own. τ is
//   fixed, or chosen for each update so that about `density` of its values are sent. The update and not the gradient is
//   encoded, so that τ is in units of θ, and what an optimizer divides by has not been rounded. Σ over steps of e_r,
//   plus r_r, is Σ u_r: nothing is lost, only sent later. The factor n_r/n makes P ranks together follow the mean
//   gradient over the global batch. Ranks hold the same θ but for the order of additions once all has arrived; there,
//   where the run reports, evaluates or writes a checkpoint, they go on with the mean of their θ_r and of their
//   running statistics.
//   Steps are dealt to ranks that ask, of several to the one that has made fewest, so that only a slow rank makes
//   fewer. With a staleness_bound s each rank makes as many, and begins its step c when it has applied the first c − s
//   of every other one. s = 0 is synchronous: all updates of a step are applied in the order of ranks, and all ranks
//   hold the same bits. One rank steps by its encoded updates. Strom, "Scalable distributed DNN training using
//   commodity GPU cloud computing", Interspeech 2015.
// Cost per update of c sent values: P − 1 messages of 4 c + 16 bytes, at most N / 4 + 16, and as many of 24 bytes; no
//   rank sends more than three of each. A step that rank 0 deals takes 9 bytes. A few passes over N floats, and one
//   over c for each update of another rank. Memory: the residual, 4N bytes; the optimizer's change, 4N; a message,
//   N / 4; and the updates that have arrived during a step.
#include "gradient_sharing.hpp"

#include <fmt/format.h>

#include "gossip/consensus.hpp"
#include "sharing/relay.hpp"
#include "step.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::strategies {
namespace {

class GradientSharing final : public Strategy {
 public:
  explicit GradientSharing(const StrategySettings& settings)
      : settings_(settings), own_(settings.own.of<GradientSharingSettings>()) {}

  void require(const models::Model& model, int ranks) const override;
  void train(TrainContext& run) override;
  bool optimizer_state_is_local() const override { return true; }
  std::vector<parallel::StateVector> state_vectors() const override;
  std::string obstacle_to_gpus() const override {
    return "strategy.kind = \"gradient_sharing\" encodes its updates on CPUs";
  }
  std::string need_of_examples(const models::Model& model) const override;
  std::int64_t extra_bytes(const models::Model& model, int ranks, int states) const override;
  std::optional<Traffic> traffic(const models::Model& model, int ranks, int states,
                                 const data::DatasetInfo&) const override;

 private:
  StrategySettings settings_;
  GradientSharingSettings own_;
  Index examples_ = 0;  ///< over all ranks, up to the last record
};

void GradientSharing::require(const models::Model& model, int ranks) const {
  require_gradient(model);
  constexpr Index kMost = Index{1} << 31;
  if (model.layout().size() >= kMost) {
    throw UnfitStrategy(
        fmt::format("strategy.kind = \"gradient_sharing\": its messages number up to {} parameters, but this model has "
                    "more",
                    kMost));
  }
  if (settings_.replayed_workers > 0 && settings_.replayed_workers != ranks) {
    throw ConfigError(
        fmt::format("this run shared its updates between {} ranks, and is repeated by as many: start mpirun -n {}",
                    settings_.replayed_workers, settings_.replayed_workers));
  }
}

/// In step, each rank goes on with its own running statistics: wherever the ranks meet for a report, it makes no
/// difference to them.
std::vector<parallel::StateVector> GradientSharing::state_vectors() const {
  std::vector<parallel::StateVector> vectors = {
      {.name = "residual", .scope = parallel::StateScope::rank, .adds_up = true}};
  if (own_.is_synchronous()) {
    vectors.push_back({.name = "statistics", .scope = parallel::StateScope::rank, .of = parallel::StateOf::statistics});
  }
  return vectors;
}

/// With a bound, all ranks make as many steps. Only in step are the running statistics of all ranks of equal weight.
std::string GradientSharing::need_of_examples(const models::Model& model) const {
  if (!own_.is_bounded()) return kStepsOfNothing;
  return own_.is_synchronous() ? need_of_examples_for_statistics(model) : "";
}

/// The optimizer's change, room for a message, and the updates of all ranks in a step.
std::int64_t GradientSharing::extra_bytes(const models::Model& model, int ranks, int) const {
  const Index n = model.layout().size();
  const auto largest = kernels::make_threshold_encoder({.density = own_.density})->most_bytes(n);
  return static_cast<std::int64_t>(sizeof(float)) * n + largest * (1 + ranks);
}

std::optional<Traffic> GradientSharing::traffic(const models::Model& model, int ranks, int,
                                                const data::DatasetInfo&) const {
  const Index n = model.layout().size();
  const kernels::ThresholdSettings threshold{.threshold = static_cast<float>(own_.threshold), .density = own_.density};
  return Traffic{.exchanges = {{.pattern = Pattern::gather,
                                .floats = n,
                                .encoded = true,
                                .during = own_.is_synchronous() ? During::nothing : During::gradient}},
                 .encoder = kernels::make_threshold_encoder(threshold),
                 .touched_floats = 6.0 * static_cast<double>(n),
                 .waits = {{.per_step = static_cast<double>(std::max(ranks - 1, 1))}}};
}

void GradientSharing::train(TrainContext& run) {
  SharingRank rank(run, own_);
  comm::Communicator& ranks = run.communicator;
  if (std::ssize(run.worker_steps) == ranks.size()) {  // in a resumed run each rank continues after its own steps
    rank.set_steps(run.worker_steps[static_cast<std::size_t>(ranks.rank())]);
    continue_after(run, rank.steps());
  }
  bool go_on = true;
  for (std::int64_t made = run.first_step; go_on && made < run.total_steps;) {
    const Segment segment = next_segment(run, made);
    EventOrder order = replayed_order(run, segment);
    rank.train(segment, order);
    rank.form_consensus();
    if (run.recorder != nullptr) record(run, ranks, segment, order.events());
    made = segment.last;
    go_on = run.observer.step(record_of(run, ranks, segment, rank.steps(), rank.examples(), examples_));
  }
}

void describe_gradient_sharing(StrategySettings& settings, ConfigVisitor& visitor) {
  auto& own = settings.own.of<GradientSharingSettings>();
  visitor.field({.name = "threshold",
                 .meaning = "the threshold, in units of the parameters: values of an update that reach it are sent, as "
                            "plus or minus the threshold; 0: it is chosen anew for each update, by density",
                 .range = at_least(0)},
                own.threshold);
  visitor.require("threshold", kernels::fits_fp32(own.threshold),
                  "threshold must be 0 or lie between 1.2e-38 and 3.4e38, as parameters do");
  if (own.threshold == 0) {
    visitor.field({.name = "density",
                   .meaning = "about which share of an update's values is sent, where the threshold is chosen",
                   .range = above(0).at_most(1)},
                  own.density);
  } else {
    visitor.refuse("density", "means nothing beside a threshold above 0: remove it, or set threshold = 0");
  }
  visitor.field({.name = "staleness_bound",
                 .meaning = "how many steps a rank may be ahead of the updates of any other rank that it has applied; "
                            "0: synchronous; -1: any number, and who is faster makes more steps",
                 .unit = "steps",
                 .range = at_least(-1).at_most(1 << 20)},
                own.staleness_bound);
  visitor.field({.name = "record",
                 .meaning = "record the order in which each rank applied updates, in events.bin of the run folder, so "
                            "that `unisono replay` can repeat the run bit for bit"},
                settings.record);
  visitor.require("record", !settings.record || !own.is_synchronous(),
                  "synchronous runs need no record, because the same number of ranks always gives the same run; remove "
                  "record, or set another staleness_bound");
}

std::string gradient_sharing_relief(const StrategySettings& settings, bool) {
  const auto own = settings.own.of<GradientSharingSettings>();
  return own.is_bounded() ? "a larger staleness_bound, or -1, waits less"
                          : "a larger train.batch_size waits less often for the next step";
}

}  // namespace

StrategyKind gradient_sharing_strategy() {
  return {.name = "gradient_sharing",
          .meaning =
              "ranks train their own parameters at their own pace, and send the large values of their updates to all "
              "others over a tree; each applies the others' updates as they arrive",
          .describe = describe_gradient_sharing,
          .make = construct<GradientSharing>,
          .traits = {.needs_gradient = true, .at_own_pace = true, .simulated = true},
          .waiting = "ranks waited for their next step",
          .relief = gradient_sharing_relief,
          .proposals = {{"gradient_sharing", {}, "large values of updates, applied as they arrive"}}};
}

}  // namespace unisono::strategies
