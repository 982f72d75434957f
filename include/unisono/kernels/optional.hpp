#pragma once

#include <string_view>
#include <type_traits>

#include "unisono/kernels/compute_device.hpp"

// Kernels that not every device has. They form an interface of their own, in a header of their own, which names the
// layer or optimizer that needs them (kOwner). Backends that have them inherit it in addition to Backend:
//
//   class SoftsignKernels {
//    public:
//     static constexpr std::string_view kOwner = "layer 'softsign'";
//     virtual void softsign_forward(…) = 0;
//    protected:
//     ~SoftsignKernels() = default;
//   };
//
// Once all devices have them, they can move into LayerKernels or UpdateKernels.

namespace unisono::kernels {

/// \throws ConfigError "layer 'softsign' has no CUDA kernel yet: …"
[[noreturn]] void refuse_missing_kernels(std::string_view owner, std::string_view platform);

/// The interface `Kernels` of a device, which may lack it. Layers ask for it when the network is made
/// (Layer::require_kernels), optimizers when they are made: before a run begins.
/// \param device Backend, or one of its interfaces that is a ComputeDevice
/// \throws ConfigError naming the owner and the device's platform where it lacks the kernels
template <typename Kernels, typename Of>
auto& kernels_of(Of& device) {
  using Found = std::conditional_t<std::is_const_v<Of>, const Kernels, Kernels>;
  if (auto* const found = dynamic_cast<Found*>(&device)) return *found;
  refuse_missing_kernels(Kernels::kOwner, device.platform());
}

}  // namespace unisono::kernels
