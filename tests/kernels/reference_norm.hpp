#pragma once

#include <cmath>
#include <vector>

#include "unisono/kernels/specs.hpp"

// Normalisations in double on [B, C, H, W], from their definitions: statistics and gradients by sums over all values
// that are normalised together.

namespace unisono::reference {

/// Which values are normalised together: those of a channel, or those of an example.
enum class Over { channel, example };

inline std::size_t group_of(Over over, const kernels::Extent& extent, std::size_t i) {
  const auto pixels = static_cast<std::size_t>(extent.height * extent.width);
  const auto size = static_cast<std::size_t>(extent.size());
  return over == Over::channel ? i % size / pixels : i / size;
}

/// Which gamma and beta belong to a value.
inline std::size_t parameter_of(Over over, const kernels::Extent& extent, std::size_t i) {
  return over == Over::channel ? group_of(over, extent, i) : i % static_cast<std::size_t>(extent.size());
}

struct Statistics {
  std::vector<double> mean, inverse;  ///< of each group: 1 / √(variance + ε)
  double count = 0;                   ///< values of a group
};

inline std::size_t group_count(Over over, const kernels::Extent& extent, Index batch) {
  return static_cast<std::size_t>(over == Over::channel ? extent.channels : batch);
}

inline Statistics statistics(Over over, const kernels::NormSpec& spec, Index batch, const std::vector<double>& x) {
  const std::size_t groups = group_count(over, spec.extent, batch);
  Statistics result{std::vector<double>(groups), std::vector<double>(groups), 0};
  if (x.empty()) return result;
  result.count = static_cast<double>(x.size() / groups);
  for (std::size_t i = 0; i < x.size(); ++i) result.mean[group_of(over, spec.extent, i)] += x[i] / result.count;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t group = group_of(over, spec.extent, i);
    result.inverse[group] += std::pow(x[i] - result.mean[group], 2) / result.count;
  }
  for (double& value : result.inverse) value = 1 / std::sqrt(value + static_cast<double>(spec.epsilon));
  return result;
}

/// y = γ (x − mean) inverse + β
inline std::vector<double> norm_forward(Over over, const kernels::Extent& extent, const Statistics& s,
                                        const std::vector<double>& x, const std::vector<double>& gamma,
                                        const std::vector<double>& beta) {
  std::vector<double> y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t g = group_of(over, extent, i), k = parameter_of(over, extent, i);
    y[i] = gamma[k] * (x[i] - s.mean[g]) * s.inverse[g] + beta[k];
  }
  return y;
}

struct NormGradient {
  std::vector<double> dx, dgamma, dbeta;
};

/// dx = inverse (d − mean of d − x̂ · mean of d x̂), d = γ dy, where the statistics depend on x; else inverse d.
inline NormGradient norm_backward(Over over, const kernels::Extent& extent, const Statistics& s,
                                  const std::vector<double>& x, const std::vector<double>& gamma,
                                  const std::vector<double>& dy, bool constant_statistics = false) {
  std::vector<double> mean_d(s.mean.size()), mean_product(s.mean.size()), normal(x.size());
  NormGradient result{std::vector<double>(x.size()), std::vector<double>(gamma.size()),
                      std::vector<double>(gamma.size())};
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t g = group_of(over, extent, i), k = parameter_of(over, extent, i);
    normal[i] = (x[i] - s.mean[g]) * s.inverse[g];
    mean_d[g] += gamma[k] * dy[i] / s.count;
    mean_product[g] += gamma[k] * dy[i] * normal[i] / s.count;
    result.dgamma[k] += dy[i] * normal[i];
    result.dbeta[k] += dy[i];
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t g = group_of(over, extent, i), k = parameter_of(over, extent, i);
    const double through = constant_statistics ? 0 : mean_d[g] + normal[i] * mean_product[g];
    result.dx[i] = s.inverse[g] * (gamma[k] * dy[i] - through);
  }
  return result;
}

}  // namespace unisono::reference
