#include "averaging/averages.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "parameter_average.hpp"
#include "unisono/parallel/step_terms.hpp"

namespace unisono::strategies {

// Averages that are delayed by a period, and so overlapped with its steps.
//     at a boundary t:     start mean_t = Σ_r (n_r / n) θ_r,t        n_r: examples since the boundary before; n: of all
//     ranks at the next one:     θ_r ← θ_r + (mean_t − θ_r,t)              what rank r has learnt since t is kept
//   With an outer optimizer, its step from mean_t is what takes the place of mean_t. The correction is made before the
//   next average is started, so that this one begins from corrected parameters. On one rank the correction is 0, and
//   the run is the serial one bit for bit. When an average is applied depends on steps alone: the result does not
//   depend on the speed of ranks or messages.
//   Wang, Liang & Joshi, "Overlap local-SGD", ICASSP 2020, with its anchor model's pull at full strength; for outer
//   steps, Douillard et al., "Streaming DiLoCo", 2025.
// Cost per period: one allreduce of 4N bytes, which waits for nobody: n is known without a message. 4N flops in 4
// passes. Memory: two vectors, 8N bytes.

DelayedAverage::DelayedAverage(TrainContext& run)
    : run_(run),
      before_(std::ssize(run.state.parameters), run.backend.memory()),
      mean_(std::ssize(run.state.parameters), run.communicator.shared_allocator()) {}

std::int64_t DelayedAverage::bytes(const models::Model& model) {
  return 2 * static_cast<std::int64_t>(sizeof(float)) * model.layout().size();
}

void DelayedAverage::start(double share) {
  const parallel::Phase phase(run_, run_.seconds.exposed_communication);
  run_.backend.memory().copy(run_.state.parameters, before_.view());
  for (const FloatRange& segment : run_.replica.layout().trainable()) {
    const MutableView mean = part(mean_.view(), segment);
    weigh(part(View(run_.state.parameters), segment), share, mean);
    sums_.push_back(run_.communicator.start_allreduce_sum(mean));
    count_averaged(run_, mean.size_bytes());
  }
}

/// result = share · values, as Communicator::allreduce_weighted_mean does it.
void DelayedAverage::weigh(View values, double share, MutableView result) {
  if (share == 0) return run_.backend.clear(result);  // the values of a rank without examples may be NaN
  if (!run_.backend.memory().is_plain()) return run_.backend.axpby(static_cast<float>(share), values, 0, result);
  std::ranges::transform(values, result.begin(), [share](float value) { return static_cast<float>(share * value); });
}

void DelayedAverage::advance() {
  for (const comm::RequestPtr& sum : sums_) sum->make_progress();
}

void DelayedAverage::finish(OuterStep* outer) {
  if (sums_.empty()) return;
  wait();
  if (outer != nullptr) outer->step(mean_.view());
  const parallel::Phase phase(run_, run_.seconds.optimizer);
  for (const FloatRange& segment : run_.replica.layout().trainable()) {
    const MutableView correction = part(before_.view(), segment);
    run_.backend.axpby(1, part(View(mean_.view()), segment), -1, correction);
    run_.backend.axpby(1, correction, 1, part(run_.state.parameters, segment));
  }
}

void DelayedAverage::wait() {
  {
    const parallel::Phase phase(run_, run_.seconds.straggler_wait);
    for (const comm::RequestPtr& sum : sums_) sum->wait_for_arrivals();
  }
  const parallel::Phase phase(run_, run_.seconds.exposed_communication);
  for (const comm::RequestPtr& sum : std::exchange(sums_, {})) sum->wait();
}

// Averages whose ranks send compressed differences to what all of them held before, with error feedback.
//     e_r ← n_r/n (θ₀ − θ_r) + residual_r         n_r: examples of rank r since the last average; n: of all ranks
//     message_r, residual_r ← encode(e_r)
//     Δ ← Σ_r decode(message_r);  θ ← θ₀ − Δ      then comes the outer step along Δ
//   The residuals of an average are a part of the next one, so that no progress is lost. Biases, the parameters of
//   norms and chosen blocks are averaged as they are. On one rank nothing is compressed; what a run of more ranks has
//   left is added to Δ.
// Cost per average: as exchange/compressed_sum.cpp has it for a gradient. Memory: the residual, 4N bytes.

CompressedAverage::CompressedAverage(TrainContext& run, const parallel::CompressionSettings& settings,
                                     MutableView residual, View start)
    : run_(run),
      blocks_(parallel::divide_blocks(run.replica.layout(), settings)),
      changes_(run, settings),
      residual_(residual),
      start_(start) {}

void CompressedAverage::average(double weight, std::int64_t step) {
  const parallel::Phase phase(run_, run_.seconds.exposed_communication);
  if (run_.communicator.size() == 1) return take_residual();
  double all = weight;
  run_.communicator.allreduce_sum(std::span(&all, 1));
  const auto share = static_cast<float>(weight / all);
  changes_.begin_step(step);
  for (const FloatRange& range : blocks_.compressed) {
    const MutableView theta = part(run_.state.parameters, range);
    run_.backend.axpby(share, part(start_, range), -share, theta);
    changes_.sum(theta, part(residual_, range));
    run_.backend.axpby(1, part(start_, range), -1, theta);
  }
  count_averaged(run_, average_parameters(run_, run_.communicator, weight, blocks_.exact));
}

/// θ₀ − (θ₀ − θ + residual)
void CompressedAverage::take_residual() {
  run_.backend.axpby(-1, residual_, 1, run_.state.parameters);
  run_.backend.clear(residual_);
}

// Averages in two levels: often within a node, where messages are fast, and rarely between all ranks.
//     every `node_period` steps:   θ_r ← Σ_{s on the node of r} n_s θ_s / Σ_s n_s
//     every `period` steps:        θ ← Σ_r w_r θ_r / Σ_r w_r,     w_r = M n_r / N
//         n_r: examples of rank r since the last average of either kind; N: their sum over the node
//         M: examples of the node since the last average of all ranks
//   The second is the mean of the nodes' averages, each weighted by M: first within each node, then between the nodes,
//   in one allreduce. So an example counts as much as any other, whichever rank has it. Where a node had no example
//   since its own average, its ranks hold the same θ, and share M equally.
//   `node_period` = `period` is the plain average bit for bit, since then M = N and w_r = n_r.
//   Lin et al., "Don't use large mini-batches, use local SGD", ICLR 2020 (hierarchical local SGD).
// Cost: period / node_period − 1 allreduces of 4N bytes within the nodes and one of all ranks, per period.

NodeAverages::NodeAverages(comm::Communicator& ranks) : ranks_(ranks) {
  if (ranks.node_size() < ranks.size()) own_ = ranks.split(ranks.node(), ranks.rank());
}

void NodeAverages::count(Index examples) {
  since_average_ += examples;
  since_average_of_all_ += examples;
}

double NodeAverages::weight_in_node() { return static_cast<double>(std::exchange(since_average_, 0)); }

double NodeAverages::weight_of_all() {
  const auto own = static_cast<double>(std::exchange(since_average_, 0));
  std::array<double, 2> of_node = {own, static_cast<double>(std::exchange(since_average_of_all_, 0))};
  node().allreduce_sum(of_node);
  const auto [since_average, since_average_of_all] = of_node;
  if (since_average == 0) return since_average_of_all / node().size();
  return since_average_of_all * own / since_average;
}

// AdaComm: averages become more frequent as the loss falls.
//     τ ← min(τ₀, ⌈τ₀ √(F / F₀)⌉)       F: mean training loss of the steps since the last average, over all ranks;
//                                       F₀: that of the first period, in which τ = τ₀
//   At first long periods save messages while gradients are large; later the ranks' disagreement would keep the loss
//   up, so they meet more often. The published rule measures F after a fixed time; here it is measured at every
//   average, so that the periods depend on the losses alone. A loss above F₀ does not lengthen the period. Wang &
//   Joshi, "Adaptive communication strategies to achieve the best error-runtime trade-off in local-update SGD", MLSys
//   2019 (equation 13).
// Cost per average: one allreduce of 16 bytes.

std::vector<double> AdaptivePeriod::State::scalars() const {
  if (period == 0) return {};
  return {first_loss, static_cast<double>(period)};
}

void AdaptivePeriod::State::restore(const std::vector<double>& scalars) {
  if (scalars.size() != 2) return;  // of a run that had not averaged yet
  first_loss = scalars[0];
  period = static_cast<std::int64_t>(scalars[1]);
}

AdaptivePeriod::AdaptivePeriod(TrainContext& run, std::int64_t first, State& state)
    : run_(run), first_(first), state_(state) {
  if (state_.period == 0) state_.period = first_;
}

/// The losses so far are set aside: a difference of two sums would depend on when they were last reported.
void AdaptivePeriod::begin(std::int64_t made) {
  begun_ = made;
  run_.backend.collect(run_.sums);
  before_ = std::exchange(run_.sums, {});
}

void AdaptivePeriod::choose() {
  const double loss = loss_of_period();
  if (state_.first_loss < 0) state_.first_loss = loss;
  const double ratio = loss / state_.first_loss;
  if (!(ratio >= 0)) return;  // there is no period for a loss that is not a number; the run will say so
  const double period = std::ceil(static_cast<double>(first_) * std::sqrt(std::min(1.0, ratio)));
  state_.period = std::max<std::int64_t>(1, static_cast<std::int64_t>(period));
}

double AdaptivePeriod::loss_of_period() {
  const parallel::Phase phase(run_, run_.seconds.exposed_communication);
  run_.backend.collect(run_.sums);
  kernels::LossSums of_period = std::exchange(run_.sums, std::move(before_));
  run_.sums += of_period;
  std::array<double, 2> sums = {of_period.loss, static_cast<double>(of_period.examples)};
  run_.replica.sum(sums);
  run_.communicator.allreduce_sum(sums);
  return sums[0] / sums[1];
}

// The outer optimizer of DiLoCo: the ranks' mean progress since the last average, Δ, is a gradient.
//     Δ ← θ₀ − mean                     mean: Σ_r n_r θ_r / Σ_r n_r;  θ₀: what all ranks held after the last outer step
//     v ← μ v + Δ
//     θ₀ ← θ₀ − η (Δ + μ v)             Nesterov momentum; without it, θ₀ − η Δ
//   It is computed from the mean instead of θ₀, as θ₀ ← mean + (1 − η) Δ − η μ v, which is the same, and terms whose
//   factor is 0 are left out: with η = 1 and μ = 0, the new θ₀ is the mean, bit for bit.
//   Douillard et al., "DiLoCo: Distributed low-communication training of language models", 2023 (η = 0.7, μ = 0.9);
//   η alone is the server's rate of FedAvg (Reddi et al., "Adaptive federated optimization", ICLR 2021).
// Cost per average: no message; up to 8N flops in 5 passes over vectors of N. Memory: θ₀ and v, 8N bytes.

namespace {

constexpr Named<OuterKind> kOuterKinds[] = {
    {OuterKind::none, "none", "the mean of the ranks' parameters is taken as it is"},
    {OuterKind::sgd, "sgd", "a step along the difference to the mean; with rate 1 it is the mean, bit for bit"},
    {OuterKind::nesterov, "nesterov", "the same with Nesterov momentum (DiLoCo)"}};

void describe_rate(ConfigVisitor& visitor, double& rate) {
  visitor.field(
      {.name = "rate",
       .meaning = "outer learning rate η: how far to step from the last average to the new one; 1: all the way",
       .range = above(0).at_most(10)},
      rate);
}

}  // namespace

void OuterSettings::describe(ConfigVisitor& visitor) {
  const auto describe_nesterov = [this](ConfigVisitor& inner) {
    describe_rate(inner, nesterov_rate);
    inner.field({.name = "momentum", .meaning = "outer momentum μ", .range = at_least(0).below(1)}, nesterov_momentum);
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
