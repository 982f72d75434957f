#include "pipeline/boundaries.hpp"

#include <algorithm>
#include <cassert>
#include <vector>

#include "pipeline/device_boundaries.hpp"

namespace unisono::parallel {
namespace {

class PlainBoundaries final : public Boundaries {
 public:
  PlainBoundaries(comm::Communicator& stages, const Clock& clock) : stages_(stages), clock_(clock) {}

  void send(const Message& message, View values) override;
  void wait_for_sends(std::size_t most) override;
  void expect(const Message& message) override;
  void receive(const Message& message, MutableView values) override;
  void finish() override { wait_for_sends(0); }

 private:
  struct Sent : Sending {
    explicit Sent(Index floats) : values(floats) {}
    Buffer values;
  };
  Sent& free_buffer(Index floats);

  comm::Communicator& stages_;
  const Clock& clock_;
  std::vector<Sent> sent_;
  Buffer incoming_;
  comm::RequestPtr receiving_;
  std::int64_t sends_ = 0;
};

/// A buffer that no message is in. A new one where all are under way.
PlainBoundaries::Sent& PlainBoundaries::free_buffer(Index floats) {
  for (Sent& sent : sent_) sent.test();
  auto found =
      std::ranges::find_if(sent_, [&](const Sent& sent) { return !sent.request && sent.values.size() >= floats; });
  if (found != sent_.end()) return *found;
  return sent_.emplace_back(floats);
}

void PlainBoundaries::send(const Message& message, View values) {
  Sent& sent = free_buffer(message.floats);
  const View part = values.first(static_cast<std::size_t>(message.floats));
  std::ranges::copy(part, sent.values.data());
  const auto bytes = std::as_bytes(sent.values.view().first(part.size()));
  sent.number = ++sends_;
  sent.request = stages_.start_send(bytes, message.peer, message.tag());
  sent_bytes_ += static_cast<std::int64_t>(bytes.size());
}

void PlainBoundaries::wait_for_sends(std::size_t most) {
  const ScopedTimer timer(waited_seconds_, clock_);
  wait_for_all_but(sent_, sends_, most);
}

void PlainBoundaries::expect(const Message& message) {
  assert(!receiving_);
  if (incoming_.size() < message.floats) incoming_ = Buffer(message.floats);
  receiving_ =
      stages_.start_receive(std::as_writable_bytes(incoming_.view().first(static_cast<std::size_t>(message.floats))),
                            message.peer, message.tag());
}

void PlainBoundaries::receive(const Message& message, MutableView values) {
  assert(receiving_);
  {
    const ScopedTimer timer(waited_seconds_, clock_);
    receiving_->wait();
  }
  receiving_.reset();
  std::copy_n(incoming_.data(), message.floats, values.begin());
}

}  // namespace

std::unique_ptr<Boundaries> make_boundaries(comm::Communicator& stages, kernels::Backend& backend, const Clock& clock) {
  if (backend.device() == nullptr) return std::make_unique<PlainBoundaries>(stages, clock);
  if (comm::DeviceMessages* const messages = comm::device_messages(stages)) {
    return make_device_boundaries(*messages, backend);
  }
  return make_staged_boundaries(stages, backend, clock);
}

}  // namespace unisono::parallel
