#include "server/client.hpp"

#include <algorithm>
#include <limits>

#include "unisono/base/clock.hpp"

namespace unisono::strategies {

std::vector<ShardPart> parts_of(MutableView vector, const std::vector<comm::Slice>& shards) {
  std::vector<ShardPart> parts;
  for (const comm::Slice& shard : shards) parts.push_back({slice(vector, shard)});
  return parts;
}

Client::Client(Wire& wire, int worker, int servers, Index statistics)
    : wire_(wire), worker_(worker), has_statistics_(statistics > 0), servers_(static_cast<std::size_t>(servers)) {}

void Client::start_pull(std::int64_t clock, std::int64_t steps, std::vector<ShardPart> parts, MutableView statistics) {
  const ScopedTimer timer(message_seconds_, wire_.clock());
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    Server& server = servers_[i];
    const int number = static_cast<int>(i);
    const ShardPart& part = parts[i];
    server.pull = {.ask = Ask::pull, .clock = clock, .steps = steps, .rows = std::ssize(part.rows)};
    // Receives are posted before the question is sent.
    server.pulling.push_back(wire_.receive_from_server(worker_, number, Channel::pull_answer, bytes_of(server.pulled)));
    server.pulling.push_back(
        wire_.receive_from_server(worker_, number, Channel::pulled_values, std::as_writable_bytes(part.values)));
    if (i == 0 && has_statistics_) {
      server.pulling.push_back(
          wire_.receive_from_server(worker_, number, Channel::pulled_statistics, std::as_writable_bytes(statistics)));
    }
    server.pulling.push_back(wire_.send_to_server(worker_, number, Channel::question, bytes_of(server.pull)));
    if (part.rows.empty()) continue;
    server.pulling.push_back(wire_.send_to_server(worker_, number, Channel::rows, std::as_bytes(part.rows)));
  }
}

Pulled Client::finish_pull() {
  const Stopwatch watch(wire_.clock());
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
  const ScopedTimer timer(message_seconds_, wire_.clock());
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    Server& server = servers_[i];
    const int number = static_cast<int>(i);
    server.push = terms;
    server.push.ask = Ask::push;
    server.push.read = server.read;
    server.push.bytes = std::ssize(messages[i]);
    server.pushing.push_back(wire_.receive_from_server(worker_, number, Channel::push_answer, bytes_of(server.pushed)));
    server.pushing.push_back(wire_.send_to_server(worker_, number, Channel::question, bytes_of(server.push)));
    server.pushing.push_back(wire_.send_to_server(worker_, number, Channel::values, messages[i]));
    if (i == 0 && has_statistics_) {
      server.pushing.push_back(wire_.send_to_server(worker_, number, Channel::statistics, std::as_bytes(statistics)));
    }
  }
}

void Client::finish_push() {
  const ScopedTimer timer(message_seconds_, wire_.clock());
  for (Server& server : servers_) wait(server.pushing);
}

void Client::leave() {
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    servers_[i].push = {.ask = Ask::leave};
    servers_[i].pushing.push_back(
        wire_.send_to_server(worker_, static_cast<int>(i), Channel::question, bytes_of(servers_[i].push)));
  }
  finish_push();
}

void Client::wait(std::vector<comm::RequestPtr>& requests) {
  for (const comm::RequestPtr& request : requests) wire_.wait(*request);
  requests.clear();
}

}  // namespace unisono::strategies
