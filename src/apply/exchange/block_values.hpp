#pragma once

#include <string>
#include <vector>

#include "unisono/apply/trained_model.hpp"

namespace unisono::apply {

/// The numbers of a trained model's blocks, by their names: parameters and running statistics.
class BlockValues {
 public:
  explicit BlockValues(const TrainedModel& model) : model_(model) {}

  /// In canonical order. \throws std::out_of_range where there is no such block
  std::vector<float> operator()(const std::string& name) const;

 private:
  const TrainedModel& model_;
};

}  // namespace unisono::apply
