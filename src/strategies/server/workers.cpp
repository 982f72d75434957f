#include "server/workers.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "step.hpp"
#include "unisono/base/clock.hpp"

namespace unisono::strategies {

void ServedWorker::train(const Segment& segment) {
  make_steps(segment);
  client_.leave();
  account();
}

std::int64_t ServedWorker::next_pull(std::int64_t clock, const Pulled& pulled) const {
  const std::int64_t next = clock + pulled.granted;
  if (settings_.consistency == Consistency::asynchronous || pulled.granted == 0) return next;
  return std::clamp(pulled.complete + settings_.staleness + 1, clock + 1, next);
}

double ServedWorker::share_of(const data::Batch& batch) const {
  return static_cast<double>(batch.rank_step_size) / static_cast<double>(std::max<Index>(1, batch.global_size));
}

void ServedWorker::count(const data::Batch& batch) {
  ++steps_;
  examples_ += batch.rank_step_size;
}

void ServedWorker::account() {
  run_.seconds.exposed_communication += client_.message_seconds() - message_seconds_;
  run_.seconds.straggler_wait += client_.held_seconds() - held_seconds_;
  message_seconds_ = client_.message_seconds();
  held_seconds_ = client_.held_seconds();
}

// Downpour's worker (Dean et al., "Large scale distributed deep networks", NIPS 2012, algorithm 7.1):
//     every pull_period steps:   θ ← the servers' θ
//     g ← (1/n) Σ ∇ℓ_i(θ)        over the n examples of the worker's own step
//     accrued ← accrued + g
//     every push_period steps:   `accrued` is sent to the servers and reset
//     between pulls:             θ ← θ − rate · g
// A push is sent while the next step computes. With prefetch, so is a pull, whose θ then lacks the worker's own last
// push. Pushes may be compressed: see wire.cpp. Memory: a second gradient, a second θ where pulls go
// ahead, two more gradients where several are accrued; one gradient less where pushes are compressed.

namespace {

class GradientWorker final : public ServedWorker {
 public:
  GradientWorker(const TrainContext& run, Client client, const WorkerSettings& settings,
                 const std::vector<comm::Slice>& shards);

 private:
  void make_steps(const Segment& segment) override;
  void start_pull(std::int64_t clock);
  std::int64_t finish_pull(std::int64_t clock);
  data::Batch compute();
  float clipping();
  void accrue(const data::Batch& batch, float scale);
  void add_to_push(float scale);
  void push(const Segment& segment, std::int64_t clock, const data::Batch& batch, float scale);
  void push_compressed(const Question& terms, float scale);
  void step_alone(double rate, float scale);
  void keep_gradient();
  bool accrues() const { return settings_.push_period > 1; }

