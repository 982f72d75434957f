#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "order/schedule.hpp"
#include "tokens/stream.hpp"
#include "unisono/data/dataset.hpp"

namespace unisono::data {

/// The tokens of a split: [first, first + count) of a stream.
struct TokenText {
  TokenStream stream;
  std::int64_t first = 0, count = 0;
};

/// Batches of windows of T tokens, with the token after each as its label.
class WindowWriter {
 public:
  /// \param inputs false: batches have labels, but no tokens
  WindowWriter(TokenText text, Index context, bool inputs)
      : text_(std::move(text)), context_(context), inputs_(inputs) {}

  /// Begins a batch of so many windows; `header` gives all members that are not about examples.
  void begin(const Batch& header, Index windows);
  /// Its next window: tokens begin … begin + T − 1 of the split. Behind the last one that has a successor, tokens are 0
  /// and labels −1. \param uncounted labels at the window's beginning that are −1, too
  void add(std::int64_t window, std::int64_t begin, Index uncounted = 0);
  /// The batch, whose memory stays valid until the next one begins.
  const Batch& batch();
  /// Asks for a window that will be added soon.
  void fetch(std::int64_t begin) const;

 private:
  TokenText text_;
  Index context_;
  bool inputs_;
  Batch batch_;
  std::vector<std::int32_t> tokens_, labels_, window_;
  std::vector<std::uint64_t> examples_;
};

/// A rank's training batches. Windows follow each other; in each epoch all begin at the same offset in [0, T), and come
/// in an order of their own: functions of (seed, epoch, number of the order).
class WindowSource final : public BatchSource {
 public:
  /// \param number of this rank's order; 0 for an order that all ranks share
  WindowSource(const Schedule& schedule, WindowWriter writer, Index context, bool shuffle, const SourceOptions& options,
               std::uint32_t number);

  Batch next() override;
  std::int64_t steps_per_epoch() const override { return schedule_.steps_per_epoch(); }
  std::int64_t examples_per_epoch() const override { return schedule_.examples(); }
  void seek(const DataCursor& cursor) override;
  double wait_seconds() const override { return wait_seconds_; }

 private:
  void begin_epoch(std::int64_t epoch);
  std::int64_t window_at(std::int64_t place) const;
  void skip_steps(int count);

  Schedule schedule_;
  WindowWriter writer_;
  Index context_;
  bool shuffle_;
  std::uint64_t seed_;
  std::uint32_t number_;
  int lane_, lanes_;
  std::int64_t epoch_ = -1, offset_ = 0;  ///< of the order at hand
  KeyedPermutation order_;
  double wait_seconds_ = 0;
};

/// Windows [part) of a split, in the order of the text, without an offset. They begin `stride` tokens apart, and count
/// each token once.
class WindowPass final : public EvaluationSource {
 public:
  WindowPass(Range part, Index batch_size, WindowWriter writer, Index context, Index stride)
      : part_(part),
        next_(part.first),
        batch_size_(batch_size),
        writer_(std::move(writer)),
        context_(context),
        stride_(stride) {}

  std::optional<Batch> next() override;
  std::int64_t first() const override { return part_.first; }
  std::int64_t last() const override { return part_.last; }

 private:
  Range part_;
  std::int64_t next_;
  Index batch_size_;
  WindowWriter writer_;
  Index context_, stride_;
};

}  // namespace unisono::data
