#pragma once

#include <memory>
#include <string>
#include <vector>

#include "unisono/comm/mpi.hpp"
#include "unisono/tensor/device.hpp"

namespace unisono::comm {

/// A communicator for ranks that have a device each, on top of another: what is given to it may lie in the device's
/// memory, and what its shared_allocator gives does. Collectives on such memory go by NCCL, in the device's order,
/// where every rank has a device of its own and can load it; else through plain memory, by the communicator below.
/// Messages between two ranks go through plain memory. Collective. \param ranks below; it and the device must outlive
/// the result \param warn is told on rank 0 which way is taken, where there is more than one rank \throws
/// CommunicationError where settings.device_transport is "nccl" and it cannot be had
std::unique_ptr<Communicator> make_device_communicator(Communicator& ranks, Device& device,
                                                       const CommunicationSettings& settings, const Warn& say = {});

/// Which way collectives go, and why.
struct ChosenTransport {
  bool nccl = false;
  std::string text;  ///< "NCCL 2.28.9", "plain memory: ranks 0 and 1 share a GPU"
};

/// What decides it: of each rank its device's name, unique among all hosts, and why it has no NCCL (empty: it has).
struct DeviceOfRank {
  std::string identity, nccl_missing;
};
/// \param nccl what it is called \throws CommunicationError where NCCL is wanted and cannot be had
ChosenTransport choose_device_transport(DeviceTransport wanted, const std::vector<DeviceOfRank>& ranks,
                                        const std::string& nccl);

}  // namespace unisono::comm
