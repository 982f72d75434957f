#include "unisono/base/config.hpp"
#include "unisono/comm/mpi.hpp"

namespace unisono::comm {
namespace {

constexpr Named<DeviceTransport> kDeviceTransports[] = {
    {DeviceTransport::automatic, "auto", "nccl if every rank has a GPU of its own and NCCL is found, otherwise staged"},
    {DeviceTransport::nccl, "nccl", "with NCCL; an error if it is not available"},
    {DeviceTransport::staged, "staged", "through host memory, as between CPUs"}};

constexpr Named<Reduction> kReductions[] = {
    {Reduction::fast, "fast", "in the order of the ranks, so that the last bits depend on how many there are"},
    {Reduction::reproducible, "reproducible",
     "in the order of a fixed tree over train.micro_batches: any number of ranks gives the same bits"}};

}  // namespace

void CommunicationSettings::describe(ConfigVisitor& visitor) {
  visitor.field(
      {.name = "timeout_seconds",
       .meaning =
           "how long ranks wait for each other; if a rank takes longer, the job ends with an error that names it",
       .unit = "s",
       .minimum = 0,
       .minimum_excluded = true},
      timeout_seconds);
  visitor.field(
      {.name = "bucket_bytes",
       .meaning = "size of a gradient bucket, which is sent as soon as it is complete; 0: chosen automatically",
       .unit = "bytes",
       .minimum = 0,
       .maximum = 0x1p50},
      bucket_bytes);
  visitor.field(
      {.name = "shared_memory", .meaning = "ranks of a node compute sums in shared memory instead of sending messages"},
      shared_memory);
  visitor.choice({.name = "reduction", .meaning = "how the gradients of a step are summed"}, reduction, kReductions);
  visitor.field(
      {.name = "leaves",
       .meaning = "into how many runs of micro-batches reproducible sums divide a step; at least the number of "
                  "replicas. The result depends on it",
       .minimum = 1,
       .maximum = 1024},
      leaves);
  visitor.choice({.name = "device_transport", .meaning = "how gradients and parameters are transferred between GPUs"},
                 device_transport, kDeviceTransports);
}

}  // namespace unisono::comm