  MutableView gradient_;  ///< of the run, which measures it
  std::vector<comm::Slice> shards_;
  Buffer second_theta_;
  MutableView theta_ahead_;  ///< the buffer for the next pull
  Buffer statistics_ahead_, pushed_statistics_;
  std::array<Buffer, 2> buffers_;
  std::array<MutableView, 2> pushes_;                      ///< for the next push, and for the one in flight
  Buffer residual_;                                        ///< where the run keeps none
  std::optional<CompressedPushes> compressed_;             ///< empty: gradients are pushed as they are
  std::int64_t accrued_steps_ = 0, accrued_examples_ = 0;  ///< accumulated for the next push
};

GradientWorker::GradientWorker(const TrainContext& run, Client client, const WorkerSettings& settings,
                               const std::vector<comm::Slice>& shards)
    : ServedWorker(run, std::move(client), settings),
      gradient_(run.gradient),
      shards_(shards),
      statistics_ahead_(std::ssize(run.state.statistics), run.backend.memory()),
      pushed_statistics_(std::ssize(run.state.statistics), run.backend.memory()) {
  if (settings.prefetch) second_theta_ = Buffer(std::ssize(run.state.parameters), run.backend.memory());
  theta_ahead_ = second_theta_.view();
  const bool compresses = settings.compression.is_on();
  for (std::size_t i = accrues() ? 0 : 1; i < (compresses ? 1 : 2); ++i) {
    buffers_[i] = Buffer(std::ssize(run.gradient), run.backend.memory());
    pushes_[i] = buffers_[i].view();
  }
  if (!accrues()) pushes_[0] = run.gradient;
  if (!compresses) return;
  if (run.vectors.empty()) {
    residual_ = Buffer(std::ssize(run.gradient), run.backend.memory());
    std::ranges::fill(residual_.view(), 0.0F);
  }
  compressed_.emplace(run.model.layout(), shards, settings.compression, client_.worker(),
                      run.vectors.empty() ? residual_.view() : run.vectors.front().values.view(), run.backend);
}

void GradientWorker::make_steps(const Segment& segment) {
  const bool in_step = settings_.consistency != Consistency::asynchronous;  // all make as many steps
  data::Batch batch;
  std::int64_t clock = 0;
  start_pull(0);
  for (std::int64_t next = 0; !in_step || clock < segment.steps; ++clock) {
    if (clock == next) {
      if (clock > 0 && !settings_.prefetch) start_pull(clock);
      next = finish_pull(clock);
      if (next == clock) break;  // the others make what is left
    }
    if (settings_.prefetch && clock + 1 == next && !(in_step && next == segment.steps)) start_pull(next);
    batch = compute();
    const float scale = clipping();
    accrue(batch, scale);
    if ((clock + 1) % settings_.push_period == 0) push(segment, clock, batch, scale);
    if (clock + 1 < next) step_alone(run_.schedule.rate(segment.step_at(clock)), scale);
    count(batch);
  }
  if (accrued_steps_ > 0) push(segment, clock - 1, batch, 1);
  if (clock > 0) keep_gradient();
}

/// After the last step its gradient is where the run looks for it.
void GradientWorker::keep_gradient() {
  const View last = run_.gradient;
  if (last.data() != gradient_.data()) run_.backend.memory().copy(last, gradient_);  // no push reads it any more
}

void GradientWorker::start_pull(std::int64_t clock) {
  const bool ahead = settings_.prefetch;
  client_.start_pull(clock, settings_.pull_period, parts_of(ahead ? theta_ahead_ : run_.state.parameters, shards_),
                     ahead ? statistics_ahead_.view() : run_.state.statistics);
}

/// \return the step before which the worker must pull again
std::int64_t GradientWorker::finish_pull(std::int64_t clock) {
  const Pulled pulled = client_.finish_pull();
  if (settings_.prefetch) {
    std::swap(run_.state.parameters, theta_ahead_);
    run_.backend.memory().copy(statistics_ahead_.view(), run_.state.statistics);
  }
  return next_pull(clock, pulled);
}

data::Batch GradientWorker::compute() {
  if (!accrues()) run_.gradient = pushes_[0];
  return accumulate_gradient(run_, settings_.consistency == Consistency::synchronous
                                       ? parallel::MeanOver::all_replicas
                                       : parallel::MeanOver::own_examples);
}

/// The factor of g that clips its norm.
float GradientWorker::clipping() {
  if (settings_.clip_norm == 0) return 1;
  return kernels::value_of({.clip_norm = settings_.clip_norm}, run_.backend.squared_norm(run_.gradient));
}

void GradientWorker::accrue(const data::Batch& batch, float scale) {
  accrued_examples_ += batch.rank_step_size;
  ++accrued_steps_;
  if (accrues()) add_to_push(scale);
}

/// Adds scale · g to the next push.
void GradientWorker::add_to_push(float scale) {
  const parallel::Phase phase(run_, run_.seconds.optimizer);
  const float kept = accrued_steps_ == 1 ? 0 : 1;  // 0: overwrites an earlier push
  run_.backend.axpby(scale, run_.gradient, kept, pushes_[0]);
  run_.backend.submit();
}

void GradientWorker::push(const Segment& segment, std::int64_t clock, const data::Batch& batch, float scale) {
  client_.finish_push();
  run_.backend.memory().copy(run_.state.statistics, pushed_statistics_.view());
  Question terms{.clock = clock + 1,
                 .examples = std::exchange(accrued_examples_, 0),
                 .rate = run_.schedule.rate(segment.step_at(clock)),
                 .weight = share_of(batch)};
  accrued_steps_ = 0;
  if (accrues()) scale = 1;  // that of each gradient is in their sum
  if (compressed_) return push_compressed(terms, scale);
  terms.gradient_scale = scale;
  client_.start_push(terms, parts_of(pushes_[0], shards_), pushed_statistics_.view());
  std::swap(pushes_[0], pushes_[1]);
}

void GradientWorker::push_compressed(const Question& terms, float scale) {
  std::vector<std::span<const std::byte>> messages = compressed_->nothing();
  if (terms.examples > 0) {
    const parallel::Phase phase(run_, run_.seconds.optimizer);
    messages = compressed_->encode(pushes_[0], scale, steps());
  }
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    if (!client_.is_remote(static_cast<int>(i))) continue;
    compression_.sent_bytes += std::ssize(messages[i]);
    compression_.plain_bytes += (shards_[i].last - shards_[i].first) * Index{sizeof(float)};
  }
  client_.start_push(terms, messages, pushed_statistics_.view());
}

/// The worker's own SGD step on its copy of θ, between pulls.
void GradientWorker::step_alone(double rate, float scale) {
  const parallel::Phase phase(run_, run_.seconds.optimizer);
  run_.backend.axpby(-static_cast<float>(rate) * scale, run_.gradient, 1, run_.state.parameters);
  run_.backend.submit();
}

}  // namespace

