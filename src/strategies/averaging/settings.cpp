// The keys of strategy.kind = "averaging", and which of them exclude each other.
#include <fmt/format.h>

#include "averaging.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::strategies {
namespace {

constexpr Named<StateAtAverage> kStatesAtAverage[] = {
    {StateAtAverage::average, "average", "it is averaged like the parameters"},
    {StateAtAverage::keep, "keep", "every rank keeps its own state"},
    {StateAtAverage::reset, "reset", "it is set to zero, as at the start of a run"}};

void describe_periods(AveragingSettings& settings, ConfigVisitor& visitor) {
  visitor.number_or({.name = "period",
                     .meaning = "steps between two averages; parameters are also averaged at the end of every epoch",
                     .unit = "steps",
                     .minimum = 1},
                    settings.period, {"adaptive", "shorter as the training loss falls (AdaComm)"});
  visitor.field({.name = "first_period",
                 .meaning = "of period = \"adaptive\": the first period, which is the longest; 0: 16",
                 .unit = "steps",
                 .minimum = 0},
                settings.first_period);
  visitor.field(
      {.name = "node_period",
       .meaning = "steps between two averages within a node; the period must be a multiple of it. 0: there are "
                  "only averages of all ranks",
       .unit = "steps",
       .minimum = 0},
      settings.node_period);
  visitor.field(
      {.name = "overlap",
       .meaning = "apply each average a period later, and compute it meanwhile; ranks hold the same model only "
                  "at the ends of epochs"},
      settings.overlap);
}

void require_fitting_periods(const AveragingSettings& settings, ConfigVisitor& visitor) {
  const bool adaptive = settings.is_adaptive();
  visitor.require(
      "first_period", adaptive || settings.first_period == 0,
      "first_period is the first of adaptive periods, but period is a number: set period = \"adaptive\", or "
      "remove first_period");
  visitor.require("node_period", !adaptive || settings.node_period == 0,
                  "node_period must divide the period, but period = \"adaptive\" changes: set period to a number, or "
                  "remove node_period");
  visitor.require(
      "node_period", adaptive || settings.node_period == 0 || settings.period % settings.node_period == 0,
      fmt::format("node_period is {}, but must divide the period, {}: an average of all ranks is one of each "
                  "node, too",
                  settings.node_period, settings.period));
  visitor.require(
      "overlap", !settings.overlap || !adaptive,
      "overlap applies an average a period later, but period = \"adaptive\" chooses the period by losses that "
      "are summed when all ranks meet: set period to a number, or overlap = false");
  visitor.require("overlap", !settings.overlap || settings.optimizer_state == StateAtAverage::keep,
                  "overlap averages parameters while steps go on, which change the optimizer's state: set "
                  "optimizer_state = \"keep\", or overlap = false");
}

}  // namespace

void AveragingSettings::describe(ConfigVisitor& visitor) {
  describe_periods(*this, visitor);
  merge.describe(visitor);
  visitor.choice(
      {.name = "optimizer_state", .meaning = "what happens to the optimizer's state when parameters are averaged"},
      optimizer_state, kStatesAtAverage);
  visitor.field({.name = "allreduce_epochs",
                 .meaning = "epochs of allreduce at the start of the run, before local steps begin (post-local SGD)",
                 .unit = "epochs",
                 .minimum = 0,
                 .maximum = 1e9},
                allreduce_epochs);
  visitor.section({.name = "outer", .meaning = "what is done with an average of all ranks (DiLoCo)"}, outer);
  visitor.section({.name = "compression",
                   .meaning = "what ranks send instead of whole changes, of outer steps and of rows that are merged by "
                              "adding changes"},
                  [this](ConfigVisitor& inner) { compression.describe_for_changes(inner); });
  visitor.require("overlap", !overlap || !compression.is_on(),
                  "overlap sends averages while the next steps are made, and compressed changes are not sent so: set "
                  "overlap = false, or compression.kind = \"none\"");
  require_fitting_periods(*this, visitor);
}

void AveragingSettings::require_compressible(const models::Model& model) const {
  if (compression.is_on() && !outer.is_on()) {
    throw ConfigError(
        "strategy.compression.kind: averages of whole parameters are not compressed, only changes since the last "
        "average: set strategy.outer.kind to \"sgd\" (with rate 1 it is the plain average) or \"nesterov\", or "
        "compression.kind = \"none\"");
  }
  parallel::require_fitting_blocks(compression, model.layout());
}

void AveragingSettings::require_possible(const models::Model& model) const {
  if (model.in_place() == nullptr) {
    require_compressible(model);
    return;
  }
  const auto refuse = [](bool wrong, std::string_view key, std::string_view remedy, std::string_view why) {
    if (wrong)
      throw ConfigError(
          fmt::format("strategy.{}: this model is updated in place, example by example, {}; {}", key, why, remedy));
  };
  constexpr std::string_view kRows = "and its rows are averaged one by one, each over the ranks that changed it";
  refuse(allreduce_epochs > 0, "allreduce_epochs", "set it to 0", "so there is no gradient to sum");
  refuse(outer.is_on(), "outer.kind", "set it to \"none\"", kRows);
  refuse(node_period > 0, "node_period", "set it to 0", kRows);
  refuse(overlap, "overlap", "set it to false", kRows);
  refuse(!compression.exact.empty(), "compression.exact", "remove it", "and its rows are compressed alike");
  refuse(compression.kind == parallel::Compression::top_k, "compression.kind", "choose another kind",
         "and rare rows would wait for long until their changes are among the largest");
  refuse(compression.is_on() && !sums_changes(*model.in_place(), merge.merge), "compression.kind",
         "set it to \"none\", or strategy.merge = \"sum\"", "and means of rows are sent as they are");
}

}  // namespace unisono::strategies
