#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "unisono/base/config.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/kernels/encoders.hpp"
#include "unisono/parallel/common_fate.hpp"
#include "unisono/parallel/exchange.hpp"
#include "unisono/parallel/step_terms.hpp"
#include "unisono/tensor/layout.hpp"

namespace unisono::parallel {

/// How what ranks send is compressed.
enum class Compression { none, bf16, eight_bit, one_bit, threshold, top_k, power_sgd };

/// The values from other sections of the config that compression depends on.
struct CompressionTerms {
  double clip_norm = 0;
  int optimizer_states = 0;  ///< vectors that the optimizer keeps
  /// Whether sums over ranks are made in an order that does not depend on the number of ranks.
  bool reproducible = false;
};

/// `[strategy.compression]`: what ranks send instead of whole gradients, or of whole changes of parameters.
struct CompressionSettings {
  Compression kind = Compression::none;
  double threshold = 0;             ///< of kind threshold: τ; 0: by density
  double threshold_density = 0.01;  ///< of kind threshold: share of the values that are sent, where τ is adapted
  double residual_limit = 0;        ///< of kind threshold: residuals are cut to so many times τ; 0: they are not
  double density = 0.01;            ///< of kind top_k: share of the values that are sent
  double momentum = 0;              ///< of kind top_k: momentum correction
  std::int64_t ramp_steps = 0;      ///< of kind top_k: steps in which the share falls to `density`
  std::int64_t rank = 2;            ///< of kind power_sgd: the rank of the matrices that are sent
  std::int64_t warmup_steps = 0;    ///< steps of the run whose gradients are sent whole
  double clip_norm = 0;  ///< largest norm of a rank's own gradient before it is compressed; 0: it is not clipped
  std::vector<std::string> exact = {};  ///< blocks that are sent whole, in addition to biases and norms

  bool is_on() const { return kind != Compression::none; }
  /// Declares the keys for gradients.
  void describe(ConfigVisitor& visitor);
  /// Declares the keys for changes of parameters: those for gradients alone are left out.
  void describe_for_changes(ConfigVisitor& visitor);
  /// Declares the keys for gradients that workers push to servers, each worker at its own pace.
  void describe_for_pushes(ConfigVisitor& visitor);
  /// Checks the settings against other sections of the config; errors are `visitor`'s.
  void check(const CompressionTerms& terms, ConfigVisitor& visitor) const;
};

/// Checks that each pattern of `exact` fits a block of the model. \throws ConfigError where one does not
void require_fitting_blocks(const CompressionSettings& settings, const ParameterLayout& layout);

/// The encoder of a kind of compression; null for power_sgd, which has none.
std::unique_ptr<kernels::Encoder> make_encoder(const CompressionSettings& settings);

/// The vectors that compressed sums keep from step to step, in the order in which the exchanges expect them.
std::vector<StateVector> compression_vectors(const CompressionSettings& settings);

/// A sum of compressed gradients: g ← Σ_r of what rank r's messages say about its gradient; see compressed_sum.cpp.
/// Uses run.vectors.
std::unique_ptr<GradientExchange> make_compressed_sum(StepTerms& run, const CompressionSettings& settings);

/// A sum of compressed gradients: g ← Σ_r of products of thin matrices, for strategy.compression.kind = "power_sgd";
/// see power_sgd.cpp. Uses run.vectors.
std::unique_ptr<GradientExchange> make_power_sgd(StepTerms& run, const CompressionSettings& settings);

/// What sums by make_power_sgd are about, in floats.
struct FactorSizes {
  Index left = 0, right = 0;  ///< of all factors on either side
  Index exact = 0;            ///< sent as they are, with the left factors
  Index compressed = 0;       ///< of the blocks that the factors stand for
};
FactorSizes factor_sizes(const ParameterLayout& layout, const CompressionSettings& settings);

/// Clips a rank's own gradient before it is compressed, in all sums of compressed gradients:
///     g_r ← g_r · min(1, clip_norm / (√P ‖g_r‖))       Lin et al., ICLR 2018
void clip_own_gradient(StepTerms& run, double clip_norm);

/// Estimated bytes of memory of a sum of compressed gradients, without the vectors that it keeps.
std::int64_t compression_bytes(const ParameterLayout& layout, int ranks, const CompressionSettings& settings);

/// Bytes that a rank sends in an allreduce of n floats, each rank on a node of its own: slices are added up by one rank
/// each, short vectors by all.
std::int64_t plain_sum_bytes(Index n, int ranks);

/// Which floats of a gradient are compressed. Frozen blocks, and unused floats between blocks, are not sent at all.
struct CompressedBlocks {
  std::vector<FloatRange> compressed;
  std::vector<FloatRange> exact;  ///< sent as they are
};

/// For each block, whether its role and name let it be compressed: not biases and norms, nor blocks that a pattern of
/// `exact` fits (see ParameterLayout::matching).
std::vector<bool> blocks_to_compress(const ParameterLayout& layout, const std::vector<std::string>& exact);

/// Which floats are compressed. \param compressed for each block, whether it is; frozen blocks are not
CompressedBlocks divide_blocks(const ParameterLayout& layout, const std::vector<bool>& compressed);
/// The same for all blocks that settings let be compressed.
CompressedBlocks divide_blocks(const ParameterLayout& layout, const CompressionSettings& settings);

/// How many floats all ranges have.
Index size_of(const std::vector<FloatRange>& ranges);

/// The part of `range` that lies within `other`; empty where there is none.
FloatRange common_part(const FloatRange& range, const FloatRange& other);

/// packed ← the ranges of `vector`, one behind the other. `packed` may be the front of `vector` itself.
void pack(View vector, const std::vector<FloatRange>& ranges, MutableView packed);
/// The ranges of `vector` ← packed, in which they lie one behind the other.
void unpack(View packed, const std::vector<FloatRange>& ranges, MutableView vector);

/// Sums vectors over the ranks by messages that an encoder makes of them.
class EncodedSum {
 public:
  explicit EncodedSum(comm::Communicator& ranks) : ranks_(ranks), fate_(ranks) {}
  virtual ~EncodedSum() = default;