std::unique_ptr<ServedWorker> make_gradient_worker(const TrainContext& run, Client client,
                                                   const WorkerSettings& settings,
                                                   const std::vector<comm::Slice>& shards) {
  return std::make_unique<GradientWorker>(run, std::move(client), settings, shards);
}

// A worker of a model that is updated in place: for each of its steps
//     it pulls the rows of θ that the step's examples touch,
//     trains on the examples, one after the other,
//     pushes what changed:   change_row = θ_row − what was pulled
// If it is the only worker, it pushes the rows themselves: nobody else changed them, and rounding may make θ + (θ' − θ)
// differ from θ'.
// Memory: θ, of which only the rows in use are up to date, and twice the rows of a step.

namespace {

class InPlaceWorker final : public ServedWorker {
 public:
  InPlaceWorker(const TrainContext& run, Client client, const WorkerSettings& settings,
                const std::vector<comm::Slice>& shards)
      : ServedWorker(run, std::move(client), settings),
        scratch_(run.model.in_place()->make_scratch()),
        touched_(run.model.in_place()->row_spaces()) {
    for (const comm::Slice& shard : shards) {
      parts_.push_back({.map = {std::ssize(run.state.parameters), run.model.in_place()->row_spaces(), shard},
                        .rows = {},
                        .values = {}});
    }
  }

 private:
  /// The rows of a step that lie in one shard.
  struct PulledShard {
    RowsInShard map;
    std::vector<std::uint32_t> rows;
    std::array<std::vector<float>, 2> values;  ///< values of the rows: of this step, and of the previous one
  };

  void make_steps(const Segment& segment) override;
  void mark(const data::Batch& batch);
  Pulled pull(std::int64_t clock);
  void train_on(const data::Batch& batch, double rate);
  void push(const Segment& segment, std::int64_t clock, const data::Batch& batch);
  std::vector<ShardPart> parts();
  template <typename Visit>
  void for_each_row(Visit visit);

