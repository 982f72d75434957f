#include "unisono/base/config.hpp"
#include "unisono/comm/mpi.hpp"

namespace unisono {

void CommunicationSettings::describe(ConfigVisitor& visitor) {
  visitor.field({.name = "timeout_seconds",
                 .meaning = "a rank that does not arrive at a collective within this time is named and ends the job",
                 .unit = "s",
                 .minimum = 0,
                 .minimum_excluded = true},
                timeout_seconds);
  visitor.field({.name = "bucket_bytes",
                 .meaning = "gradients per started allreduce; 0: chosen by where the ranks are",
                 .unit = "bytes",
                 .minimum = 0,
                 .maximum = 0x1p50},
                bucket_bytes);
  visitor.field({.name = "shared_memory", .meaning = "ranks of a node reduce in memory that they share"},
                shared_memory);
  visitor.choice({.name = "device_transport", .meaning = "how gradients and parameters get from GPU to GPU"},
                 device_transport,
                 {{"auto", "by NCCL where every rank has a GPU of its own and NCCL is found, else staged"},
                  {"nccl", "by NCCL; an error where it cannot be had"},
                  {"staged", "through plain memory, as between CPUs"}});
}

}  // namespace unisono
