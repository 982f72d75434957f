#include "batch/divided_function.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>
#include <map>

#include "unisono/base/random.hpp"
#include "unisono/parallel/step_terms.hpp"

namespace unisono::strategies {
namespace {

/// The part of a range that lies within a shard, counted from the shard's start; empty where there is none.
FloatRange clipped(const FloatRange& range, const FloatRange& shard) {
  const Index first = std::max(range.first, shard.first), last = std::min(range.last, shard.last);
  return first < last ? FloatRange{first - shard.first, last - shard.first} : FloatRange{};
}

/// What a rank tells the others at the end of a pass.
struct FinishedPortion {
  std::int64_t portion = 0;
  double loss = 0, squared_error = 0, absolute_error = 0, target_sum = 0, target_squared_sum = 0;
  std::int64_t examples = 0, correct = 0, correct_top5 = 0, values = 0, bytes = 0;
};

FinishedPortion message_of(int portion, const kernels::LossSums& sums) {
  return {.portion = portion,
          .loss = sums.loss,
          .squared_error = sums.squared_error,
          .absolute_error = sums.absolute_error,
          .target_sum = sums.target_sum,
          .target_squared_sum = sums.target_squared_sum,
          .examples = sums.examples,
          .correct = sums.correct,
          .correct_top5 = sums.correct_top5,
          .values = sums.values,
          .bytes = sums.bytes};
}

kernels::LossSums sums_of(const FinishedPortion& message) {
  kernels::LossSums sums;
  sums.loss = message.loss;
  sums.squared_error = message.squared_error;
  sums.absolute_error = message.absolute_error;
  sums.target_sum = message.target_sum;
  sums.target_squared_sum = message.target_squared_sum;
  sums.examples = message.examples;
  sums.correct = message.correct;
  sums.correct_top5 = message.correct_top5;
  sums.values = message.values;
  sums.bytes = message.bytes;
  return sums;
}

double l2_of(View x, const FloatRange& range) {
  double sum = 0;
  for (const float value : part(x, range)) sum += static_cast<double>(value) * static_cast<double>(value);
  return sum;
}

}  // namespace

DividedFunction::DividedFunction(TrainContext& run, bool backup)
    : run_(run),
      objective_(*run.objective),
      counters_(run.counters.of<BatchCounters>()),
      ranks_(run.communicator.split(0, run.communicator.rank())),
      gradients_(sums_of_vectors(std::ssize(run.state.parameters))),
      fate_(*ranks_),
      worker_(*ranks_, fate_, objective_.portions(), run.seconds.straggler_wait, run.runtime) {
  counters_.portions = objective_.portions();
  const FloatRange own = shards().shard(rank());
  for (const models::PenalisedRange& one : objective_.penalties()) {
    has_l1_ |= one.l1 > 0;
    has_l2_ |= one.l2 > 0;
    const FloatRange range = clipped(one.range, own);
    if (range == FloatRange{}) continue;
    penalties_.push_back({range, one.l1, one.l2});
    if (one.l1 > 0) l1_.push_back({range.first, range.last, one.l1});
  }
  for (const FloatRange& one : run.model.layout().trainable()) {
    if (const FloatRange range = clipped(one, own); range != FloatRange{}) trainable_.push_back(range);
  }
  if (ranks_->size() == 1 || !ranks_->is_root()) return;
  coordinator_ =
      std::make_unique<Coordinator>(*ranks_, fate_, Dealer(objective_.portions(), ranks_->size(), backup), run.runtime);
  team_ = std::make_unique<ThreadTeam>(2, "the coordinator of portions");
}

DividedFunction::PortionSums DividedFunction::sums_of_vectors(Index size) const {
  return {VectorShards(size, ranks_->size()), Subtrees(objective_.portions(), size, run_.backend)};
}

// Evaluations

double DividedFunction::value_and_gradient(View x, MutableView gradient) {
  place(x, run_.state.parameters);
  const kernels::LossSums losses = pass(
      [this](int portion, MutableView sum, kernels::LossSums& into, const models::Objective::Between& between) {
        return objective_.add_gradient(portion, run_.state, sum, into, between);
      },
      gradients_, gradient);
  evaluated_.push_back({hash_bytes(std::as_bytes(x)), losses});
  add_penalty_gradient(x, gradient);
  freeze(gradient);
  return losses.loss / static_cast<double>(objective_.examples()) + (has_l2_ ? penalty(x) : 0);
}

bool DividedFunction::hessian_times(View x, View v, MutableView product) {
  if (direction_.size() == 0) direction_ = Buffer(shards().size());
  place(v, direction_.view());
  const bool formed = hessian_ != nullptr && equal_everywhere(x, hessian_->x.view());
  if (formed) {
    multiply(*hessian_, direction_.view(), product);
  } else {
    settle_theta(x);
    pass(
        [this](int portion, MutableView sum, kernels::LossSums&, const models::Objective::Between& between) {
          return objective_.add_hessian_product(portion, run_.state, direction_.view(), sum, between);
        },
        gradients_, product);
  }
  add_penalty_gradient(v, product);  // ∇²(l2/2 Σ x²) v = l2 v
  freeze(product);
  return !formed;
}

void DividedFunction::form_hessian(View x) {
  const Index n = shards().size();
  if (hessian_ == nullptr) {
    hessian_ =
        std::make_unique<HessianMatrix>(HessianMatrix{sums_of_vectors(n * n), Buffer(size()), {}, Buffer(n * n)});
    hessian_->shard = Buffer(hessian_->sums.shards.shard_size(rank()));
  }
  std::ranges::copy(x, hessian_->x.data());
  settle_theta(x);
  pass(
      [this](int portion, MutableView sum, kernels::LossSums&, const models::Objective::Between& between) {
        return objective_.add_hessian(portion, run_.state, sum, between);
      },
      hessian_->sums, hessian_->shard.view());
  const parallel::Phase phase(run_, run_.seconds.exposed_communication);
  const MutableView whole = hessian_->values.view();
  counters_.sent_bytes += gather_shards(*ranks_, hessian_->sums.shards, hessian_->shard.view(), whole);
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j < i; ++j) whole.data()[j * n + i] = whole.data()[i * n + j];
  }
}

