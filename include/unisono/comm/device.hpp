#pragma once

#include <memory>
#include <string>
#include <vector>

#include "unisono/comm/communicator.hpp"
#include "unisono/comm/mpi.hpp"
#include "unisono/tensor/allocator.hpp"

namespace unisono::comm {

/// Wraps a communicator for ranks that have a device each: the spans given to it may lie in the device's memory, and
/// its shared_allocator returns such memory. Collectives on device memory use NCCL, on the device's stream, where every
/// rank has a device of its own and can load NCCL; else they are staged through plain memory and the wrapped
/// communicator. Sums in the order of a tree and messages with tags are always staged; device_messages are NCCL's.
/// Collective.
/// \param ranks the communicator to wrap; it and the device must outlive the result
/// \param say is told on rank 0 which way is taken, where there is more than one rank
/// \throws CommunicationError where settings.device_transport is "nccl" and it cannot be had
std::unique_ptr<Communicator> make_device_communicator(Communicator& ranks, Device& device,
                                                       const CommunicationSettings& settings, const Warn& say = {});

/// How collectives on device memory are carried out, and why.
struct ChosenTransport {
  bool nccl = false;
  std::string text;  ///< "NCCL 2.28.9", "plain memory: ranks 0 and 1 share a GPU"
};

/// One rank's input to choose_device_transport: its device's name, unique among all hosts, and why it has no NCCL
/// (empty: it has).
struct DeviceOfRank {
  std::string identity, nccl_missing;
};
/// Chooses how collectives on device memory are carried out. \param nccl name and version of NCCL, for the text
/// \throws CommunicationError where NCCL is wanted and cannot be had
ChosenTransport choose_device_transport(DeviceTransport wanted, const std::vector<DeviceOfRank>& ranks,
                                        const std::string& nccl);

/// Messages from one device's memory to another's, as part of the devices' work: no process waits for them, and no
/// plain memory is involved.
///
/// A rank's messages, sent and received, move one after the other, in the order in which they were started. So all
/// ranks must start their messages as one common order of all messages says; otherwise two ranks may wait for each
/// other for ever. Both ends name the same length. A message of another length, or to the rank itself, is a mistake.
class DeviceMessages {
 public:
  virtual ~DeviceMessages() = default;

  /// Starts a message to rank `peer`. It moves when all work is done that was queued on the device before.
  /// Request::wait does not block: work that is queued afterwards begins when the message has moved. Until then, no
  /// work may touch the values (sending: may change them).
  virtual RequestPtr start_send(View values, int peer) = 0;
  virtual RequestPtr start_receive(MutableView values, int peer) = 0;
};

/// The messages between devices of a group of ranks; null for ranks without devices, or whose messages are staged
/// through plain memory. The object lives as long as the communicator.
DeviceMessages* device_messages(Communicator& ranks);

}  // namespace unisono::comm
