#include "unisono/kernels/compute_device.hpp"

#include <catch2/catch.hpp>

#include "unisono/base/errors.hpp"
#include "unisono/kernels/backend.hpp"

namespace unisono::kernels {
namespace {

class RareKernels {
 public:
  static constexpr std::string_view kOwner = "layer 'rare'";
  virtual int answer() const = 0;

 protected:
  ~RareKernels() = default;
};

class PlainDevice : public ComputeDevice {
 public:
  std::string_view platform() const override { return "abacus"; }
  std::string description() const override { return "an abacus"; }
  int threads() const override { return 1; }
  double measure_peak_flops_per_second() override { return 1; }
  double measure_bandwidth_bytes_per_second() override { return 1; }
  Index scratch_size() const override { return 0; }
};

class DeviceWithRareKernels final : public PlainDevice, public RareKernels {
 public:
  int answer() const override { return 42; }
};

TEST_CASE("kernels that not every device has are found where it has them", "[optional]") {
  DeviceWithRareKernels device;
  ComputeDevice& any = device;
  CHECK(kernels_of<RareKernels>(any).answer() == 42);
  CHECK(kernels_of<RareKernels>(std::as_const(any)).answer() == 42);
}

TEST_CASE("a device without a kernel refuses its owner by name", "[optional]") {
  PlainDevice device;
  CHECK_THROWS_AS(kernels_of<RareKernels>(device), ConfigError);
  CHECK_THROWS_WITH(kernels_of<RareKernels>(device),
                    "layer 'rare' has no abacus kernel yet: train on the CPU, with device = \"cpu\"");
  const auto cpu = make_cpu_backend(1);
  CHECK_THROWS_WITH(kernels_of<RareKernels>(*cpu), Catch::Contains("no CPU kernel yet"));
}

}  // namespace
}  // namespace unisono::kernels
