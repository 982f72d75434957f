#include "pipeline/boundaries.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <deque>
#include <exception>
#include <map>
#include <vector>

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

namespace {

constexpr std::size_t kUnderWay = 4;  // sends; the device's work waits for the first where there would be more

// A message of no examples does not move: both ends know that it is empty.

/// to = from, in the order of the device's work.
void queue_copy(kernels::Backend& backend, const Boundaries::Message& message, View from, MutableView to) {
  backend.activation_forward(kernels::Activation::none, message.extent, message.examples, from, to);
}

MutableView part_of(Buffer& buffer, const Boundaries::Message& message) {
  return buffer.view().first(static_cast<std::size_t>(message.floats));
}

class DeviceBoundaries final : public Boundaries {
 public:
  DeviceBoundaries(comm::DeviceMessages& messages, kernels::Backend& backend)
      : messages_(messages), backend_(backend) {}

  bool in_common_order() const override { return true; }
  void send(const Message& message, View values) override;
  void wait_for_sends(std::size_t) override {}  // there are never more than kUnderWay
  void expect(const Message& message) override;
  void receive(const Message& message, MutableView values) override;
  void finish() override;

 private:
  struct Moving {
    Buffer values;
    comm::RequestPtr request;  ///< null: the buffer is free
  };
  void make_room(Buffer& buffer, const Message& message);

  comm::DeviceMessages& messages_;
  kernels::Backend& backend_;
  std::array<Moving, kUnderWay> sent_;
  std::size_t sends_ = 0;
  std::map<int, std::deque<Moving>> expected_;  ///< by tag
  std::vector<Buffer> free_;                    ///< of messages that were received
};

/// \pre no message is in the buffer
void DeviceBoundaries::make_room(Buffer& buffer, const Message& message) {
  if (buffer.size() >= message.floats) return;
  buffer = Buffer();  // gives the old memory back before it asks for more
  buffer = Buffer(message.floats, backend_.memory());
}

void DeviceBoundaries::send(const Message& message, View values) {
  if (message.floats == 0) return;
  Moving& moving = sent_[sends_++ % kUnderWay];
  if (moving.request) moving.request->wait();
  make_room(moving.values, message);
  queue_copy(backend_, message, values, moving.values.view());
  moving.request = messages_.start_send(part_of(moving.values, message), message.peer);
  sent_bytes_ += message.floats * static_cast<std::int64_t>(sizeof(float));
}

void DeviceBoundaries::expect(const Message& message) {
  if (message.floats == 0) return;
  Moving& moving = expected_[message.tag()].emplace_back();
  if (!free_.empty()) {
    moving.values = std::move(free_.back());
    free_.pop_back();
  }
  make_room(moving.values, message);
  moving.request = messages_.start_receive(part_of(moving.values, message), message.peer);
}

void DeviceBoundaries::receive(const Message& message, MutableView values) {
  if (message.floats == 0) return;
  std::deque<Moving>& expected = expected_[message.tag()];
  Moving& moving = expected.front();
  moving.request->wait();
  queue_copy(backend_, message, moving.values.view(), values);
  free_.push_back(std::move(moving.values));
  expected.pop_front();
}

/// What the device does afterwards finds the buffers free.
void DeviceBoundaries::finish() {
  for (Moving& moving : sent_) {
    if (moving.request) moving.request->wait();
    moving.request.reset();
  }
  sends_ = 0;  // so that the next program uses the same buffers, and is the same sequence of work
}

/// Messages are copied to plain memory while the device goes on, and sent once they are there. Before it waits for a
/// message, a stage has started all that it sends.
class StagedBoundaries final : public Boundaries {
 public:
  StagedBoundaries(comm::Communicator& stages, kernels::Backend& backend, const Clock& clock)
      : stages_(stages), backend_(backend), device_(*backend.device()), clock_(clock) {}
  ~StagedBoundaries() override;
  StagedBoundaries(const StagedBoundaries&) = delete;
  StagedBoundaries& operator=(const StagedBoundaries&) = delete;

  void send(const Message& message, View values) override;
  void wait_for_sends(std::size_t most) override;
  void expect(const Message& message) override;
  void receive(const Message& message, MutableView values) override;
  void finish() override { wait_for_sends(0); }

