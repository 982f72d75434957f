#pragma once

#include <memory>
#include <string>
#include <vector>

#include "unisono/comm/mpi.hpp"
#include "unisono/tensor/device.hpp"

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

/// One rank's input to this choice: its device's name, unique among all hosts, and why it has no NCCL (empty: it has).
struct DeviceOfRank {
  std::string identity, nccl_missing;
};
/// \param nccl its name and version, for the text
/// \throws CommunicationError where NCCL is wanted and cannot be had
ChosenTransport choose_device_transport(DeviceTransport wanted, const std::vector<DeviceOfRank>& ranks,
                                        const std::string& nccl);

}  // namespace unisono::comm
