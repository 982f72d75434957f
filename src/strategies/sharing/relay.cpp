#include "sharing/relay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "unisono/base/errors.hpp"

namespace unisono::strategies {
namespace {

constexpr int kHeaderTag = 10, kMessageTag = 11, kAskTag = 12, kGrantTag = 13;

template <typename T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

}  // namespace

std::vector<int> tree_neighbours(int rank, int ranks) {
  std::vector<int> neighbours;
  if (rank > 0) neighbours.push_back((rank - 1) / 2);
  for (int child = 2 * rank + 1; child <= 2 * rank + 2 && child < ranks; ++child) neighbours.push_back(child);
  return neighbours;
}

Relay::Relay(comm::Communicator& ranks) : ranks_(ranks), fate_(ranks) {
  for (const int peer : tree_neighbours(ranks.rank(), ranks.size())) edges_.push_back({.peer = peer});
  for (int peer = 1; ranks.is_root() && peer < ranks.size(); ++peer) asks_.push_back({.peer = peer});
}

// --- The rank's side -------------------------------------------------------------------------------------------------

void Relay::begin(std::int64_t steps) {
  to_grant_ = steps;
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
  answer_ = ranks_.start_receive(bytes_of(left_), 0, kGrantTag);
  question_ = ranks_.start_send(bytes_of(asked_), 0, kAskTag);
}

bool Relay::ask_for_step() {
  if (ranks_.is_root()) return grant() >= 0;
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
  while (!pending_.empty() || !std::ranges::all_of(edges_, is_closed)) {
    if (pending_.empty()) {  // the others have left
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return has_news_ || fate_.has_given_up(); });
    } else {
      finish_some();
    }
    fate_.require_all();
    send_own();
    close_edges();
  }
}

void Relay::finish_some() {
  std::vector<comm::Request*> requests;
  for (const Pending& one : pending_) requests.push_back(one.request.get());
  std::vector<Pending> finished;
  for (const std::size_t i : fate_.wait_any(requests, [this] { return has_news_.load(); })) {
    finished.push_back(std::move(pending_[i]));
  }
  std::erase_if(pending_, [](const Pending& one) { return one.request == nullptr; });
  for (const Pending& one : finished) {
    one.request->wait();
    one.then();
  }
}

void Relay::listen(Edge& edge) {
  when(ranks_.start_receive(bytes_of(edge.heard), edge.peer, kHeaderTag), [this, &edge] { hear(edge); });
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
  when(ranks_.start_receive(bytes_of(ask.heard), ask.peer, kAskTag), [this, &ask] {
    ask.left = grant();
    when(ranks_.start_send(bytes_of(ask.left), ask.peer, kGrantTag), [this, &ask] {
      if (ask.left >= 0) listen(ask);
    });
  });
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
  when(ranks_.start_send(bytes_of(*kept), peer, kHeaderTag), [kept] {});
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

}  // namespace unisono::strategies