 private:
  struct Sent : Sending {
    Message message;
    Buffer there, plain;                ///< the device's, and pinned memory
    std::unique_ptr<StartedCopy> copy;  ///< null: it is in plain memory
    bool is_free() const { return !copy && !request; }
  };
  struct Incoming {
    Buffer plain;
    std::unique_ptr<StartedCopy> copy;  ///< to the device; null: the buffer is free
  };
  Sent& free_buffers(Index floats);
  void start_sends(bool waits);

  comm::Communicator& stages_;
  kernels::Backend& backend_;
  Device& device_;
  const Clock& clock_;
  std::deque<Sent> sent_;
  std::deque<Sent*> copying_;  ///< in their order
  std::array<Incoming, 2> incoming_;
  std::size_t next_ = 0;  ///< of these, the one that the next message comes to
  comm::RequestPtr receiving_;
  std::int64_t sends_ = 0;
};

/// Copies may be under way where an error ends the program.
StagedBoundaries::~StagedBoundaries() {
  const auto end = [](std::unique_ptr<StartedCopy>& copy) {
    try {
      if (copy) copy->wait();
    } catch (const std::exception&) {
      // Then nothing is under way any more.
    }
  };
  for (Sent& sent : sent_) end(sent.copy);
  for (Incoming& incoming : incoming_) end(incoming.copy);
}

/// Sends what has come from the device, in order. \param waits for all of it
void StagedBoundaries::start_sends(bool waits) {
  while (!copying_.empty()) {
    Sent& sent = *copying_.front();
    if (!waits && !sent.copy->done()) return;
    sent.copy->wait();
    sent.copy.reset();
    copying_.pop_front();
    sent.request =
        stages_.start_send(std::as_bytes(part_of(sent.plain, sent.message)), sent.message.peer, sent.message.tag());
  }
}

/// Buffers that no message is in. New ones where all are under way.
StagedBoundaries::Sent& StagedBoundaries::free_buffers(Index floats) {
  for (Sent& sent : sent_) sent.test();
  for (Sent& sent : sent_) {
    if (sent.is_free() && sent.plain.size() >= floats) return sent;
  }
  Sent& sent = sent_.emplace_back();
  sent.there = Buffer(floats, backend_.memory());
  sent.plain = Buffer(floats, device_.pinned());
  return sent;
}

void StagedBoundaries::send(const Message& message, View values) {
  if (message.floats == 0) return;
  start_sends(false);
  Sent& sent = free_buffers(message.floats);
  sent.message = message;
  sent.number = ++sends_;
  queue_copy(backend_, message, values, sent.there.view());
  const auto bytes = static_cast<std::size_t>(message.floats) * sizeof(float);
  sent.copy = device_.start_download(sent.there.data(), sent.plain.data(), bytes);
  copying_.push_back(&sent);
  sent_bytes_ += static_cast<std::int64_t>(bytes);
}

void StagedBoundaries::wait_for_sends(std::size_t most) {
  const ScopedTimer timer(waited_seconds_, clock_);
  start_sends(true);
  wait_for_all_but(sent_, sends_, most);
}

void StagedBoundaries::expect(const Message& message) {
  if (message.floats == 0) return;
  const ScopedTimer timer(waited_seconds_, clock_);
  start_sends(false);
  Incoming& incoming = incoming_[next_];
  if (incoming.copy) incoming.copy->wait();
  incoming.copy.reset();
  if (incoming.plain.size() < message.floats) incoming.plain = Buffer(message.floats, device_.pinned());
  receiving_ =
      stages_.start_receive(std::as_writable_bytes(part_of(incoming.plain, message)), message.peer, message.tag());
}

void StagedBoundaries::receive(const Message& message, MutableView values) {
  if (message.floats == 0) return;
  {
    const ScopedTimer timer(waited_seconds_, clock_);
    start_sends(true);
    receiving_->wait();
  }
  receiving_.reset();
  Incoming& incoming = incoming_[next_];
  next_ = (next_ + 1) % incoming_.size();
  incoming.copy = device_.start_upload(incoming.plain.data(), values.data(),
                                       static_cast<std::size_t>(message.floats) * sizeof(float));
}

}  // namespace

std::unique_ptr<Boundaries> make_device_boundaries(comm::DeviceMessages& messages, kernels::Backend& backend) {
  return std::make_unique<DeviceBoundaries>(messages, backend);
}

std::unique_ptr<Boundaries> make_staged_boundaries(comm::Communicator& stages, kernels::Backend& backend,
                                                   const Clock& clock) {
  return std::make_unique<StagedBoundaries>(stages, backend, clock);
}

}  // namespace unisono::parallel
