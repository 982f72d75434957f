#pragma once

#include <functional>
#include <vector>

#include "unisono/data/batch.hpp"

namespace unisono::parallel {

/// The micro-batches of a step, or the batches of an evaluation, that a stage has in flight. They are read in their
/// order, each when it is first asked for.
class MicroBatches {
 public:
  using Next = std::function<data::Batch()>;

  /// \param next reads the next one
  explicit MicroBatches(Next next) : next_(std::move(next)) {}

  /// Batch i, with all that it has but its features: of these, only the newest batch's are valid.
  const data::Batch& operator[](int i);
  int read() const { return static_cast<int>(kept_.size()); }

 private:
  /// A batch and copies of what it points to.
  struct Kept {
    data::Batch batch;
    std::vector<std::uint64_t> examples;
    std::vector<Movement> movements;
    std::vector<std::int32_t> labels;
    std::vector<float> targets, weights;
  };
  void read_one();

  Next next_;
  std::vector<std::unique_ptr<Kept>> kept_;
};

}  // namespace unisono::parallel