/// product = this rank's shard of Hv.
void DividedFunction::multiply(const HessianMatrix& hessian, View v, MutableView product) const {
  const parallel::Phase phase(run_, run_.seconds.optimizer);
  const FloatRange own = shards().shard(rank());
  std::ranges::fill(product, 0.0F);
  for (Index i = 0; i < std::ssize(v); ++i) {
    const FloatRange row{i * std::ssize(v) + own.first, i * std::ssize(v) + own.last};
    run_.backend.axpby(v.data()[i], part(hessian.values.view(), row), 1, product);
  }
}

/// Elements that are not trained have no derivatives.
void DividedFunction::freeze(MutableView vector) const {
  Index first = 0;
  for (const FloatRange& one : trainable_) {
    std::ranges::fill(part(vector, FloatRange{first, one.first}), 0.0F);
    first = one.last;
  }
  std::ranges::fill(part(vector, FloatRange{first, std::ssize(vector)}), 0.0F);
}

/// Whether two vectors are equal, of which each rank has its shards.
bool DividedFunction::equal_everywhere(View shard, View other) {
  const parallel::Phase phase(run_, run_.seconds.exposed_communication);
  return ranks_->max(std::ranges::equal(shard, other) ? 0 : 1) == 0;
}

/// θ ← that of x, where it is not.
void DividedFunction::settle_theta(View x) {
  const MutableView theta = run_.state.parameters;
  if (!equal_everywhere(x, part(View(theta), shards().shard(rank())))) place(x, theta);
}

/// whole ← all ranks' shards.
void DividedFunction::place(View x, MutableView whole) {
  const parallel::Phase phase(run_, run_.seconds.exposed_communication);
  counters_.sent_bytes += gather_shards(*ranks_, shards(), x, whole);
}

kernels::LossSums DividedFunction::settle(View x) {
  const std::uint64_t hash = hash_bytes(std::as_bytes(x));
  std::vector<std::int64_t> differs;
  for (const Evaluated& one : evaluated_) differs.push_back(one.hash == hash ? 0 : 1);
  {
    const parallel::Phase phase(run_, run_.seconds.exposed_communication);
    ranks_->allreduce_max(std::span(differs));
  }
  const auto found = std::ranges::find(differs.rbegin(), differs.rend(), 0);
  if (found != differs.rbegin() || differs.empty()) place(x, run_.state.parameters);  // θ is at another point
  Evaluated here{.hash = hash, .losses = {}};
  if (found != differs.rend()) {
    here = evaluated_[static_cast<std::size_t>(differs.rend() - found) - 1];
  } else {  // a resumed run whose first iteration finds no step
    Buffer gradient(size());
    value_and_gradient(x, gradient.view());
    here = evaluated_.back();
  }
  evaluated_ = {here};  // where x stays, it is not evaluated again
  return here.losses;
}

// Penalties

double DividedFunction::penalty(View x) {
  double total = 0;
  sum({&total, 1}, [&](Index first, Index last, std::span<double> sums) {
    for (const models::PenalisedRange& one : penalties_) {
      const FloatRange common{std::max(first, one.range.first), std::min(last, one.range.last)};
      if (common.first < common.last) sums[0] += one.l2 / 2 * l2_of(x, common);
    }
  });
  return total;
}

void DividedFunction::add_penalty_gradient(View x, MutableView gradient) const {
  for (const models::PenalisedRange& one : penalties_) {
    if (one.l2 > 0) run_.backend.axpby(static_cast<float>(one.l2), part(x, one.range), 1, part(gradient, one.range));
  }
}

