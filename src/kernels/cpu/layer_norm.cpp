// Layer normalisation, Ba, Kiros & Hinton 2016. Mean and deviation are computed again in the backward pass instead of
// being saved: that reads x twice more, which is in a cache for the usual widths.
#include <algorithm>
#include <cassert>

#include "cpu/cpu_backend.hpp"
#include "cpu/thread_team.hpp"

namespace unisono::kernels::cpu {
namespace {

/// Activations cut into groups of examples: whole blocks, or parts of blocks where there are too few blocks for all
/// threads. Each example's result is the same in both.
class Groups {
 public:
  Groups(const Extent& extent, const Lanes& lanes, int threads)
      : size_(extent.size()),
        lanes_(lanes),
        width_(lanes.blocks >= threads ? lanes.width : std::min(lanes.width, Lanes::kVector)) {}

  Index count() const { return lanes_.blocks * lanes_.width / width_; }
  Index first_lane(Index group) const { return group * width_; }  ///< among all lanes of all blocks
  Index offset(Index group) const {
    const Index lane = first_lane(group);
    return lane / lanes_.width * size_ * lanes_.width + lane % lanes_.width;
  }
  Columns columns() const { return {size_, width_, lanes_.width, width_}; }

 private:
  Index size_;
  Lanes lanes_;
  Index width_;
};

}  // namespace

void CpuBackend::layer_norm_forward(const NormSpec& spec, Index batch, View x, View gamma, View beta, MutableView y) {
  assert(spec.activation == Activation::none);
  const View values = in_layout(Innermost::examples, spec.extent, batch, x, x_copy_);
  const MutableView to = room_in_layout(Innermost::examples, spec.extent, batch, y, y_copy_);
  const Lanes lanes(batch);
  const Groups groups(spec.extent, lanes, settings_.threads);
  const LayerNormLoops& loops = loops_of(lanes).layer_norm;
  parallel_for(settings_.threads, groups.count(), [&](Index group) {
    float mean[kMaximumLanes], inverse[kMaximumLanes];
    const float* from = values.data() + groups.offset(group);
    loops.moments(groups.columns(), from, static_cast<float>(spec.epsilon), mean, inverse);
    loops.forward(groups.columns(), from, mean, inverse, gamma.data(), beta.data(), to.data() + groups.offset(group));
  });
  settle(Innermost::examples, spec.extent, batch, to, y);
}

void CpuBackend::layer_norm_backward(const NormSpec& spec, Index batch, View x, View gamma, View dy, MutableView dx,
                                     MutableView dgamma, MutableView dbeta, Write write) {
  assert(spec.activation == Activation::none);
  const View values = in_layout(Innermost::examples, spec.extent, batch, x, x_copy_);
  const View gradients = in_layout(Innermost::examples, spec.extent, batch, dy, y_copy_);
  const MutableView to = room_in_layout(Innermost::examples, spec.extent, batch, dx, dx_copy_);
  layer_norm_backward_of_lanes(spec, batch, values, gamma, gradients, to, dgamma, dbeta, write);
  settle(Innermost::examples, spec.extent, batch, to, dx);
}

/// As layer_norm_backward, with the examples innermost.
void CpuBackend::layer_norm_backward_of_lanes(const NormSpec& spec, Index batch, View x, View gamma, View dy,
                                              MutableView dx, MutableView dgamma, MutableView dbeta, Write write) {
  const Lanes lanes(batch);
  const Groups groups(spec.extent, lanes, settings_.threads);
  const LayerNormLoops& loops = loops_of(lanes).layer_norm;
  float* mean = partials_.floats(2 * lanes.blocks * lanes.width);
  float* inverse = mean + lanes.blocks * lanes.width;
  parallel_for(settings_.threads, groups.count(), [&](Index group) {
    const Index lane = groups.first_lane(group), at = groups.offset(group);
    loops.moments(groups.columns(), x.data() + at, static_cast<float>(spec.epsilon), mean + lane, inverse + lane);
    if (dx.empty()) return;
    loops.backward(groups.columns(), x.data() + at, mean + lane, inverse + lane, gamma.data(), dy.data() + at,
                   dx.data() + at);
  });

  if (dgamma.empty()) return;
  constexpr Index kElements = 64;
  const Index size = spec.extent.size();
  parallel_for(settings_.threads, (size + kElements - 1) / kElements, [&](Index i) {
    const Index first = i * kElements, count = std::min(kElements, size - first);
    double gamma_sums[kElements] = {}, beta_sums[kElements] = {};
    for (Index block = 0; block < lanes.blocks; ++block) {
      const Index lane = block * lanes.width, at = (block * size + first) * lanes.width;
      loops.parameters({count, lanes.width, lanes.width, lanes.used(block)}, x.data() + at, mean + lane, inverse + lane,
                       dy.data() + at, gamma_sums, beta_sums);
    }
    for (Index e = 0; e < count; ++e) {
      const auto k = static_cast<std::size_t>(first + e);
      dgamma[k] = static_cast<float>(gamma_sums[e]) + (write == Write::add ? dgamma[k] : 0.0F);
      dbeta[k] = static_cast<float>(beta_sums[e]) + (write == Write::add ? dbeta[k] : 0.0F);
    }
  });
}

}  // namespace unisono::kernels::cpu