  /// sum[i] ← Σ_r what rank r's message says about its value i; values ← what was not said. Messages are added in the
  /// order of the ranks, beginning with −0, so that values that are sent exactly have the sum of an allreduce.
  /// Collective, by messages between two ranks alone; one thread at a time. Every rank ends with the same bits.
  /// \param values, sum of equal length, the same on all ranks
  /// \param place its sender is set by this function
  virtual void sum(kernels::Encoder& encoder, MutableView values, MutableView sum, kernels::EncodingPlace place) = 0;

  /// Bytes of this rank's messages, so far.
  std::int64_t sent_bytes() const { return sent_bytes_; }
  /// Ends the wait of a thread that is in `sum`, which then throws PeerFailure.
  void give_up() { fate_.give_up(nullptr); }

 protected:
  comm::RequestPtr start_send(std::span<const std::byte> bytes, int peer, int tag) {
    sent_bytes_ += static_cast<std::int64_t>(bytes.size());
    return ranks_.start_send(bytes, peer, tag);
  }
  void wait(std::span<const comm::RequestPtr> requests) {
    for (const comm::RequestPtr& request : requests) fate_.wait(*request);
  }
  comm::Communicator& ranks_;

 private:
  CommonFate fate_;
  std::int64_t sent_bytes_ = 0;
};

/// A sum for messages whose lengths differ: each message is sent to all ranks. Cost per sum of n values: P − 1 messages
/// of the encoder's length and 8 bytes, from each rank to all others.
std::unique_ptr<EncodedSum> make_gathered_sum(comm::Communicator& ranks);

/// A sum for dense encoders: each rank adds up one slice of the vector, and sends its sum, encoded again, to all. Cost
/// per sum of n values: 2 (P − 1) messages from each rank, of 2 (P − 1) / P · most_bytes(n) together.
std::unique_ptr<EncodedSum> make_sliced_sum(comm::Communicator& ranks);

/// The sum that suits an encoder: sliced for dense encoders, else gathered.
inline std::unique_ptr<EncodedSum> make_encoded_sum(comm::Communicator& ranks, const kernels::Encoder& encoder) {
  return encoder.is_dense() ? make_sliced_sum(ranks) : make_gathered_sum(ranks);
}

/// Sums what the ranks have changed, compressed, with error feedback:
///     e_r ← changes_r + rest_r;  message_r, rest_r ← encode(e_r);  sum ← Σ_r decode(message_r)
/// So Σ over sums + Σ_r rest_r = Σ of all changes, up to rounding. Cost per sum of n floats: as an EncodedSum's.
class CompressedChanges {
 public:
  /// \param settings is_on()
  CompressedChanges(StepTerms& run, const CompressionSettings& settings);

  /// Says that the sums that follow belong to step `step` of the run.
  void begin_step(std::int64_t step);
  /// changes ← the sum over the ranks, with the same bits on all; rest ← what this rank has not sent. Collective.
  /// \param rest in: what this rank had not sent before; as long as `changes`, and as long on all ranks
  void sum(MutableView changes, MutableView rest);

 private:
  StepTerms& run_;
  std::unique_ptr<kernels::Encoder> encoder_;
  std::unique_ptr<EncodedSum> sum_;
  std::uint64_t place_ = 0;  ///< place of the next sum: its step and its number in the step
};

}  // namespace unisono::parallel
