#pragma once

#include <stdexcept>

#include "unisono/data/batch.hpp"

namespace unisono::session {

/// Of methods whose steps are passes over the whole training set, which read it themselves: only counts.
class WholeSetSource final : public data::BatchSource {
 public:
  explicit WholeSetSource(std::int64_t examples) : examples_(examples) {}

  data::Batch next() override { throw std::logic_error("a step on the whole set has no batches"); }
  std::int64_t steps_per_epoch() const override { return 1; }
  std::int64_t examples_per_epoch() const override { return examples_; }
  void seek(const data::DataCursor&) override {}
  double wait_seconds() const override { return 0; }

 private:
  std::int64_t examples_;
};

}  // namespace unisono::session
