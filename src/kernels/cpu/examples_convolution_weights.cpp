#include "cpu/chunks.hpp"
#include "cpu/cpu_backend.hpp"
#include "cpu/weight_gradient.hpp"

namespace unisono::kernels::cpu {
namespace {

constexpr Index kMostExampleParts = 8;  ///< at most
constexpr Index kExamplePartFloats = Index{1}
                                     << 15;  ///< at most, for 64 examples of all parts, if there are more than two
constexpr Index kLargest = Index{1} << 20;   ///< more weights than that are computed in one part

/// Rows of the output are summed in a few parts, which are added up at the end: threads have independent work, and
/// results depend only on the shape.
Index parts_of(const Convolution& convolution, Index rows) {
  const Index affordable = kExamplePartFloats * convolution.lanes.blocks / convolution.weights();
  const Index fewest = convolution.weights() > kLargest ? 1 : 2;
  return std::min(rows, std::clamp(affordable, fewest, kMostExampleParts));
}

/// The s-th of so many slices of a group's channels, in whole registers.
Range slice_of(Index channels, Index slices, Index s) {
  const Index registers = (channels + Lanes::kVector - 1) / Lanes::kVector;
  return {std::min(channels, registers * s / slices * Lanes::kVector),
          std::min(channels, registers * (s + 1) / slices * Lanes::kVector)};
}

}  // namespace

/// As convolution_backward without dx, which masks dy, too. \param y empty where there is nothing to mask
void CpuBackend::examples_backward_weights(const ConvolutionSpec& spec, Index batch, View x, View y, MutableView dy,
                                           MutableView dw, MutableView db, Write write) {
  const Convolution convolution(spec, Lanes(batch));
  const WeightGradient gradient(convolution, loops_, loops_of(convolution.lanes), x, y, dy);
  const Index size = convolution.weights(), rows = gradient.rows(), parts = parts_of(convolution, rows);
  // Slices divide the work further where there are many threads; they change no result.
  const Index slices =
      std::max((gradient.products() + WeightGradient::kChannelsAtOnce - 1) / WeightGradient::kChannelsAtOnce,
               (settings_.threads + parts - 1) / parts);
  const Index room = gradient.scratch_size();
  const Index bias_size = static_cast<Index>(db.size()) * Lanes::kVector;
  // Of dw for each part, and one in the order of dw; then of db for each part.
  float* const sums = partials_.floats((parts + 1) * size + parts * bias_size);
  float* const bias_sums = db.empty() ? nullptr : sums + (parts + 1) * size;
  float* const scratch = packed_.floats(settings_.threads * room);

  parallel_chunks(settings_.threads, (parts + 1) * size + parts * bias_size,
                  [&](Index first, Index length) { std::fill_n(sums + first, length, 0.0F); });
  parallel_ranges(settings_.threads, parts * slices, [&](Index first, Index end, int thread) {
    for (Index task = first; task < end; ++task) {
      const Index part = task / slices, slice = task % slices;
      const Range share{rows * part / parts, rows * (part + 1) / parts};
      const Range channels = slice_of(gradient.products(), slices, slice);
      const WeightGradient::Sums sum{sums + part * size, db.empty() ? nullptr : bias_sums + part * bias_size};
      if (channels.size() > 0) gradient.add_products(share, channels, scratch + thread * room, sum);
      if (slice == slices - 1) gradient.add_along_lanes(share, sum);
    }
  });
  add_up_bias(bias_sums, parts, Lanes::kVector, db, write);
  add_up_parts(sums, parts, size);
  if (write == Write::overwrite) return gradient.write(sums, dw.data());
  gradient.write(sums, sums + parts * size);
  axpby(1, {sums + parts * size, dw.size()}, 1, dw);
}

/// sums [parts][size]: the first part becomes the sum of all, in their order.
void CpuBackend::add_up_parts(float* sums, Index parts, Index size) {
  parallel_chunks(settings_.threads, size, [&](Index first, Index length) {
    for (Index part = 1; part < parts; ++part) {
      loops_.algebra.axpby(1, sums + part * size + first, 1, sums + first, length);
    }
  });
}

}  // namespace unisono::kernels::cpu
