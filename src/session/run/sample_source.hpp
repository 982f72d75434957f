#pragma once

#include <cstdint>
#include <vector>

#include "unisono/data/batch.hpp"

namespace unisono::session {

/// The first steps of another source, over and over, from a copy of their examples: also whoever reads a whole set
/// reads only these. Not for texts.
class SampleSource final : public data::BatchSource {
 public:
  /// \param examples at least so many of this rank, unless an epoch has fewer or they are large
  SampleSource(data::BatchSource& source, Index examples);

  data::Batch next() override;
  std::int64_t steps_per_epoch() const override { return std::ssize(steps_); }
  std::int64_t examples_per_epoch() const override { return examples_; }
  void seek(const data::DataCursor& cursor) override;
  double wait_seconds() const override { return 0; }

 private:
  struct Step {
    data::Batch batch;
    std::vector<data::ExampleRange> ranges;
    std::vector<std::uint64_t> examples;
    std::vector<std::int32_t> labels;
    std::vector<float> features, targets, weights;
  };
  Index take(const data::Batch& batch);
  void take_range(const data::LabelledRows& rows, data::ExampleRange range);
  void take_range(data::SparseEntries entries, data::ExampleRange range);
  void bind();

  std::vector<Step> steps_;
  std::vector<std::uint64_t> offsets_{0};  ///< of sparse rows
  std::vector<std::uint32_t> columns_;
  std::vector<float> values_, targets_, weights_;
  std::vector<SparseEntry> entries_;
  data::ExampleSet set_;  ///< of the copied rows or entries
  std::int64_t examples_ = 0;
  data::DataCursor cursor_;
};

}  // namespace unisono::session
