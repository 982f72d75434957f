#pragma once

#include "unisono/comm/communicator.hpp"

namespace unisono::comm {

/// Messages from one device's memory to another's, as part of the devices' work: no process waits for them, and no
/// plain memory is involved.
///
/// A rank's messages, sent and received, move one after the other, in the order in which they were started. So all
/// ranks must start theirs as one common order of all messages says; otherwise two ranks may wait for each other for
/// ever. Both ends name the same length. A message of another length, or to the rank itself, is a mistake.
class DeviceMessages {
 public:
  virtual ~DeviceMessages() = default;

  /// Starts when all work is done that was queued on the device before. Request::wait does not block: work that is
  /// queued afterwards begins when the message has moved. Until then, no work may touch the values (sending: may change
  /// them).
  virtual RequestPtr start_send(View values, int peer) = 0;
  virtual RequestPtr start_receive(MutableView values, int peer) = 0;
};

/// The messages of a group of ranks with devices; null where there are none: ranks without devices, or whose messages
/// are staged through plain memory. It lives as long as the communicator.
DeviceMessages* device_messages(Communicator& ranks);

}  // namespace unisono::comm
