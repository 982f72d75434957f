#include "sharing/relay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "step.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::strategies {
namespace {

constexpr int kHeaderTag = 10, kMessageTag = 11, kAskTag = 12, kGrantTag = 13;

}  // namespace

std::vector<int> tree_neighbours(int rank, int ranks) {
  std::vector<int> neighbours;
  if (rank > 0) neighbours.push_back((rank - 1) / 2);
  for (int child = 2 * rank + 1; child <= 2 * rank + 2 && child < ranks; ++child) neighbours.push_back(child);
  return neighbours;
}

std::optional<StepQueue::Grant> StepQueue::next() {
  std::optional<std::size_t> next;
  for (std::size_t rank = 0; rank < granted_.size(); ++rank) {
    if (waits_[rank] && (!next || granted_[rank] < granted_[*next])) next = rank;
  }
  if (!next) return std::nullopt;
  waits_[*next] = false;
  if (left_ > 0) ++granted_[*next];
  left_ = std::max<std::int64_t>(left_ - 1, -1);
  return Grant{.rank = static_cast<int>(*next), .left = left_};
}

Relay::Relay(comm::Communicator& ranks, const Runtime& runtime)
    : ranks_(ranks),
      fate_(ranks),
      awaited_(ranks, fate_),
      queue_(ranks.size()),
      changed_(runtime),
      background_("shared updates", runtime) {
  for (const int peer : tree_neighbours(ranks.rank(), ranks.size())) edges_.push_back({.peer = peer});
  for (int peer = 0; ranks.is_root() && peer < ranks.size(); ++peer) asks_.push_back({.peer = peer});
}

// --- The rank's side -------------------------------------------------------------------------------------------------

void Relay::begin(std::int64_t steps) {
  queue_.begin(steps);
  has_left_ = all_arrived_ = false;
  for (Edge& edge : edges_) edge.closed_in = edge.closed_out = false;
  running_ = background_.start([this, deals = steps > 0] {
    try {
      run(deals);
    } catch (...) {
      give_up(std::current_exception());
    }
  });
}

void Relay::give_up(std::exception_ptr cause) {
  fate_.give_up(std::move(cause));
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

void Relay::start_asking() {
  answer_ = ranks_.start_receive(comm::bytes_of(left_), 0, kGrantTag);
  question_ = ranks_.start_send(comm::bytes_of(asked_), 0, kAskTag);
}

/// Rank 0 asks its own thread by message, too: otherwise its requests would be answered before those of others.
bool Relay::ask_for_step() {
  if (!answer_) start_asking();
  try {
    fate_.wait(*question_);
    fate_.wait(*answer_);
  } catch (const comm::PeerFailure&) {
    fate_.rethrow_cause();
    throw;
  }
  answer_.reset();
  const std::int64_t left = left_;
  const int few = 4 * ranks_.size();  // so that no slow rank has another step to make when all others have ended
  if (left > few) start_asking();
  return left >= 0;
}

void Relay::share(SharedUpdate update) {
  if (edges_.empty()) return;
  const std::lock_guard lock(mutex_);
  own_.push_back(std::move(update));
  has_news_ = true;
  changed_.notify_all();
}

void Relay::leave() {
  const std::lock_guard lock(mutex_);
  has_left_ = has_news_ = true;
  changed_.notify_all();
}

std::optional<SharedUpdate> Relay::take() {
  const std::lock_guard lock(mutex_);
  if (arrived_.empty()) return std::nullopt;
  SharedUpdate first = std::move(arrived_.front());
  arrived_.pop_front();
  return first;
}

/// \return none, if no more come
std::optional<SharedUpdate> Relay::wait_until_found(const Found& find) {
  std::unique_lock lock(mutex_);
  auto found = arrived_.end();
  const auto is_over = [&] {
    found = find(arrived_);
    return found != arrived_.end() || all_arrived_ || fate_.has_given_up();
  };
  changed_.wait(lock, is_over);
  if (found == arrived_.end()) {
    fate_.rethrow_cause();
    return std::nullopt;
  }
  SharedUpdate update = std::move(*found);
  arrived_.erase(found);
  return update;
}

std::optional<SharedUpdate> Relay::wait() {
  return wait_until_found([](auto& arrived) { return arrived.begin(); });
}

SharedUpdate Relay::wait_for(int sender) {
  auto update =
      wait_until_found([sender](auto& arrived) { return std::ranges::find(arrived, sender, &SharedUpdate::sender); });
  if (!update) throw CheckpointError(fmt::format("the record has more updates of rank {} than it makes", sender));
  return std::move(*update);
}

void Relay::end() {
  running_->wait();
  fate_.rethrow_cause();
}

// --- The thread's side -----------------------------------------------------------------------------------------------

void Relay::run(bool deals) {
  for (Edge& edge : edges_) listen(edge);
  for (std::size_t i = 0; deals && i < asks_.size(); ++i) listen(asks_[i]);
  close_edges();
  const auto is_closed = [](const Edge& edge) { return edge.closed_in && edge.closed_out; };
  while (!awaited_.empty() || !std::ranges::all_of(edges_, is_closed)) {
    if (awaited_.empty()) {  // the others have left
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return has_news_ || fate_.has_given_up(); });
    } else {
      finish_some();
    }
    fate_.require_all();
    send_own();
    if (deals) deal();
    close_edges();
  }
}

