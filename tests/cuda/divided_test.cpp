// Layers that ranks share, on devices: what a single device computes, up to rounding.
#include "devices.hpp"
#include "support/divided_model.hpp"
#include "unisono/kernels/cuda.hpp"

namespace unisono::parallel {
namespace {

constexpr auto kNccl = comm::DeviceTransport::nccl, kStaged = comm::DeviceTransport::staged;

void check_divided(const Example& example) {
  const auto with = [](comm::DeviceTransport transport) {
    return WithBackend{.make =
                           [=](int rank) {
                             return kernels::make_cuda_backend(transport == kNccl ? rank : 0, kernels::Precision::fp32);
                           },
                       .transport = transport};
  };
  const Devices devices(4);
  const Result whole = result_of(example, 1, 1, with(kStaged));
  for (const auto& [ranks, leaves, transport] :
       {std::tuple(2, 2, kNccl), std::tuple(2, 2, kStaged), std::tuple(2, 4, kStaged), std::tuple(4, 4, kNccl)}) {
    INFO(ranks << " ranks, " << leaves << " leaves" << (transport == kNccl ? ", NCCL" : ""));
    const Result parts = result_of(example, ranks, leaves, with(transport));
    CHECK(parts.theta == whole.theta);
    CHECK(parts.hits == whole.hits);
    CHECK(std::abs(parts.loss - whole.loss) < 1e-5 * whole.loss);
    CHECK(std::abs(parts.evaluated - whole.evaluated) < 1e-5 * whole.evaluated);
    CHECK(largest_difference(parts.gradient, whole.gradient) < 1e-5 * std::max(1.0, largest(whole.gradient)));
  }
}

TEST_CASE("devices that share the layers of a GPT compute what one device computes", "[gpu][nccl][tensor_parallel]") {
  check_divided({gpt()});
}

TEST_CASE("… of a Llama", "[gpu][nccl][tensor_parallel]") { check_divided({llama()}); }

}  // namespace
}  // namespace unisono::parallel