// Sums over vectors

/// Each piece has sums of its own; zeros of the other ranks do not change them, so that the order in which an allreduce
/// adds does not matter.
void DividedFunction::sum(std::span<double> sums, const AddTerms& add) {
  const auto pieces = static_cast<std::size_t>(shards().pieces());
  std::vector<double> by_piece(pieces * sums.size());
  const FloatRange own = shards().pieces_of(rank());
  const Index start = shards().shard(rank()).first;
  {
    const parallel::Phase phase(run_, run_.seconds.optimizer);
    for (Index number = own.first; number < own.last; ++number) {
      const FloatRange piece = shards().piece(number);
      add(piece.first - start, piece.last - start,
          std::span(by_piece).subspan(static_cast<std::size_t>(number) * sums.size(), sums.size()));
    }
  }
  {
    const parallel::Phase phase(run_, run_.seconds.exposed_communication);
    ranks_->allreduce_sum(std::span<double>(by_piece));
  }
  std::ranges::fill(sums, 0.0);
  for (std::size_t at = 0; at < by_piece.size(); ++at) sums[at % sums.size()] += by_piece[at];
}

double DividedFunction::largest_magnitude(View v) {
  float largest = 0;
  bool is_nan = false;
  for (const float value : v) {
    largest = std::max(largest, std::abs(value));
    is_nan |= std::isnan(value);
  }
  const parallel::Phase phase(run_, run_.seconds.exposed_communication);
  std::array<double, 2> both = {static_cast<double>(largest), is_nan ? 1.0 : 0.0};
  ranks_->allreduce_max(std::span<double>(both));
  return both[1] > 0 ? std::numeric_limits<double>::quiet_NaN() : both[0];
}

// Passes over the training set

kernels::LossSums DividedFunction::pass(const Compute& compute, PortionSums& sums, MutableView shard) {
  ++passes_;
  sums.subtrees.clear();
  finished_.clear();
  compute_portions(compute, sums.subtrees);
  kernels::LossSums losses;
  add_up(sums, shard, losses);
  return losses;
}

void DividedFunction::compute_portions(const Compute& compute, Subtrees& subtrees) {
  if (ranks_->size() == 1) {
    for (int portion = 0; portion < objective_.portions(); ++portion) {
      compute_portion(compute, subtrees, portion, [] { return true; });
    }
    return;
  }
  const auto work = [&](int thread) {
    try {
      if (thread == 1) return coordinator_->serve(passes_);
      worker_.work(passes_, [&](int portion, const std::function<bool()>& go_on) {
        return compute_portion(compute, subtrees, portion, go_on);
      });
    } catch (...) {
      fate_.give_up(std::current_exception());
    }
  };
  team_ ? team_->run(work) : work(0);
  fate_.rethrow_cause();
}

bool DividedFunction::compute_portion(const Compute& compute, Subtrees& subtrees, int portion,
                                      const std::function<bool()>& go_on) {
  const ScopedTimer timer(run_.seconds.compute, run_.runtime);
  kernels::LossSums losses;
  Stopwatch watch;
  double cpu_seconds = run_.fault != nullptr ? thread_cpu_seconds() : 0;
  const auto between = [&](Index examples) {
    if (run_.fault != nullptr) {
      run_.fault->after({.cpu_seconds = thread_cpu_seconds() - cpu_seconds,
                         .seconds = watch.seconds(),
                         .flops = run_.flops_per_example * static_cast<double>(examples)});
      watch.restart();
      cpu_seconds = thread_cpu_seconds();
    }
    return go_on();
  };
  const bool finished = compute(portion, subtrees.leaf(), losses, between);
  ++(finished ? counters_.computed : counters_.cancelled);
  if (!finished) return false;
  finished_.emplace_back(portion, losses);
  subtrees.add(portion);
  return true;
}

/// The ranks tell each other which nodes of the tree they hold, and add these up.
void DividedFunction::add_up(PortionSums& sums, MutableView shard, kernels::LossSums& losses) {
  const parallel::Phase phase(run_, run_.seconds.exposed_communication);
  const comm::TreeSum order(sums.subtrees.tree(), ranks_->all_gather_vectors(sums.subtrees.nodes()));
  const std::vector<View> vectors = sums.subtrees.vectors();
  counters_.sent_bytes += sum_to_shards(*ranks_, order, vectors, sums.shards, shard);
  counters_.nodes += std::ssize(order.inputs);

  std::vector<FinishedPortion> own;
  for (const auto& [portion, losses_of] : finished_) own.push_back(message_of(portion, losses_of));
  std::map<std::int64_t, FinishedPortion> all;  // those of several ranks are equal
  for (const FinishedPortion& one : ranks_->all_gather_joined(own)) all.emplace(one.portion, one);
  assert(std::ssize(all) == objective_.portions());
  for (const auto& [portion, one] : all) losses += sums_of(one);
}

}  // namespace unisono::strategies
