#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "unisono/base/errors.hpp"
#include "unisono/kernels/compute_device.hpp"
#include "unisono/kernels/cuda.hpp"
#include "unisono/kernels/layer_kernels.hpp"
#include "unisono/kernels/update_kernels.hpp"

namespace unisono::kernels {
namespace {

/// The default of kernels that a device need not have, because only optimizers of a sharded θ use them.
[[noreturn]] void refuse() {
  throw ConfigError("parameters that are divided among ranks are trained on CPUs alone; set device = \"cpu\"");
}

/// The floating-point sums.
std::array<double*, 5> floating(LossSums& sums) {
  return {&sums.loss, &sums.squared_error, &sums.absolute_error, &sums.target_sum, &sums.target_squared_sum};
}

}  // namespace

std::vector<MemoryLevel> ComputeDevice::measure_memory_levels() {
  const double bandwidth = measure_bandwidth_bytes_per_second();
  return {
      {.name = "memory", .capacity = std::numeric_limits<double>::infinity(), .read = bandwidth, .write = bandwidth}};
}

float value_of(const GradientScale& scale, double squared_norm) {
  if (scale.clip_norm == 0) return scale.factor;
  const double norm = static_cast<double>(scale.factor) * std::sqrt(squared_norm);
  return norm > scale.clip_norm ? static_cast<float>(scale.clip_norm / norm) * scale.factor : scale.factor;
}

void VectorKernels::sum_squares(View, std::span<const UpdateRange>, bool, std::span<ExactSquares>) { refuse(); }

void UpdateKernels::sum_lamb_directions(const AdamStep&, std::span<const UpdateRange>, View, View, View, bool,
                                        std::span<ExactSquares>) {
  refuse();
}

void LossSums::settle() {
  const auto sums = floating(*this);
  settled.resize(sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i) settled[i].add_sum(std::exchange(*sums[i], 0));
}

void LossSums::unsettle() {
  if (settled.empty()) return;
  const auto sums = floating(*this);
  for (std::size_t i = 0; i < sums.size(); ++i) *sums[i] += settled[i].value();
  settled.clear();
}

LossSums& LossSums::operator+=(const LossSums& more) {
  loss += more.loss;
  examples += more.examples;
  correct += more.correct;
  correct_top5 += more.correct_top5;
  squared_error += more.squared_error;
  absolute_error += more.absolute_error;
  target_sum += more.target_sum;
  target_squared_sum += more.target_squared_sum;
  values += more.values;
  bytes += more.bytes;
  if (!more.settled.empty()) settled.resize(more.settled.size());
  for (std::size_t i = 0; i < more.settled.size(); ++i) settled[i].add(more.settled[i]);
  return *this;
}

void refuse_missing_kernels(std::string_view owner, std::string_view platform) {
  throw ConfigError(fmt::format("{} has no {} kernel yet: train on the CPU, with device = \"cpu\"", owner, platform));
}

std::string_view name_of(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return "fp32";
    case Precision::tf32:
      return "tf32";
    case Precision::bf16:
      return "bf16";
  }
  return "";
}

}  // namespace unisono::kernels
