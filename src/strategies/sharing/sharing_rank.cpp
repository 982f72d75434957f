#include "sharing/sharing_rank.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "step.hpp"
#include "unisono/base/text.hpp"

namespace unisono::strategies {

SharingRank::SharingRank(TrainContext& run, const GradientSharingSettings& settings)
    : run_(run),
      settings_(settings),
      counters_(run.counters.of<SharingCounters>()),
      relay_(run.communicator),
      encoder_(kernels::make_threshold_encoder(
          {.threshold = static_cast<float>(settings.threshold), .density = settings.density})),
      residual_(run.vectors[kResidual].values.view()),
      change_(std::ssize(run.state.parameters), run.backend.memory()),
      message_(encoder_->most_bytes(std::ssize(run.state.parameters)) / Index{sizeof(float)}),
      statistics_(settings.is_synchronous() ? 0 : std::ssize(run.state.statistics), run.backend.memory()),
      own_statistics_(settings.is_synchronous() ? run.vectors[kOwnStatistics].values.view() : statistics_.view()),
      applied_by_(static_cast<std::size_t>(run.communicator.size())) {
  counters_ = {};
  if (run.first_step == 0) run.backend.memory().copy(run.state.statistics, own_statistics_);
}

void SharingCounters::describe(CounterVisitor& visitor) {
  consensus.describe(visitor);
  const CounterGroup group(visitor, "sharing");
  visitor.count({.name = "sent_bytes", .unit = "bytes"}, sent_bytes);
  visitor.count({.name = "plain_bytes", .unit = "bytes"}, plain_bytes);
  visitor.count({.name = "updates"}, updates);
  visitor.histogram({.name = "staleness", .unit = "updates"}, staleness);
  consensus.describe_in_summary(visitor);
}

/// How many updates were shared, what they took, how late they came, and how far apart the ranks were after all of
/// them.
std::string SharingCounters::text(const CounterTerms& terms) const {
  if (plain_bytes <= 0) return "  sharing     there is one rank, which sends nothing\n";
  return consensus.averaged.text(terms) +
         fmt::format(
             "  sharing     {} updates in {:.1f} MB per epoch and rank, {:.3g} % of the {:.1f} MB of whole ones; "
             "staleness "
             "{:.2g} updates on average, at most {}; ranks ended {:.2g} of the norm from their mean\n",
             grouped(updates), terms.megabytes(sent_bytes),
             100.0 * static_cast<double>(sent_bytes) / static_cast<double>(plain_bytes), terms.megabytes(plain_bytes),
             staleness.mean(), staleness.largest(), consensus.distance());
}

void SharingRank::train(const Segment& segment, EventOrder& order) {
  order_ = &order;
  clock_ = 0;
  examples_of_segment_ = 0;
  std::ranges::fill(applied_by_, 0);
  const bool deals = !settings_.is_bounded() && !order.is_given();
  if (settings_.is_synchronous()) run_.backend.memory().copy(own_statistics_, run_.state.statistics);
  relay_.begin(deals ? segment.steps * segment.active : 0);
  make_steps(segment);
  relay_.leave();
  apply_rest();
  relay_.end();
  count();
}

void SharingRank::make_steps(const Segment& segment) {
  if (order_->is_given()) return train_as_recorded(segment);
  if (settings_.is_synchronous()) return train_together(segment);
  settings_.is_bounded() ? train_bounded(segment) : train_freely(segment);
}

// --- When this rank steps and when it applies what others have sent --------------------------------------------------

void SharingRank::train_freely(const Segment& segment) {
  const auto may_step = [this] {
    const parallel::Phase phase(run_, run_.seconds.exposed_communication);
    return relay_.ask_for_step();
  };
  while (may_step()) {
    while (const auto update = relay_.take()) apply(*update);
    step(segment);
  }
}

/// Whether no rank is further behind than the bound, as far as this one knows.
bool SharingRank::is_in_time() const {
  for (std::size_t rank = 0; rank < applied_by_.size(); ++rank) {
    const bool is_own = static_cast<int>(rank) == run_.communicator.rank();
    if (!is_own && applied_by_[rank] < clock_ - settings_.staleness_bound) return false;
  }
  return true;
}

void SharingRank::train_bounded(const Segment& segment) {
  const auto wait = [this] {
    const parallel::Phase phase(run_, run_.seconds.straggler_wait);
    return relay_.wait();
  };
  while (clock_ < segment.steps) {
    while (const auto update = relay_.take()) apply(*update);
    while (!is_in_time()) apply(*wait());
    step(segment);
  }
}

/// The updates of a step are applied in the order of ranks, so that all hold the same bits.
void SharingRank::train_together(const Segment& segment) {
  const auto wait_for = [this](int sender) {
    const parallel::Phase phase(run_, run_.seconds.straggler_wait);
    return relay_.wait_for(sender);
  };
  while (clock_ < segment.steps) {
    const SharedUpdate own = compute(segment);
    share(own);
    for (int sender = 0; sender < run_.communicator.size(); ++sender) {
      apply(sender == own.sender ? own : wait_for(sender));
    }
  }
}

void SharingRank::train_as_recorded(const Segment& segment) {
  while (const auto next = order_->next()) {
    next->worker == run_.communicator.rank() ? step(segment) : apply(relay_.wait_for(next->worker));
  }
}

void SharingRank::apply_rest() {
  const auto wait = [this] {
    const parallel::Phase phase(run_, run_.seconds.straggler_wait);
    return relay_.wait();
  };
  while (const auto update = wait()) apply(*update);
}

// --- A step ----------------------------------------------------------------------------------------------------------

void SharingRank::step(const Segment& segment) {
  const SharedUpdate own = compute(segment);
  apply(own);
  share(own);
}

/// residual ← residual + u, less what the message says of it, where θ + u is what the optimizer makes of θ.
SharedUpdate SharingRank::compute(const Segment& segment) {
  const data::Batch batch = parallel::accumulate_gradient(run_, parallel::MeanOver::own_examples);
  const parallel::Phase phase(run_, run_.seconds.optimizer);
  const MutableView change = change_.view(), theta = run_.state.parameters;
  const double share =
      static_cast<double>(batch.rank_step_size) / static_cast<double>(std::max<Index>(1, batch.global_size));
  run_.backend.memory().copy(theta, change);
  run_.optimizer->step(change, run_.gradient, share * run_.schedule.rate(segment.step_at(clock_)));
  run_.backend.axpby(-1, theta, 1, change);
  run_.backend.axpby(1, change, 1, residual_);
  ++clock_;
  ++steps_;
  examples_ += batch.rank_step_size;
  examples_of_segment_ += batch.rank_step_size;
  return encode();
}

SharedUpdate SharingRank::encode() {
  const auto room = std::as_writable_bytes(message_.view());
  SharedUpdate update{.sender = run_.communicator.rank(), .read = applied_};
  update.bytes = encoder_->encode(
      residual_, {.step = static_cast<std::uint64_t>(steps_), .sender = static_cast<std::uint32_t>(update.sender)},
      room);
  update.words = std::make_shared<std::vector<std::uint64_t>>(static_cast<std::size_t>((update.bytes + 7) / 8));
  std::ranges::copy(room.first(static_cast<std::size_t>(update.bytes)), update.message().begin());
  return update;
}

void SharingRank::share(const SharedUpdate& update) {
  ++counters_.updates;
  relay_.share(update);
}

void SharingRank::apply(const SharedUpdate& update) {
  const parallel::Phase phase(run_, run_.seconds.optimizer);
  order_->record_or_follow({update.sender, true});
  encoder_->add(update.message(), run_.state.parameters);
  if (update.sender != run_.communicator.rank()) {
    counters_.staleness.add(settings_.is_synchronous() ? 0 : applied_ - update.read);
  }
  ++applied_by_[static_cast<std::size_t>(update.sender)];
  ++applied_;
}

void SharingRank::count() {
  counters_.sent_bytes = relay_.sent_bytes();
  counters_.plain_bytes =
      relay_.sent_updates() * std::ssize(run_.state.parameters) * static_cast<std::int64_t>(sizeof(float));
}

// --- Between segments ------------------------------------------------------------------------------------------------

void SharingRank::form_consensus() {
  Allocator& memory = run_.backend.memory();
  memory.copy(run_.state.parameters, change_.view());
  memory.copy(run_.state.statistics, own_statistics_);
  const double weight = settings_.is_synchronous() ? 1 : static_cast<double>(examples_of_segment_);
  strategies::form_consensus(run_, {change_.view(), own_statistics_}, counters_.consensus, weight);
  if (settings_.is_synchronous()) memory.copy(change_.view(), run_.state.parameters);  // the same on all ranks
}

}  // namespace unisono::strategies
