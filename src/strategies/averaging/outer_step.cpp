// The outer optimizer of DiLoCo: the ranks' mean progress since the last average, Δ, is a gradient.
//     Δ ← θ₀ − mean                     mean: Σ_r n_r θ_r / Σ_r n_r;  θ₀: what all ranks held after the last outer step
//     v ← μ v + Δ
//     θ₀ ← θ₀ − η (Δ + μ v)             Nesterov momentum; without it, θ₀ − η Δ
//   It is computed from the mean instead of θ₀, as θ₀ ← mean + (1 − η) Δ − η μ v, which is the same, and terms whose
//   factor is 0 are left out: with η = 1 and μ = 0, the new θ₀ is the mean, bit for bit.
//   Douillard et al., "DiLoCo: Distributed low-communication training of language models", 2023 (η = 0.7, μ = 0.9);
//   η alone is the server's rate of FedAvg (Reddi et al., "Adaptive federated optimization", ICLR 2021).
// Cost per average: no message; up to 8N flops in 5 passes over vectors of N. Memory: θ₀ and v, 8N bytes.
#include "averaging/outer_step.hpp"

#include "unisono/parallel/phase.hpp"

namespace unisono::strategies {
namespace {

constexpr Named<OuterKind> kOuterKinds[] = {
    {OuterKind::none, "none", "the mean of the ranks' parameters is taken as it is"},
    {OuterKind::sgd, "sgd", "a step along the difference to the mean; with rate 1 it is the mean, bit for bit"},
    {OuterKind::nesterov, "nesterov", "the same with Nesterov momentum (DiLoCo)"}};

void describe_rate(ConfigVisitor& visitor, double& rate) {
  visitor.field(
      {.name = "rate",
       .meaning = "outer learning rate η: how far to step from the last average to the new one; 1: all the way",
       .minimum = 0,
       .maximum = 10,
       .minimum_excluded = true},
      rate);
}

}  // namespace

void OuterSettings::describe(ConfigVisitor& visitor) {
  const auto describe_nesterov = [this](ConfigVisitor& inner) {
    describe_rate(inner, nesterov_rate);
    inner.field(
        {.name = "momentum", .meaning = "outer momentum μ", .minimum = 0, .maximum = 1, .maximum_excluded = true},
        nesterov_momentum);
  };
  visitor.variant({.name = "kind", .meaning = "outer optimizer, which makes a step from every average of all ranks"},
                  kind, kOuterKinds,
                  {{OuterKind::sgd, [this](ConfigVisitor& inner) { describe_rate(inner, sgd_rate); }},
                   {OuterKind::nesterov, describe_nesterov}});
}

std::vector<parallel::StateVector> OuterStep::state_vectors(const OuterSettings& settings) {
  std::vector<parallel::StateVector> vectors;
  if (settings.is_on()) vectors.push_back({.name = "outer_parameters", .scope = parallel::StateScope::common});
  if (settings.momentum() > 0) vectors.push_back({.name = "outer_momentum", .scope = parallel::StateScope::common});
  return vectors;
}

OuterStep::OuterStep(TrainContext& run, const OuterSettings& settings)
    : run_(run),
      rate_(static_cast<float>(settings.rate())),
      momentum_(static_cast<float>(settings.momentum())),
      start_(run.vectors[0].values.view()) {
  if (momentum_ > 0) velocity_ = run.vectors[1].values.view();
  run_.backend.memory().copy(run_.state.parameters, start_);
}

void OuterStep::step(MutableView mean) {
  const parallel::Phase phase(run_, run_.seconds.optimizer);
  for (const FloatRange& segment : run_.replica.layout().trainable()) {
    const MutableView theta = part(mean, segment), delta = part(start_, segment);
    run_.backend.axpby(-1, theta, 1, delta);  // Δ, in the place of θ₀
    if (rate_ != 1) run_.backend.axpby(1 - rate_, delta, 1, theta);
    if (momentum_ > 0) {
      const MutableView v = part(velocity_, segment);
      run_.backend.axpby(1, delta, momentum_, v);
      run_.backend.axpby(-rate_ * momentum_, v, 1, theta);
    }
  }
  run_.backend.memory().copy(mean, start_);
}

}  // namespace unisono::strategies
