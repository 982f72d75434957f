#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "unisono/comm/communicator.hpp"
#include "unisono/data/dataset.hpp"

namespace unisono::strategies {

struct Examples {
  data::FeatureShape shape;
  Index classes = 0;                   ///< 0: targets, one value an example
  std::vector<float> features{};       ///< [count, C, H, W]
  std::vector<std::int32_t> labels{};  ///< [count], or empty
  std::vector<float> targets{};        ///< [count], or empty

  Index count() const { return static_cast<Index>(features.size()) / shape.size(); }
};

/// Uniform features in [−1, 1), and labels or targets that depend on them.
Examples random_examples(Index count, const data::FeatureShape& shape, Index classes);

/// How a source deals out its examples.
struct Dealing {
  data::SourceOptions options;
  bool shuffle = true;
  /// The examples of a micro-batch are rotated by so many places: the same training, summed in another order.
  Index rotation = 0;
};

/// Deals a global order of the examples out to the ranks, in memory and without haste.
class MemorySource final : public data::BatchSource {
 public:
  MemorySource(const Examples& examples, const Dealing& dealing) : examples_(examples), dealing_(dealing) { seek({}); }
  data::Batch next() override;
  std::int64_t steps_per_epoch() const override;
  std::int64_t examples_per_epoch() const override { return examples_.count(); }
  void seek(const data::DataCursor& cursor) override;
  double wait_seconds() const override { return 0; }

 private:
  void skip_steps(std::int64_t steps);
  std::vector<std::uint64_t> order_of_epoch() const;
  comm::Slice step_places() const;              ///< within the epoch's order
  comm::Slice micro_places(Index micro) const;  ///< likewise, of all ranks
  comm::Slice own_places(Index micro) const;    ///< likewise, of this rank
  comm::Slice own_micro_batches() const;        ///< that this rank takes part in
  void gather();

  const Examples& examples_;
  Dealing dealing_;
  data::DataCursor cursor_;
  Index micro_ = 0;  ///< of the step's
  std::vector<std::uint64_t> numbers_{};
  std::vector<float> features_{}, targets_{};
  std::vector<std::int32_t> labels_{};
};

/// The same, with a pause before each batch.
class PausingSource final : public data::BatchSource {
 public:
  PausingSource(const Examples& examples, const data::SourceOptions& options, std::function<void()> pause)
      : source_(examples, {.options = options, .shuffle = true, .rotation = 0}), pause_(std::move(pause)) {}
  data::Batch next() override {
    pause_();
    return source_.next();
  }
  std::int64_t steps_per_epoch() const override { return source_.steps_per_epoch(); }
  std::int64_t examples_per_epoch() const override { return source_.examples_per_epoch(); }
  void seek(const data::DataCursor& cursor) override { source_.seek(cursor); }
  double wait_seconds() const override { return 0; }

 private:
  MemorySource source_;
  std::function<void()> pause_;
};

}  // namespace unisono::strategies
