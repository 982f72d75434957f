#pragma once

#include "unisono/nn/layer.hpp"
#include "unisono/parallel/exchange.hpp"
#include "unisono/parallel/pipeline.hpp"

namespace unisono::parallel {

/// Tied weights W [V, C] of an embedding on a pipeline's first stage and an unembedding on its last one. W belongs to
/// the first stage. In each program it sends W to the last stage, which collects the unembedding's part of W's gradient
/// and sends it back where a sum is complete (nn::TiedWeights): Shoeybi et al. 2019 add up both parts likewise. Cost of
/// a step: two messages of 4·V·C bytes, through plain memory. Memory: on the last stage 8·V·C bytes, on the first
/// 4·V·C.
/// Other stages, and models without tied weights, have nothing to do here.
class TiedStages {
 public:
  explicit TiedStages(const PipelineTerms& terms);
  ~TiedStages();
  TiedStages(const TiedStages&) = delete;
  TiedStages& operator=(const TiedStages&) = delete;

  /// A program begins. \param parameters this stage's θ, which does not change until `finish`
  void begin(MutableView parameters);
  /// For a pass of the unembedding: waits for W, and for room to collect the gradient, which is 0 where a sum begins
  /// with no examples. Null on other stages.
  const nn::TiedWeights* of_head(const SumPlace& place, Index examples);
  /// After a backward pass of the unembedding.
  void head_done(const SumPlace& place);
  /// For a backward pass of the embedding: waits for the gradient where a sum is complete. Null on other stages.
  const nn::TiedWeights* of_embedding(const SumPlace& place);
  /// In place of the embedding's pass over no examples: adds a sum that is complete to the gradient of W.
  void add_without_pass(const nn::TiedWeights& tied, const GradientTarget& target) const;
  /// Waits until all that was sent has been received.
  void finish();

  double waited_seconds() const { return waited_seconds_; }
  std::int64_t sent_bytes() const { return sent_bytes_; }

 private:
  bool is_first() const { return floats_ > 0 && terms_.pipeline.rank() == 0; }
  bool is_last() const { return floats_ > 0 && terms_.pipeline.rank() + 1 == terms_.pipeline.size(); }
  int weights_tag() const { return 2 * terms_.stages.pieces(); }
  int gradient_tag() const { return weights_tag() + 1; }
  comm::RequestPtr send(MutableView values, Buffer& plain, int peer, int tag);
  comm::RequestPtr start_receive(Buffer& to, Buffer& plain, int peer, int tag);
  void wait(comm::RequestPtr& request);
  void arrived(Buffer& to, Buffer& plain);
  bool is_plain() const { return terms_.backend.memory().is_plain(); }

  PipelineTerms terms_;
  Index floats_;                           ///< of W; 0: nothing is tied, or one stage holds all
  Index offset_ = 0;                       ///< of W in the first stage's θ
  Buffer weights_;                         ///< last stage: W
  Buffer gradient_;                        ///< the unembedding's part of the gradient
  Buffer plain_weights_, plain_gradient_;  ///< where the backend's memory is not plain
  comm::RequestPtr weights_under_way_, gradient_under_way_;
  nn::TiedWeights tied_;
  double waited_seconds_ = 0;
  std::int64_t sent_bytes_ = 0;
};

}  // namespace unisono::parallel
