#include "server/server.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "unisono/base/errors.hpp"

namespace unisono::strategies {

Server::Server(Wire& wire, const Roles& roles, int number, ServerShard& shard, ServerSettings settings,
               std::unique_ptr<const PushCode> code)
    : wire_(wire),
      number_(number),
      shard_(shard),
      settings_(settings),
      code_(std::move(code)),
      peers_(static_cast<std::size_t>(roles.workers())),
      awaited_(wire.awaited()) {
  for (Peer& peer : peers_) peer.since_pull = Stopwatch(wire.runtime());
  counters_ = ServerCounters::of_workers(roles.workers());
}

void Server::serve(const Segment& segment, EventOrder& order) {
  const Stopwatch watch(wire_.runtime());
  segment_ = segment;
  order_ = &order;
  to_grant_ = segment.steps * segment.active;
  for (int worker = 0; worker < segment.active; ++worker) {
    peer(worker).clock = 0;
    listen(worker);
  }
  least_ = {.steps = 0, .workers = segment.active};
  while (!awaited_.empty()) {
    finish_some();
    while (take_turn()) {
    }
  }
  assert(waiting_.empty());
  counters_.seconds += watch.seconds();
}

// --- What comes in ---------------------------------------------------------------------------------------------------

/// \param of owner of the bytes, kept until they are sent
void Server::send(int worker, Channel channel, std::span<const std::byte> bytes, std::shared_ptr<const Reply> of) {
  awaited_.when(wire_.send_to_worker(worker, number_, channel, bytes), [of = std::move(of)] {});
}

void Server::finish_some() {
  const auto due = [this] {
    const ScopedTimer timer(counters_.idle_seconds, wire_.runtime());
    return awaited_.finish_some();
  }();
  for (const std::function<void()>& then : due) then();
}

void Server::listen(int worker) {
  awaited_.when(wire_.receive_from_worker(worker, number_, Channel::question, comm::bytes_of(peer(worker).heard)),
                [this, worker] { hear(worker); });
}

void Server::hear(int worker) {
  switch (peer(worker).heard.ask) {
    case Ask::pull:
      return hear_pull(worker);
    case Ask::push:
      return hear_push(worker);
    case Ask::leave:
      return;
  }
}

void Server::hear_pull(int worker) {
  Peer& from = peer(worker);
  from.pull = from.heard;
  from.pulled_rows.resize(static_cast<std::size_t>(from.pull.rows));
  if (from.pulled_rows.empty()) return has_come(worker, Ask::pull);
  awaited_.when(wire_.receive_from_worker(worker, number_, Channel::rows, comm::bytes_of(from.pulled_rows)),
                [this, worker] { has_come(worker, Ask::pull); });
}

void Server::hear_push(int worker) {
  Peer& from = peer(worker);
  from.push = from.heard;
  from.pushed_rows.swap(from.pulled_rows);
  const Index floats = shard_.floats_of(from.pushed_rows);
  if (from.values.size() < floats) from.values = Buffer(floats);
  from.statistics.resize(shard_.statistics().size());
  from.message.resize(code_ ? static_cast<std::size_t>(from.push.bytes) : 0);
  awaited_.when(
      wire_.receive_from_worker(worker, number_, Channel::values,
                                code_ ? comm::bytes_of(from.message) : std::as_writable_bytes(values_of(from))),
      [this, worker] {
        if (code_) code_->decode(peer(worker).message, values_of(peer(worker)));
        if (peer(worker).statistics.empty()) return has_come(worker, Ask::push);
        awaited_.when(
            wire_.receive_from_worker(worker, number_, Channel::statistics, comm::bytes_of(peer(worker).statistics)),
            [this, worker] { has_come(worker, Ask::push); });
      });
}

void Server::has_come(int worker, Ask ask) {
  if (ask == Ask::pull) peer(worker).since_pull.restart();
  waiting_.push_back({worker, ask});
  listen(worker);
}

// --- What is done about it -------------------------------------------------------------------------------------------

/// Handles the first waiting question whose turn it is. \return whether there was one
bool Server::take_turn() {
  const auto next = std::find_if(waiting_.begin(), waiting_.end(), [this](const Turn& turn) { return may_go(turn); });
  if (next == waiting_.end()) return false;
  const Turn turn = *next;
  if (turn.ask == Ask::push && settings_.consistency == Consistency::synchronous) {
    apply_together();
    return true;
  }
  waiting_.erase(next);
  order_->record_or_follow({turn.worker, turn.ask == Ask::push});
  if (turn.ask == Ask::push) {
    apply(turn.worker);
  } else {
    answer(turn.worker);
  }
  return true;
}

bool Server::may_go(const Turn& turn) const {
  const bool pushes = turn.ask == Ask::push;
  if (settings_.consistency == Consistency::synchronous && pushes) return all_have_pushed();
  if (!order_->may_be_next({turn.worker, pushes})) return false;
  if (pushes || settings_.consistency == Consistency::asynchronous) return true;
  return complete() >= peers_[static_cast<std::size_t>(turn.worker)].pull.clock - settings_.staleness;
}

bool Server::all_have_pushed() const {
  return std::count_if(waiting_.begin(), waiting_.end(), [](const Turn& turn) { return turn.ask == Ask::push; }) ==
         segment_.active;
}

/// Notes how many steps of a worker are in the shard. Looks at the others only where it was the last of the slowest.
void Server::advance(Peer& peer, std::int64_t clock) {
  const bool was_least = peer.clock == least_.steps;
  peer.clock = clock;
  if (!was_least || clock == least_.steps || --least_.workers > 0) return;
  least_ = {.steps = peers_.front().clock, .workers = 0};
  for (int worker = 0; worker < segment_.active; ++worker) {
    const std::int64_t steps = peers_[static_cast<std::size_t>(worker)].clock;
    if (steps < least_.steps) least_ = {.steps = steps, .workers = 0};
    if (steps == least_.steps) ++least_.workers;
  }
}

MutableView Server::values_of(Peer& from) const {
  return from.values.view().first(static_cast<std::size_t>(shard_.floats_of(from.pushed_rows)));
}

Push Server::push_of(Peer& from) const {
  Push push{.question = &from.push,
            .values = values_of(from),
            .statistics = from.statistics,
            .rows = from.pushed_rows,
            .staleness = shard_.version() - from.push.read};
  for (const Read& read : from.read) {
    if (read.version == from.push.read) push.read = read.values->view();
  }
  return push;
}

void Server::apply(int worker) {
  const Push push = push_of(peer(worker));
  counters_.staleness[counters_.place_of(worker)].add(push.staleness);
  wire_.runtime().update(std::ssize(push.values), [&] { shard_.apply(push); });
  acknowledge(worker);
}

void Server::apply_together() {
  std::vector<Push> pushes;
  for (int worker = 0; worker < segment_.active; ++worker) pushes.push_back(push_of(peer(worker)));
  std::int64_t values = 0;
  for (const Push& push : pushes) values += std::ssize(push.values);
  wire_.runtime().update(values, [&] { shard_.apply_together(pushes); });
  std::erase_if(waiting_, [](const Turn& turn) { return turn.ask == Ask::push; });
  for (int worker = 0; worker < segment_.active; ++worker) {
    order_->record_or_follow({worker, true});
    counters_.staleness[counters_.place_of(worker)].add(0);
    acknowledge(worker);
  }
}

void Server::acknowledge(int worker) {
  Peer& to = peer(worker);
  advance(to, to.push.clock);
  ++counters_.pushes;
  counters_.pushed_bytes += to.push.bytes;
  const auto reply = std::make_shared<Reply>(Reply{.answer = {.version = shard_.version()}});
  send(worker, Channel::push_answer, comm::bytes_of(reply->answer), reply);
}

void Server::answer(int worker) {
  Peer& to = peer(worker);
  const double held = to.since_pull.seconds();
  counters_.held_seconds[counters_.place_of(worker)] += held;
  const auto reply = std::make_shared<Reply>(Reply{
      .answer = {.version = shard_.version(), .complete = complete(), .granted = grant(to.pull), .held_seconds = held},
      .values = shard_.read(to.pulled_rows),
      .statistics = {shard_.statistics().begin(), shard_.statistics().end()}});
  if (settings_.kept_reads > 0) {
    if (std::ssize(to.read) == settings_.kept_reads) to.read.erase(to.read.begin());
    to.read.push_back({shard_.version(), reply->values});
  }
  const View values = reply->values->view().first(static_cast<std::size_t>(shard_.floats_of(to.pulled_rows)));
  ++counters_.pulls;
  counters_.pulled_bytes += std::ssize(std::as_bytes(values));
  send(worker, Channel::pull_answer, comm::bytes_of(reply->answer), reply);
  send(worker, Channel::pulled_values, std::as_bytes(values), reply);
  if (!reply->statistics.empty()) send(worker, Channel::pulled_statistics, comm::bytes_of(reply->statistics), reply);
}

/// How many steps the worker may make. Asynchronous workers take a segment's steps first come, first served; towards
/// its end in small portions, so that none still has many to make when the others have finished.
std::int64_t Server::grant(const Question& pull) {
  if (settings_.consistency != Consistency::asynchronous) return std::min(pull.steps, segment_.steps - pull.clock);
  const std::int64_t share = (to_grant_ + segment_.active - 1) / segment_.active;
  const std::int64_t granted = std::min(pull.steps, share);
  to_grant_ -= granted;
  return granted;
}

namespace {

constexpr double kBusy = 0.8;  ///< from this share of busy time on, a server is considered a bottleneck

using Shards = std::vector<ServedShard>;

/// A counter summed over the servers.
std::int64_t sum(const Shards& shards, std::int64_t ServerCounters::*count) {
  std::int64_t all = 0;
  for (const ServedShard& shard : shards) all += shard.counters.*count;
  return all;
}

Histogram staleness_of(const Shards& shards, std::size_t worker) {
  Histogram all;
  for (const ServedShard& shard : shards) all += shard.counters.staleness[worker];
  return all;
}

Histogram staleness_of(const Shards& shards) {
  Histogram all;
  for (std::size_t worker = 0; worker < shards.front().counters.staleness.size(); ++worker) {
    all += staleness_of(shards, worker);
  }
  return all;
}

/// Seconds that a worker's pulls were held back for other workers: the maximum over the servers.
double held_seconds(const Shards& shards, std::size_t worker) {
  double longest = 0;
  for (const ServedShard& shard : shards) longest = std::max(longest, shard.counters.held_seconds[worker]);
  return longest;
}

/// What the ranks add up. A server's number and size are zero on all ranks but its own.
void describe_sums(ServedShard& shard, CounterVisitor& visitor) {
  constexpr auto kSum = [](std::string_view name) {
    return Counter{.name = name, .shown = Shown::everywhere, .hidden = true};
  };
  constexpr auto kFixed = [](std::string_view name) {
    return Counter{.name = name, .shown = Shown::everywhere, .hidden = true, .adds_up = false};
  };
  ServerCounters& counters = shard.counters;
  visitor.count(kFixed("rank"), shard.rank);
  visitor.count(kFixed("floats"), shard.floats);
  visitor.count(kSum("pulls"), counters.pulls);
  visitor.count(kSum("pushes"), counters.pushes);
  visitor.count(kSum("pulled_bytes"), counters.pulled_bytes);
  visitor.count(kSum("pushed_bytes"), counters.pushed_bytes);
  visitor.number(kSum("seconds"), counters.seconds);
  visitor.number(kSum("idle_seconds"), counters.idle_seconds);
  for (Histogram& worker : counters.staleness) visitor.histogram(kSum("staleness"), worker);
  for (double& worker : counters.held_seconds) visitor.number(kSum("held_seconds"), worker);
}

void describe_server(const ServedShard& shard, CounterVisitor& visitor) {
  const ServerCounters& counters = shard.counters;
  visitor.begin_element("servers");
  visitor.figure({.name = "rank"}, shard.rank);
  visitor.figure({.name = "shard_bytes", .unit = "bytes"}, shard.floats * static_cast<std::int64_t>(sizeof(float)));
  visitor.figure({.name = "pulls"}, counters.pulls);
  visitor.figure({.name = "pushes"}, counters.pushes);
  visitor.figure({.name = "busy", .unit = "share"}, shard.busy_share());
  visitor.figure({.name = "updates_per_second"},
                 static_cast<double>(counters.pushes) / std::max(counters.seconds, 1e-9));
  visitor.end();
}

}  // namespace

double ServedShard::busy_share() const {
  return std::max(0.0, 1 - counters.idle_seconds / std::max(counters.seconds, 1e-9));
}

void ServingCounters::describe(CounterVisitor& visitor) {
  if (shards.empty()) return;
  const CounterGroup group(visitor, "serving");
  for (ServedShard& shard : shards) describe_sums(shard, visitor);
  const auto everywhere = [](std::string_view name, std::string_view unit = {}) {
    return Counter{.name = name, .unit = unit, .shown = Shown::everywhere};
  };
  visitor.figure(everywhere("pulls"), sum(shards, &ServerCounters::pulls));
  visitor.figure(everywhere("pushes"), sum(shards, &ServerCounters::pushes));
  visitor.figure(everywhere("pulled_bytes", "bytes"), sum(shards, &ServerCounters::pulled_bytes));
  visitor.figure(everywhere("pushed_bytes", "bytes"), sum(shards, &ServerCounters::pushed_bytes));
  visitor.figure(everywhere("staleness", "updates"), staleness_of(shards));
  std::vector<double> busy;
  for (const ServedShard& shard : shards) busy.push_back(shard.busy_share());
  visitor.figure({.name = "busy", .unit = "share", .shown = Shown::in_metrics}, busy);
  for (const ServedShard& shard : shards) describe_server(shard, visitor);
  if (!shards.front().counters.by_worker) return;
  for (std::size_t worker = 0; worker < shards.front().counters.staleness.size(); ++worker) {
    visitor.begin_element("workers");
    visitor.figure({.name = "held_seconds", .unit = "seconds"}, held_seconds(shards, worker));
    visitor.figure({.name = "staleness", .unit = "updates"}, staleness_of(shards, worker));
    visitor.end();
  }
}

std::string ServingCounters::text(const CounterTerms& terms) const {
  if (shards.empty()) return "";
  const auto busiest = std::ranges::max_element(shards, {}, &ServedShard::busy_share);
  double floats = 0;
  for (const ServedShard& shard : shards) floats += static_cast<double>(shard.floats);
  const Histogram staleness = staleness_of(shards);
  std::string text = fmt::format(
      "  servers     {} with {:.1f} MB in total, {} pushes, staleness {:.2g} updates on average, at most {}; the "
      "busiest server was busy {:.0f} % of the time\n",
      shards.size(), sizeof(float) * floats * 1e-6, grouped(sum(shards, &ServerCounters::pushes)), staleness.mean(),
      staleness.largest(), 100 * busiest->busy_share());
  if (busiest->busy_share() > kBusy && !terms.relief.empty()) {
    text +=
        fmt::format("  bottleneck  server {} on rank {}: {}\n", busiest - shards.begin(), busiest->rank, terms.relief);
  }
  return text;
}

}  // namespace unisono::strategies
