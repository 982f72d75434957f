#include "batch/coordinator.hpp"

#include <algorithm>

namespace unisono::strategies {

void Coordinator::serve(std::int64_t pass) {
  pass_ = pass;
  said_over_ = false;
  heard_.resize(static_cast<std::size_t>(workers_.size()));
  listening_.resize(heard_.size());
  for (int worker = 0; worker < workers_.size(); ++worker) listen(worker);
  dealer_.begin(watch_.seconds());
  send_orders();
  while (std::ranges::any_of(listening_, [](const auto& request) { return request != nullptr; })) handle_next();
  for (Sent& one : sent_) fate_.wait(*one.request);
  sent_.clear();
}

void Coordinator::listen(int worker) {
  const auto at = static_cast<std::size_t>(worker);
  listening_[at] = workers_.start_receive(std::as_writable_bytes(std::span(&heard_[at], 1)), worker, kToCoordinator);
}

void Coordinator::send(int worker, const Note& note) {
  Sent& one = sent_.emplace_back(Sent{note, nullptr});
  one.request = workers_.start_send(std::as_bytes(std::span(&one.note, 1)), worker, kToWorker);
}

/// Waits for notes, or for the time at which there may be something to say without one.
void Coordinator::handle_next() {
  std::vector<comm::Request*> requests;
  std::vector<int> senders;
  for (std::size_t i = 0; i < listening_.size(); ++i) {
    if (listening_[i] == nullptr) continue;
    requests.push_back(listening_[i].get());
    senders.push_back(static_cast<int>(i));
  }
  const double wake = dealer_.is_complete() ? std::numeric_limits<double>::infinity() : dealer_.wake_time();
  for (const std::size_t i : fate_.wait_any(requests, [&] { return watch_.seconds() >= wake; })) hear(senders[i]);
  send_orders();
}

void Coordinator::hear(int worker) {
  const auto at = static_cast<std::size_t>(worker);
  listening_[at]->wait();
  listening_[at] = nullptr;
  const Note note = heard_[at];
  if (note.kind == Note::Kind::gone) return;
  listen(worker);
  dealer_.finished(worker, note.first, note.seconds, watch_.seconds());
}

void Coordinator::send_orders() {
  if (said_over_) return;
  for (const Dealer::Order& order : dealer_.orders(watch_.seconds())) {
    send(order.worker, {.kind = order.kind == Dealer::Order::Kind::take ? Note::Kind::take : Note::Kind::leave,
                        .first = static_cast<std::int32_t>(order.portions.first),
                        .last = static_cast<std::int32_t>(order.portions.last),
                        .pass = pass_});
  }
  if (!dealer_.is_complete()) return;
  said_over_ = true;
  dealer_.plan();
  for (int worker = 0; worker < workers_.size(); ++worker) {
    const comm::Slice own = dealer_.own(worker);
    send(worker, {.kind = Note::Kind::over,
                  .first = static_cast<std::int32_t>(own.first),
                  .last = static_cast<std::int32_t>(own.last),
                  .pass = pass_});
  }
}

}  // namespace unisono::strategies