void Relay::finish_some() {
  for (const auto& then : awaited_.finish_some([this] { return has_news_.load(); })) then();
}

void Relay::listen(Edge& edge) {
  when(ranks_.start_receive(comm::bytes_of(edge.heard), edge.peer, kHeaderTag), [this, &edge] { hear(edge); });
}

void Relay::hear(Edge& edge) {
  if (edge.heard.bytes == 0) {
    edge.closed_in = true;
    return;
  }
  const std::int64_t bytes = edge.heard.bytes;
  SharedUpdate update{.sender = static_cast<int>(edge.heard.sender),
                      .read = edge.heard.read,
                      .bytes = bytes,
                      .words = std::make_shared<std::vector<std::uint64_t>>(static_cast<std::size_t>((bytes + 7) / 8))};
  when(ranks_.start_receive(update.message(), edge.peer, kMessageTag), [this, &edge, update] {
    pass_on(update, &edge);
    arrive(update);
    listen(edge);
  });
}

void Relay::listen(Ask& ask) {
  when(ranks_.start_receive(comm::bytes_of(ask.heard), ask.peer, kAskTag), [this, &ask] { queue_.ask(ask.peer); });
}

/// Answers all requests that have arrived.
void Relay::deal() {
  while (const auto grant = queue_.next()) {
    Ask& ask = asks_[static_cast<std::size_t>(grant->rank)];
    ask.left = grant->left;
    when(ranks_.start_send(comm::bytes_of(ask.left), ask.peer, kGrantTag), [this, &ask] {
      if (ask.left >= 0) listen(ask);
    });
  }
}

void Relay::arrive(SharedUpdate update) {
  const std::lock_guard lock(mutex_);
  arrived_.push_back(std::move(update));
  changed_.notify_all();
}

void Relay::send_own() {
  std::deque<SharedUpdate> own;
  {
    const std::lock_guard lock(mutex_);
    own.swap(own_);
    has_news_ = false;
  }
  for (const SharedUpdate& update : own) pass_on(update, nullptr);
}

void Relay::pass_on(const SharedUpdate& update, const Edge* from) {
  for (Edge& edge : edges_) {
    if (&edge != from) send(edge, update);
  }
}

void Relay::send(Edge& edge, const SharedUpdate& update) {
  send_header(edge.peer, {.sender = update.sender, .read = update.read, .bytes = update.bytes});
  when(ranks_.start_send(update.message(), edge.peer, kMessageTag), [update] {});
  sent_bytes_ += update.bytes;
  ++sent_updates_;
}

void Relay::send_header(int peer, const Header& header) {
  const auto kept = std::make_shared<Header>(header);
  when(ranks_.start_send(comm::bytes_of(*kept), peer, kHeaderTag), [kept] {});
  sent_bytes_ += static_cast<std::int64_t>(sizeof(Header));
}

/// Tells the peer of an edge that no more comes along it, when this rank has left and all other edges are closed.
void Relay::close_edges() {
  const std::lock_guard lock(mutex_);
  if (has_left_ && own_.empty()) {
    for (Edge& edge : edges_) {
      const bool others_are =
          std::ranges::all_of(edges_, [&](const Edge& other) { return &other == &edge || other.closed_in; });
      if (edge.closed_out || !others_are) continue;
      edge.closed_out = true;
      send_header(edge.peer, {.sender = 0, .read = 0, .bytes = 0});
    }
  }
  all_arrived_ = std::ranges::all_of(edges_, &Edge::closed_in);
  changed_.notify_all();
}

kernels::ThresholdSettings encoding_of(const GradientSharingSettings& settings, const ParameterLayout& layout) {
  const double used = static_cast<double>(layout.parameters()) / static_cast<double>(layout.size());
  return {.threshold = static_cast<float>(settings.threshold), .density = settings.density * used};
}

SharingRank::SharingRank(TrainContext& run, const GradientSharingSettings& settings)
    : run_(run),
      settings_(settings),
      counters_(run.counters.of<SharingCounters>()),
      relay_(run.communicator, run.runtime),
      encoder_(kernels::make_threshold_encoder(encoding_of(settings, run.replica.layout()))),
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
  run_.runtime.update(std::ssize(theta), [&] {
    run_.backend.memory().copy(theta, change);
    run_.optimizer->step(change, run_.gradient, share * run_.schedule.rate(segment.step_at(clock_)));
    run_.backend.axpby(-1, theta, 1, change);
    run_.backend.axpby(1, change, 1, residual_);
  });
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
