#pragma once

#include <cstdint>
#include <memory>
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

/// Makes batches of a split's examples.
class TokenBatches {
 public:
  virtual ~TokenBatches() = default;

  /// Begins a batch of so many examples; `header` gives all members that are not about examples.
  virtual void begin(const Batch& header, Index examples) = 0;
  /// Its next example. \param offset how many tokens later than in an evaluation its window begins
  virtual void add(std::int64_t example, std::int64_t offset) = 0;
  /// The batch, whose memory stays valid until the next one begins.
  virtual const Batch& batch() = 0;
  /// Asks for an example that will be added soon.
  virtual void fetch(std::int64_t example, std::int64_t offset) const = 0;
};

/// Windows of T tokens, with the token after each as its label.
class Windows final : public TokenBatches {
 public:
  /// \param stride how many tokens apart windows begin; each but the first counts only what the one before has not
  /// \param inputs false: batches have labels, but no tokens
  Windows(TokenText text, Index context, Index stride, bool inputs)
      : text_(std::move(text)), context_(context), stride_(stride), inputs_(inputs) {}

  void begin(const Batch& header, Index windows) override;
  /// Behind the last token that has a successor, tokens are 0 and labels −1.
  void add(std::int64_t window, std::int64_t offset) override;
  const Batch& batch() override;
  void fetch(std::int64_t window, std::int64_t offset) const override;

 private:
  TokenText text_;
  Index context_, stride_;
  bool inputs_;
  Batch batch_;
  std::vector<std::int32_t> tokens_, labels_, window_;
  std::vector<std::uint64_t> examples_;
};

/// Where the windows of an epoch begin: all at the same offset in [0, T), so that they follow each other; or each
/// anywhere. Functions of the seed, the epoch and the window.
class WindowOffsets {
 public:
  /// \param places where windows may begin anywhere: so many tokens; 0: windows follow each other
  WindowOffsets(Index context, std::int64_t places) : context_(context), places_(places) {}
  void begin_epoch(std::uint64_t seed, std::int64_t epoch);
  std::int64_t operator()(std::int64_t window) const;

 private:
  Index context_;
  std::int64_t places_;
  std::int64_t common_ = 0;
  std::uint64_t seed_ = 0;
  std::uint32_t epoch_ = 0;
};

/// A rank's training batches. Examples come in an order of the epoch's own, a function of (seed, epoch, number of the
/// order).
class TokenSource final : public BatchSource {
 public:
  /// \param number of this rank's order; 0 for an order that all ranks share
  TokenSource(const Schedule& schedule, std::unique_ptr<TokenBatches> batches, const WindowOffsets& offsets,
              bool shuffle, const SourceOptions& options, std::uint32_t number);

  Batch next() override;
  std::int64_t steps_per_epoch() const override { return schedule_.steps_per_epoch(); }
  std::int64_t examples_per_epoch() const override { return schedule_.examples(); }
  void seek(const DataCursor& cursor) override;
  double wait_seconds() const override { return wait_seconds_; }

 private:
  void begin_epoch(std::int64_t epoch);
  std::int64_t example_at(std::int64_t place) const;
  std::int64_t offset_of(std::int64_t example) const { return shuffle_ ? offsets_(example) : 0; }
  void skip_steps(int count);

  Schedule schedule_;
  std::unique_ptr<TokenBatches> batches_;
  WindowOffsets offsets_;
  bool shuffle_;
  std::uint64_t seed_;
  std::uint32_t number_;
  int lane_, lanes_;
  std::int64_t epoch_ = -1;  ///< of the order at hand
  KeyedPermutation order_;
  double wait_seconds_ = 0;
};

/// A rank's training batches of so many examples, as the settings ask for them. \param places see WindowOffsets
std::unique_ptr<BatchSource> make_token_source(const DataSettings& settings, const SourceOptions& options,
                                               std::int64_t examples, std::unique_ptr<TokenBatches> batches,
                                               std::int64_t places = 0);

/// Examples [part) of a split, in the order of the text, without an offset.
class TokenPass final : public EvaluationSource {
 public:
  TokenPass(Range part, Index batch_size, std::unique_ptr<TokenBatches> batches)
      : part_(part), next_(part.first), batch_size_(batch_size), batches_(std::move(batches)) {}

  std::optional<Batch> next() override;
  std::int64_t first() const override { return part_.first; }
  std::int64_t last() const override { return part_.last; }

 private:
  Range part_;
  std::int64_t next_;
  Index batch_size_;
  std::unique_ptr<TokenBatches> batches_;
};

}  // namespace unisono::data