  std::unique_ptr<models::Scratch> scratch_;
  models::TouchedRows touched_;
  std::vector<PulledShard> parts_;
  std::optional<data::Batch> batch_;  ///< a batch that was read but not yet trained on
};

void InPlaceWorker::make_steps(const Segment& segment) {
  const bool in_step = settings_.consistency != Consistency::asynchronous;  // all make as many steps
  for (std::int64_t clock = 0; !in_step || clock < segment.steps; ++clock) {
    if (!batch_) batch_ = parallel::next_batch(run_);
    mark(*batch_);
    if (pull(clock).granted == 0) return;  // the others make what is left
    const data::Batch batch = *std::exchange(batch_, std::nullopt);
    train_on(batch, run_.schedule.rate(segment.step_at(clock)));
    push(segment, clock, batch);
    count(batch);
  }
}

/// Finds the rows that the batch touches.
void InPlaceWorker::mark(const data::Batch& batch) {
  const ScopedTimer timer(run_.seconds.compute, run_.runtime);
  for (const data::ExampleRange& piece : pieces_of(batch)) {
    run_.model.in_place()->mark_rows(batch, piece, *scratch_, touched_);
  }
  for (PulledShard& part : parts_) {
    part.rows.clear();
    part.map.take_touched(touched_, part.rows);
    std::swap(part.values[0], part.values[1]);  // the previous step's values are still being sent
    part.values[0].resize(static_cast<std::size_t>(part.map.floats_of(part.rows)));
  }
}

std::vector<ShardPart> InPlaceWorker::parts() {
  std::vector<ShardPart> parts;
  for (PulledShard& part : parts_) parts.push_back({part.values[0], part.rows});
  return parts;
}

/// Calls visit(a row in θ, the same row in the message) for each pulled row.
template <typename Visit>
void InPlaceWorker::for_each_row(Visit visit) {
  for (PulledShard& part : parts_) {
    std::span<float> left(part.values[0]);
    part.map.for_each(part.rows, [&](Index offset, Index floats) {
      const auto count = static_cast<std::size_t>(floats);
      visit(run_.state.parameters.subspan(static_cast<std::size_t>(offset), count), left.first(count));
      left = left.subspan(count);
    });
  }
}

Pulled InPlaceWorker::pull(std::int64_t clock) {
  client_.start_pull(clock, 1, parts(), {});
  const Pulled pulled = client_.finish_pull();
  const ScopedTimer timer(run_.seconds.exposed_communication, run_.runtime);
  for_each_row([](MutableView theta, MutableView message) { std::ranges::copy(message, theta.begin()); });
  return pulled;
}

void InPlaceWorker::train_on(const data::Batch& batch, double rate) {
  models::InPlaceStep step{.rate = rate,
                           .examples_before = own_examples_before(run_, batch, settings_.workers),
                           .parameters = run_.state.parameters};
  parallel::compute(run_, batch.size, [&] {
    for (const data::ExampleRange& piece : pieces_of(batch)) {
      run_.model.in_place()->update_in_place(batch, piece, step, *scratch_, run_.sums);
      step.examples_before += piece.size();
    }
  });
}

void InPlaceWorker::push(const Segment& segment, std::int64_t clock, const data::Batch& batch) {
  {
    const ScopedTimer timer(run_.seconds.exposed_communication, run_.runtime);
    const bool alone = settings_.workers == 1;
    for_each_row([&](View theta, MutableView message) {
      for (std::size_t k = 0; k < theta.size(); ++k) {
        message[k] = alone ? theta[k] : settings_.share * (theta[k] - message[k]);
      }
    });
  }
  client_.start_push({.clock = clock + 1,
                      .examples = batch.rank_step_size,
                      .rate = run_.schedule.rate(segment.step_at(clock)),
                      .weight = share_of(batch)},
                     parts(), {});
}

}  // namespace

std::unique_ptr<ServedWorker> make_in_place_worker(const TrainContext& run, Client client,
                                                   const WorkerSettings& settings,
                                                   const std::vector<comm::Slice>& shards) {
  return std::make_unique<InPlaceWorker>(run, std::move(client), settings, shards);
}

std::vector<ShardPart> parts_of(MutableView vector, const std::vector<comm::Slice>& shards) {
  std::vector<ShardPart> parts;
  for (const comm::Slice& shard : shards) parts.push_back({slice(vector, shard)});
  return parts;
}

