#include "pipeline/boundaries.hpp"

#include <algorithm>
#include <cassert>

namespace unisono::strategies {
namespace {

/// Messages of one piece and direction arrive in the order of the micro-batches, which all stages keep to.
int tag_of(const Boundaries::Message& message) { return 2 * message.piece + (message.gradient ? 1 : 0); }

}  // namespace

/// A buffer that no message is in. A new one where all are under way.
Boundaries::Sent& Boundaries::free_buffer(Index floats) {
  for (Sent& sent : sent_) {
    if (sent.request && sent.request->test()) {
      sent.request->wait();
      sent.request.reset();
    }
  }
  auto found =
      std::ranges::find_if(sent_, [&](const Sent& sent) { return !sent.request && sent.values.size() >= floats; });
  if (found != sent_.end()) return *found;
  sent_.push_back({Buffer(floats), nullptr, 0});
  return sent_.back();
}

void Boundaries::send(const Message& message, View values) {
  Sent& sent = free_buffer(message.floats);
  const View part = values.first(static_cast<std::size_t>(message.floats));
  std::ranges::copy(part, sent.values.data());
  const auto bytes = std::as_bytes(sent.values.view().first(part.size()));
  sent.number = ++sends_;
  sent.request = stages_.start_send(bytes, message.peer, tag_of(message));
  sent_bytes_ += static_cast<std::int64_t>(bytes.size());
}

void Boundaries::wait_for_sends(std::size_t most) {
  const ScopedTimer timer(waited_seconds_, clock_);
  for (Sent& sent : sent_) {
    if (!sent.request || sent.number > sends_ - static_cast<std::int64_t>(most)) continue;
    sent.request->wait();
    sent.request.reset();
  }
}

void Boundaries::expect(const Message& message) {
  assert(!receiving_);
  if (incoming_.size() < message.floats) incoming_ = Buffer(message.floats);
  expected_ = message;
  receiving_ =
      stages_.start_receive(std::as_writable_bytes(incoming_.view().first(static_cast<std::size_t>(message.floats))),
                            message.peer, tag_of(message));
}

void Boundaries::receive(MutableView values) {
  assert(receiving_);
  {
    const ScopedTimer timer(waited_seconds_, clock_);
    receiving_->wait();
  }
  receiving_.reset();
  std::copy_n(incoming_.data(), expected_.floats, values.begin());
}

void Boundaries::finish() { wait_for_sends(0); }

}  // namespace unisono::strategies
