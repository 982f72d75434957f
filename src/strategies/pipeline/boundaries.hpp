#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "pipeline/program.hpp"
#include "unisono/base/clock.hpp"
#include "unisono/comm/communicator.hpp"

namespace unisono::strategies {

/// What crosses the boundaries of a pipeline's pieces: activations forward, gradients with respect to them backward.
/// Never waits for a send before the end of a program, and waits for a message only where its values are needed. So no
/// valid program can deadlock (see require_valid), also where sends are synchronous. The receive of the next message is
/// started ahead, so that it comes while this stage computes.
/// Memory: a buffer for each message that is sent and not yet received, and one for the message to come.
class Boundaries {
 public:
  /// \param stages the ranks of the pipeline
  Boundaries(comm::Communicator& stages, const Clock& clock) : stages_(stages), clock_(clock) {}

  /// A message: the outputs of a piece, or the gradient of its inputs, of one micro-batch.
  struct Message {
    int peer = 0;   ///< the stage that sends it, or receives it
    int piece = 0;  ///< that makes it
    bool gradient = false;
    Index floats = 0;
  };

  void send(const Message& message, View values);
  /// Waits until no more than so many messages are sent and not yet received. Only for programs that run through the
  /// stages in one direction once: others may need this stage before they receive.
  void wait_for_sends(std::size_t most);
  /// Starts to receive a message that a later `receive` waits for. One may be expected at a time.
  void expect(const Message& message);
  /// Waits for the expected message, and copies it. \param values message.floats, or more
  void receive(MutableView values);
  /// Waits until all that was sent has been received.
  void finish();

  double waited_seconds() const { return waited_seconds_; }  ///< in receive and finish
  std::int64_t sent_bytes() const { return sent_bytes_; }

 private:
  struct Sent {
    Buffer values;
    comm::RequestPtr request;  ///< null: it is received, and the buffer is free
    std::int64_t number = 0;   ///< in the order of the sends
  };
  Sent& free_buffer(Index floats);

  comm::Communicator& stages_;
  const Clock& clock_;
  std::vector<Sent> sent_;
  Buffer incoming_;
  Message expected_;
  comm::RequestPtr receiving_;
  double waited_seconds_ = 0;
  std::int64_t sends_ = 0;
  std::int64_t sent_bytes_ = 0;
};

}  // namespace unisono::strategies
