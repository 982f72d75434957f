#include <catch2/catch.hpp>

#include "unisono/comm/device.hpp"

namespace unisono::comm {
namespace {

using Catch::Matchers::Contains;

const DeviceOfRank kFirst{"north 1", ""}, kSecond{"north 2", ""}, kWithout{"south 1", "NCCL is not found"};

TEST_CASE("NCCL is taken where every rank has it and a device of its own", "[device]") {
  const ChosenTransport transport =
      choose_device_transport(DeviceTransport::automatic, {kFirst, kSecond}, "NCCL 2.28.9");
  CHECK(transport.nccl);
  CHECK(transport.text == "NCCL 2.28.9");
}

TEST_CASE("else plain memory is, and the reason said", "[device]") {
  const ChosenTransport shared =
      choose_device_transport(DeviceTransport::automatic, {kFirst, kSecond, kFirst}, "NCCL 2.28.9");
  CHECK_FALSE(shared.nccl);
  CHECK_THAT(shared.text, Contains("ranks 0 and 2 share a GPU"));
  const ChosenTransport without =
      choose_device_transport(DeviceTransport::automatic, {kFirst, kWithout}, "NCCL 2.28.9");
  CHECK_FALSE(without.nccl);
  CHECK_THAT(without.text, Contains("rank 1: NCCL is not found"));
}

TEST_CASE("what the config names is what is done", "[device]") {
  CHECK_FALSE(choose_device_transport(DeviceTransport::staged, {kFirst, kSecond}, "NCCL 2.28.9").nccl);
  CHECK(choose_device_transport(DeviceTransport::nccl, {kFirst, kSecond}, "NCCL 2.28.9").nccl);
  CHECK_THROWS_WITH(choose_device_transport(DeviceTransport::nccl, {kFirst, kFirst}, "NCCL 2.28.9"),
                    Contains("device_transport") && Contains("share a GPU"));
}

}  // namespace
}  // namespace unisono::comm