Client::Client(Wire& wire, int worker, int servers, Index statistics)
    : wire_(wire), worker_(worker), has_statistics_(statistics > 0), servers_(static_cast<std::size_t>(servers)) {}

void Client::start_pull(std::int64_t clock, std::int64_t steps, std::vector<ShardPart> parts, MutableView statistics) {
  const ScopedTimer timer(message_seconds_, wire_.runtime());
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    Server& server = servers_[i];
    const int number = static_cast<int>(i);
    const ShardPart& part = parts[i];
    server.pull = {.ask = Ask::pull, .clock = clock, .steps = steps, .rows = std::ssize(part.rows)};
    // Receives are posted before the question is sent.
    server.pulling.push_back(
        wire_.receive_from_server(worker_, number, Channel::pull_answer, comm::bytes_of(server.pulled)));
    server.pulling.push_back(
        wire_.receive_from_server(worker_, number, Channel::pulled_values, std::as_writable_bytes(part.values)));
    if (i == 0 && has_statistics_) {
      server.pulling.push_back(
          wire_.receive_from_server(worker_, number, Channel::pulled_statistics, std::as_writable_bytes(statistics)));
    }
    server.pulling.push_back(wire_.send_to_server(worker_, number, Channel::question, comm::bytes_of(server.pull)));
    if (part.rows.empty()) continue;
    server.pulling.push_back(wire_.send_to_server(worker_, number, Channel::rows, std::as_bytes(part.rows)));
  }
}

Pulled Client::finish_pull() {
  const Stopwatch watch(wire_.runtime());
  double held = 0;
  Pulled pulled{.granted = 0, .complete = std::numeric_limits<std::int64_t>::max()};
  for (Server& server : servers_) {
    wait(server.pulling);
    server.read = server.pulled.version;
    held = std::max(held, server.pulled.held_seconds);
    pulled.complete = std::min(pulled.complete, server.pulled.complete);
  }
  pulled.granted = servers_.front().pulled.granted;
  held = std::min(held, watch.seconds());
  held_seconds_ += held;
  message_seconds_ += watch.seconds() - held;
  return pulled;
}

void Client::start_push(const Question& terms, const std::vector<ShardPart>& parts, View statistics) {
  std::vector<std::span<const std::byte>> values;
  for (const ShardPart& part : parts) values.push_back(std::as_bytes(View(part.values)));
  start_push(terms, values, statistics);
}

void Client::start_push(const Question& terms, const std::vector<std::span<const std::byte>>& messages,
                        View statistics) {
  finish_push();
  const ScopedTimer timer(message_seconds_, wire_.runtime());
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    Server& server = servers_[i];
    const int number = static_cast<int>(i);
    server.push = terms;
    server.push.ask = Ask::push;
    server.push.read = server.read;
    server.push.bytes = std::ssize(messages[i]);
    server.pushing.push_back(
        wire_.receive_from_server(worker_, number, Channel::push_answer, comm::bytes_of(server.pushed)));
    server.pushing.push_back(wire_.send_to_server(worker_, number, Channel::question, comm::bytes_of(server.push)));
    server.pushing.push_back(wire_.send_to_server(worker_, number, Channel::values, messages[i]));
    if (i == 0 && has_statistics_) {
      server.pushing.push_back(wire_.send_to_server(worker_, number, Channel::statistics, std::as_bytes(statistics)));
    }
  }
}

void Client::finish_push() {
  const ScopedTimer timer(message_seconds_, wire_.runtime());
  for (Server& server : servers_) wait(server.pushing);
}

void Client::leave() {
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    servers_[i].push = {.ask = Ask::leave};
    servers_[i].pushing.push_back(
        wire_.send_to_server(worker_, static_cast<int>(i), Channel::question, comm::bytes_of(servers_[i].push)));
  }
  finish_push();
}

void Client::wait(std::vector<comm::RequestPtr>& requests) {
  for (const comm::RequestPtr& request : requests) wire_.wait(*request);
  requests.clear();
}

}  // namespace unisono::strategies
