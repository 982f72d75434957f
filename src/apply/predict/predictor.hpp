#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "unisono/apply/trained_model.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/data/dataset.hpp"

namespace unisono::apply {

/// The predictions of this rank's next batch.
struct BatchPredictions {
  std::array<std::int64_t, 2> range = {0, 0};  ///< first example, and how many: 0 at the end of this rank's part
  std::vector<float> values;                   ///< [count, K]
  std::vector<float> answers;                  ///< [count, A]
};

/// One model's outputs for this rank's part of the split, batch after batch.
class Predictor {
 public:
  /// \param answers whether the examples' answers are wanted
  Predictor(TrainedModel& model, comm::Communicator& world, Index batch_size, bool answers = true);
  BatchPredictions next();

 private:
  TrainedModel& model_;
  bool answers_;
  std::unique_ptr<data::EvaluationSource> source_;
  std::int64_t next_;
};

}  // namespace unisono::apply
