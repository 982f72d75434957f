#include "unisono/optim/catalog.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "unisono/base/errors.hpp"
#include "update_rule.hpp"

namespace unisono::optim {
namespace {

/// "a, b or c": the kinds that fit.
template <typename Fits>
std::string names_of_kinds(Fits fits) {
  std::vector<std::string_view> fitting;
  for (const OptimizerKind& kind : optimizer_kinds()) {
    if (fits(kind)) fitting.push_back(kind.name);
  }
  return any_of(fitting);
}

/// Null for a name that is none.
const OptimizerKind* find_kind(std::string_view name) {
  const auto& kinds = optimizer_kinds();
  const auto found = std::ranges::find(kinds, name, &OptimizerKind::name);
  return found == kinds.end() ? nullptr : &*found;
}

constexpr Named<DecayRule> kDecayRules[] = {
    {DecayRule::weights, "weights", "all but biases and norms: matrices of layers, tables of tokens and positions"},
    {DecayRule::without_embeddings, "without_embeddings",
     "as weights, but not tables of tokens and positions (embedding), even where the last layer is tied to one"},
    {DecayRule::all, "all", "all parameters"}};

void describe_decay(ConfigVisitor& visitor, OptimizerSettings& settings) {
  visitor.field({.name = "weight_decay",
                 .meaning = "weight decay λ, which adds λθ to the gradient (decoupled in AdamW and LAMB)",
                 .range = at_least(0)},
                settings.weight_decay);
  visitor.field({.name = "decay_biases_and_norms", .meaning = "true: decay = \"all\", whose older name this is"},
                settings.decay_biases_and_norms);
  if (settings.decay_biases_and_norms) settings.decay = DecayRule::all;
  visitor.choice({.name = "decay", .meaning = "which parameters weight_decay applies to"}, settings.decay, kDecayRules);
  visitor.require("decay", !settings.decay_biases_and_norms || settings.decay == DecayRule::all,
                  "decay_biases_and_norms = true means decay = \"all\", and decay says otherwise: remove "
                  "decay_biases_and_norms");
}

void refuse_step_sizes(ConfigVisitor& visitor, const std::string& kind) {
  visitor.refuse("learning_rate", fmt::format("means nothing to {}, which chooses its steps itself: remove it", kind));
  visitor.refuse("clip_norm", fmt::format("means nothing to {}, whose steps lower the loss: remove it", kind));
}

}  // namespace

// sgd.cpp: sgd; adaptive.cpp: adagrad, rmsprop, adam, adamw; layerwise.cpp: lars, lamb; lbfgs.cpp: lbfgs;
// newton_cg.cpp: newton_cg, conjugate_gradient; descent.cpp: gradient_descent. als is below.
OptimizerKind sgd(), adagrad(), rmsprop(), adam(), adamw(), lars(), lamb();
OptimizerKind lbfgs(), newton_cg(), conjugate_gradient(), gradient_descent(), als();

const std::vector<OptimizerKind>& optimizer_kinds() {
  static const std::vector<OptimizerKind> kinds = {sgd(),
                                                   adagrad(),
                                                   rmsprop(),
                                                   adam(),
                                                   adamw(),
                                                   lars(),
                                                   lamb(),
                                                   lbfgs(),
                                                   newton_cg(),
                                                   conjugate_gradient(),
                                                   gradient_descent(),
                                                   als()};
  return kinds;
}

std::string names_of_whole_batch_kinds() {
  return names_of_kinds([](const OptimizerKind& kind) { return kind.traits.whole_batch; });
}

bool is_whole_batch(const OptimizerSettings& settings) {
  const OptimizerKind* const kind = find_kind(settings.kind);
  return kind != nullptr && kind->traits.whole_batch;
}

std::string default_optimizer() { return std::string(optimizer_kinds().front().name); }

const OptimizerKind& kind_of(const OptimizerSettings& settings) {
  if (const OptimizerKind* const kind = find_kind(settings.kind)) return *kind;
  throw ConfigError(fmt::format("optimizer.kind is '{}'; it must be {}", settings.kind,
                                names_of_kinds([](const auto&) { return true; })));
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerSettings& settings, const ParameterLayout& layout,
                                          kernels::UpdateKernels& kernels) {
  const OptimizerKind& kind = kind_of(settings);
  if (kind.make != nullptr) return kind.make(settings, layout, kernels);
  throw ConfigError(fmt::format(
      "optimizer.kind = \"{}\" steps on the whole training set: it needs a strategy that does so", settings.kind));
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerSettings& settings, const Holding& holding,
                                          kernels::UpdateKernels& kernels) {
  std::unique_ptr<Optimizer> optimizer = make_optimizer(settings, layout_of(holding), kernels);
  if (holding.squares() != nullptr) static_cast<UpdateRule&>(*optimizer).divide(DividedSums(holding));
  return optimizer;
}

int optimizer_state_vectors(const OptimizerSettings& settings) {
  return static_cast<int>(kind_of(settings).state(settings).size());
}

void describe_momentum(ConfigVisitor& visitor, double& momentum) {
  visitor.field({.name = "momentum",
                 .meaning = "momentum: share of the velocity that is kept from one step to the next",
                 .range = at_least(0).below(1)},
                momentum);
}

void describe_epsilon(ConfigVisitor& visitor, double& epsilon) {
  visitor.field({.name = "epsilon",
                 .meaning = "small number that is added to the denominator of the step",
                 .range = at_least(1e-30)},
                epsilon);
}

void OptimizerSettings::describe(ConfigVisitor& visitor) {
  std::vector<Variant> variants;
  for (const OptimizerKind& one : optimizer_kinds()) {
    variants.push_back({one.name, one.meaning, {}});
    if (one.describe != nullptr) {
      variants.back().describe = [this, &one](ConfigVisitor& inner) { one.describe(*this, inner); };
    }
  }
  visitor.variant({.name = "kind", .meaning = "update rule, or method for the whole training set"}, kind, variants);
  const bool has_rate = !is_whole_batch(*this);
  if (has_rate) {
    visitor.field({.name = "learning_rate",
                   .meaning = "base learning rate, which the schedule multiplies by a factor",
                   .range = at_least(0),
                   .required = true},
                  learning_rate);
  } else {
    refuse_step_sizes(visitor, kind);
  }
  describe_decay(visitor, *this);
  if (!has_rate) return;
  visitor.field(
      {.name = "clip_norm",
       .meaning = "gradient clipping: a gradient with a larger norm is scaled down to this norm; 0: no clipping",
       .range = at_least(0)},
      clip_norm);
}

// Alternating least squares, for models of two tables: strategies/batch/alternating.cpp makes the iterations, and
// models/objective.hpp says what it minimises.

namespace {

void describe_als(OptimizerSettings& settings, ConfigVisitor& visitor) {
  visitor.field({.name = "function_tolerance",
                 .meaning = "the run ends after an iteration that changes the objective by at most this, relative to "
                            "it; 0: it makes all its epochs",
                 .range = at_least(0)},
                settings.own.of<AlsSettings>().function_tolerance);
}

std::vector<std::string> no_state(const OptimizerSettings&) { return {}; }

}  // namespace

OptimizerKind als() {
  return {.name = "als",
          .meaning = "alternating least squares on the whole training set, for model.kind = \"factorization\"",
          .describe = describe_als,
          .state = no_state,
          .traits = {.whole_batch = true, .alternating = true}};
}

}  // namespace unisono::optim
