#pragma once

#include <memory>

#include "unisono/base/clock.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/comm/device.hpp"
#include "unisono/kernels/backend.hpp"

namespace unisono::parallel {

/// What crosses the boundaries of a pipeline's pieces: activations forward, gradients with respect to them backward, in
/// the layout of the backend, which is of the same kind on all stages. Messages of one piece and direction arrive in
/// the order of the micro-batches, which all stages keep to. Values lie in the backend's memory.
///
/// Never waits for a send before the end of a program, and waits for a message only where its values are needed. So no
/// valid program can deadlock (see require_valid), also where sends are synchronous.
class Boundaries {
 public:
  virtual ~Boundaries() = default;

  /// A message: the outputs of a piece, or the gradient of its inputs, of one micro-batch.
  struct Message {
    int peer = 0;   ///< the stage that sends it, or receives it
    int piece = 0;  ///< that makes it
    bool gradient = false;
    kernels::Extent extent = {};
    Index examples = 0;
    Index floats = 0;  ///< of these activations, whole cache lines

    int tag() const { return 2 * piece + (gradient ? 1 : 0); }
  };

  /// Whether messages must be expected, and sent, in the order that MessageOrder gives. Otherwise each is expected
  /// ahead of its pass, after the values of the one before have been received.
  virtual bool in_common_order() const { return false; }

  /// `values` may be changed by work that is given to the backend afterwards.
  virtual void send(const Message& message, View values) = 0;
  /// Waits until no more than so many messages are sent and not yet received, or sees to it in another way. Only for
  /// programs that run through the stages in one direction once: others may need this stage before they receive.
  virtual void wait_for_sends(std::size_t most) = 0;
  /// Starts to receive a message that a later `receive` waits for.
  virtual void expect(const Message& message) = 0;
  /// Waits for a message that is expected; work that is given to the backend afterwards finds it in `values`.
  /// \param values message.floats, or more
  virtual void receive(const Message& message, MutableView values) = 0;
  /// Waits until all that was sent has been received, or sees to it that what was sent stays as it is until then.
  virtual void finish() = 0;

  double waited_seconds() const { return waited_seconds_; }  ///< in these functions, for messages and the device
  std::int64_t sent_bytes() const { return sent_bytes_; }

 protected:
  double waited_seconds_ = 0;
  std::int64_t sent_bytes_ = 0;
};

/// The sending of a message, by which its buffer is in use.
struct Sending {
  comm::RequestPtr request;  ///< null: it is received, or not started yet
  std::int64_t number = 0;   ///< in the order of the sends

  void wait() {
    request->wait();
    request.reset();
  }
  /// Lets go of the buffer if the message has been received.
  void test() {
    if (request && request->test()) wait();
  }
};

/// Waits for all but the last so many. \param sends so far
template <typename Sendings>
void wait_for_all_but(Sendings& sendings, std::int64_t sends, std::size_t most) {
  for (Sending& sending : sendings) {
    if (sending.request && sending.number <= sends - static_cast<std::int64_t>(most)) sending.wait();
  }
}

/// For a backend of any kind. In plain memory, the receive of the next message is started ahead, so that it comes while
/// this stage computes; it takes a buffer for each message that is sent and not yet received, and one for the message
/// to come.
/// \param stages the ranks of the pipeline
std::unique_ptr<Boundaries> make_boundaries(comm::Communicator& stages, kernels::Backend& backend, const Clock& clock);

/// The boundaries of stages with devices whose messages are part of the devices' work (NCCL): this process waits for
/// none. Messages are started in the order of MessageOrder, on each rank and for both directions, which is what
/// DeviceMessages needs. Memory, on the device: kUnderWay buffers for sends, and one for each message that has come, or
/// is to come, before its pass.
std::unique_ptr<Boundaries> make_device_boundaries(comm::DeviceMessages& messages, kernels::Backend& backend);

/// The boundaries of stages with devices whose messages go through pinned plain memory. Memory: a buffer there, and one
/// on the device, for each message that is sent and not yet received; two in pinned memory for messages to come.
std::unique_ptr<Boundaries> make_staged_boundaries(comm::Communicator& stages, kernels::Backend& backend,
                                                   const Clock& clock);

}  // namespace unisono::parallel
