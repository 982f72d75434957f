#include <fmt/format.h>

#include "device/communicator.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::comm {
namespace {

/// Why not all ranks can use NCCL; empty where they can.
std::string obstacle(const std::vector<DeviceOfRank>& ranks) {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!ranks[rank].nccl_missing.empty()) return fmt::format("rank {}: {}", rank, ranks[rank].nccl_missing);
    for (std::size_t other = 0; other < rank; ++other) {
      if (ranks[other].identity == ranks[rank].identity) {
        return fmt::format("ranks {} and {} share a GPU, which NCCL does not support", other, rank);
      }
    }
  }
  return "";
}

}  // namespace

ChosenTransport choose_device_transport(DeviceTransport wanted, const std::vector<DeviceOfRank>& ranks,
                                        const std::string& nccl) {
  if (wanted == DeviceTransport::staged) return {false, "plain memory, as communication.device_transport says"};
  const std::string reason = obstacle(ranks);
  if (reason.empty()) return {true, nccl};
  if (wanted == DeviceTransport::nccl) {
    throw CommunicationError(
        fmt::format("communication.device_transport = \"nccl\" is not available: {}; set it to \"auto\"", reason));
  }
  return {false, fmt::format("plain memory ({})", reason)};
}

std::unique_ptr<Communicator> make_device_communicator(Communicator& ranks, Device& device,
                                                       const CommunicationSettings& settings, const Warn& say) {
  bool by_nccl = false;
  if (ranks.size() > 1) {
    std::string missing;
    const std::string version = nccl_version(missing);
    const auto identities = ranks.all_gather_text(ranks.host() + " " + device.identity());
    const auto obstacles = ranks.all_gather_text(missing);
    std::vector<DeviceOfRank> all;
    for (std::size_t i = 0; i < identities.size(); ++i) all.push_back({identities[i], obstacles[i]});
    const ChosenTransport transport = choose_device_transport(settings.device_transport, all, version);
    by_nccl = transport.nccl;
    if (say && ranks.is_root()) say("between GPUs: " + transport.text);
  }
  return std::make_unique<DeviceCommunicator>(ranks, nullptr, device,
                                              by_nccl ? nccl_collectives() : make_staged_collectives);
}

}  // namespace unisono::comm
