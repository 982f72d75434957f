#pragma once

#include <vector>

#include "unisono/base/random.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/models/factory.hpp"

namespace unisono::session {

/// Random examples for `bench`: a few steps' worth in memory, repeated endlessly.
class SyntheticSource final : public data::BatchSource {
 public:
  SyntheticSource(const models::ModelInputs& inputs, const data::SourceOptions& options);

  data::Batch next() override;
  std::int64_t steps_per_epoch() const override { return kStepsPerEpoch; }
  std::int64_t examples_per_epoch() const override { return kStepsPerEpoch * options_.batch_size; }
  void seek(const data::DataCursor& cursor) override;
  double wait_seconds() const override { return 0; }

 private:
  void draw_tokens(std::size_t windows, RandomStream& random);
  StoredFeatures stored_features(Index count) const;
  comm::Slice own_numbers() const;
  Index own_size(Index number) const;

  static constexpr std::int64_t kStepsPerEpoch = 1'000'000;
  static constexpr Index kSteps = 4;  ///< steps whose examples are in memory

  models::ModelInputs inputs_;
  data::SourceOptions options_;
  Index step_examples_ = 0;  ///< examples of a step on this rank, over all micro-batches
  Buffer features_, targets_;
  KeptFeatures* kept_ = nullptr;
  std::vector<std::int32_t> labels_, tokens_;
  std::vector<std::uint64_t> examples_;
  std::int64_t step_ = 0;
  Index micro_batch_ = 0, used_ = 0;  ///< of this rank's in the step
};

}  // namespace unisono::session
