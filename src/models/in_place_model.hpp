#pragma once

#include <memory>
#include <string>
#include <vector>

#include "unisono/kernels/in_place.hpp"
#include "unisono/models/in_place.hpp"

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

}  // namespace unisono::models
