#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "unisono/kernels/in_place.hpp"
#include "unisono/models/in_place.hpp"
#include "unisono/models/model.hpp"

namespace unisono::models {

/// Base of models that can only be updated in place: they have no gradient of a batch.
class InPlaceModel : public Model, public InPlace {
 public:
  const InPlace* in_place() const final { return this; }
  const ParameterLayout& layout() const final { return layout_; }
  const ParameterLayout& statistics_layout() const final { return statistics_; }
  void require_gradient() const final;
  void loss_and_gradient(const data::Batch&, float, ModelState, MutableView, kernels::Write, const GradientReady&,
                         kernels::LossSums&) final {
    require_gradient();
  }
  /// The default, for word vectors, which predict nothing of an example. \throws ConfigError
  void predict(const data::Batch& batch, ModelState state, MutableView outputs) override;
  std::vector<Metric> metrics(const kernels::LossSums& sums) const override;  ///< the mean loss
  Index workspace_bytes(Index) const final { return 0; }

 protected:
  /// \param kind for messages, e.g. "glove"
  explicit InPlaceModel(std::string kind) : kind_(std::move(kind)), kernels_(kernels::make_in_place_kernels()) {}

  const std::string kind_;
  const std::unique_ptr<kernels::InPlaceKernels> kernels_;
  ParameterLayout layout_;

 private:
  ParameterLayout statistics_;
};

/// part / whole; 0 if whole is 0
inline double ratio(double part, std::int64_t whole) { return whole == 0 ? 0 : part / static_cast<double>(whole); }

/// Adds R² = 1 − Σ(y − t)² / Σ(t − mean t)², over all outputs together. There is none if all targets are equal, or if
/// the sums of targets were not computed.
inline void add_r2(const kernels::LossSums& sums, std::vector<Metric>& metrics) {
  const double spread = sums.target_squared_sum - ratio(sums.target_sum * sums.target_sum, sums.values);
  if (spread > 0) metrics.push_back(metric_of("r2", 1 - sums.squared_error / spread));
}

}  // namespace unisono::models
