#pragma once

#include "pipeline/boundaries.hpp"
#include "unisono/comm/device.hpp"

namespace unisono::parallel {

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
