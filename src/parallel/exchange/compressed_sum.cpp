#include "unisono/parallel/compressed_sum.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "unisono/base/errors.hpp"
#include "unisono/comm/buckets.hpp"
#include "unisono/parallel/counters.hpp"
#include "unisono/parallel/replica.hpp"

// Sums of compressed gradients with error feedback.
//     e_r ← g_r + residual_r                      g_r: this rank's part of the mean gradient
//     message_r, residual_r ← encode(e_r)         e_r = what the message says + residual_r
//     g ← Σ_r decode(message_r)                   on every rank, in the order of the ranks
//   Messages of different lengths (threshold, top_k) go from each rank to all others. Of dense ones (bf16, eight_bit,
//   one_bit), each rank adds up one slice, encodes the sum again, and keeps the error of that in its residual, too. So
//   Σ over steps of g + Σ_r residual_r = Σ of the gradients, up to rounding: nothing is lost, only sent later. Biases,
//   norms and chosen blocks go exactly, by an allreduce. During the warm-up all do, and on one rank there is nothing to
//   send: both make the plain sum.
//   Seide et al., "1-bit stochastic gradient descent", Interspeech 2014; Strom, "Scalable distributed DNN training",
//   Interspeech 2015, for thresholds.
//   With momentum (top_k), as in Lin et al., "Deep gradient compression", ICLR 2018, each rank accumulates its velocity
//     u_r ← m u_r + g_r;  e_r ← u_r + residual_r;  u_r ← 0 where e_r is sent
//   in place of the optimizer's momentum.
// Cost per step and rank, of n compressed floats, in buckets that are encoded and sent while the backward pass goes on:
//     threshold   (P − 1) (4 c + 24 per bucket) bytes for c sent values; at most n / 4 bytes in place of 4 c
//     top_k       (P − 1) (8 d n + 24 per bucket) bytes at density d; (4 d + 1/8) n where that is less
//     bf16, eight_bit, one_bit   2 (P − 1) / P · (2 n, 258 / 256 · n, 40 / 256 · n) bytes
//   and an allreduce of the exact floats: 8 (P − 1) / P bytes each, or 4 (P − 1) where they are few. A few passes over
//   n floats. Memory: the residual, 4N bytes; with momentum 8N; messages.
namespace unisono::parallel {
namespace {

/// Calls work(range) for what a bucket has of each of these ranges.
template <typename Work>
void for_each_in(const FloatRange& bucket, const std::vector<FloatRange>& ranges, const Work& work) {
  for (const FloatRange& range : ranges) {
    const FloatRange common = common_part(range, bucket);
    if (common.first < common.last) work(common);
  }
}

class CompressedSum final : public GradientExchange {
 public:
  CompressedSum(StepTerms& run, const CompressionSettings& settings);
  ~CompressedSum() override { sum_->give_up(); }
  CompressedSum(const CompressedSum&) = delete;
  CompressedSum& operator=(const CompressedSum&) = delete;

  GradientTarget target(const MicroBatchPlace& place) override {
    return target_at(sum_place(place), run_.gradient,
                     place.last && settings_.clip_norm == 0 ? GradientReady(buckets_) : GradientReady());
  }
  void finish() override;
  BlockedSeconds blocked() const override {
    return {.communication = buckets_.exposed_seconds() + exact_seconds_,
            .stragglers = buckets_.straggler_wait_seconds()};
  }

 private:
  bool is_plain() const { return run_.communicator.size() == 1 || step_ < settings_.warmup_steps; }
  comm::RequestPtr start(const FloatRange& bucket);
  void accumulate(const FloatRange& range);
  void take_all(const FloatRange& range);
  void compress(const FloatRange& bucket);
  void sum_encoded(const std::vector<FloatRange>& ranges);
  void forget(const FloatRange& range);
  void sum_exact_blocks();
  void choose_density();
  void count(bool plain);

  StepTerms& run_;
  const CompressionSettings settings_;
  CompressedBlocks blocks_;
  std::unique_ptr<kernels::Encoder> encoder_;
  std::unique_ptr<EncodedSum> sum_;
  MutableView residual_, velocity_;  ///< like g; without momentum there is no velocity
  bool residual_is_zero_;
  std::vector<float> packed_, sums_;  ///< of the ranges of a bucket
  std::vector<float> exact_;          ///< of all exact blocks
  std::int64_t step_, plainly_sent_ = 0;
  double exact_seconds_ = 0;
  comm::GradientBuckets buckets_;
  Background background_;  ///< ends before all that it uses
};

CompressedSum::CompressedSum(StepTerms& run, const CompressionSettings& settings)
    : run_(run),
      settings_(settings),
      blocks_(divide_blocks(run.replica.layout(), settings)),
      encoder_(make_encoder(settings)),
      sum_(make_encoded_sum(run.communicator, *encoder_)),
      residual_(run.vectors[0].values.view()),
      residual_is_zero_(std::ranges::all_of(residual_, [](float value) { return value == 0; })),
      exact_(static_cast<std::size_t>(size_of(blocks_.exact))),
      step_(run.first_step),
      buckets_(
          std::ssize(run.gradient), bucket_bytes_of(run),
          [this](Index first, Index last) {
            return start({first, last});
          },
          run.runtime),
      background_("compressed gradients", run.runtime) {
  if (settings.momentum > 0) velocity_ = run.vectors[1].values.view();
  run.counters.of<CompressionCounters>() = {};
  choose_density();
}

comm::RequestPtr CompressedSum::start(const FloatRange& bucket) {
  if (!is_plain()) return background_.start([this, bucket] { compress(bucket); });
  if (!velocity_.empty() || !residual_is_zero_) {
    for (const auto& ranges : {blocks_.compressed, blocks_.exact}) {
      for_each_in(bucket, ranges, [this](const FloatRange& range) { take_all(range); });
    }
  }
  return run_.communicator.start_allreduce_sum(part(run_.gradient, bucket));
}

/// residual ← residual + g, or with momentum, the velocity.
void CompressedSum::accumulate(const FloatRange& range) {
  const MutableView residual = part(residual_, range);
  View added = part(View(run_.gradient), range);
  if (!velocity_.empty()) {
    const MutableView velocity = part(velocity_, range);
    const auto m = static_cast<float>(settings_.momentum);
    for (std::size_t i = 0; i < velocity.size(); ++i) velocity[i] = m * velocity[i] + added[i];
    added = velocity;
  }
  for (std::size_t i = 0; i < residual.size(); ++i) residual[i] += added[i];
}

/// g ← all that there is to send.
void CompressedSum::take_all(const FloatRange& range) {
  accumulate(range);
  std::ranges::copy(part(residual_, range), part(run_.gradient, range).begin());
  std::ranges::fill(part(residual_, range), 0.0F);
}

void CompressedSum::compress(const FloatRange& bucket) {
  for_each_in(bucket, blocks_.exact, [this](const FloatRange& range) { take_all(range); });
  std::vector<FloatRange> ranges;
  for_each_in(bucket, blocks_.compressed, [&](const FloatRange& range) { ranges.push_back(range); });
  if (ranges.empty()) return;
  for (const FloatRange& range : ranges) accumulate(range);
  sum_encoded(ranges);
  for (const FloatRange& range : ranges) forget(range);
}

/// g ← Σ_r of what rank r's message says about these ranges; residual ← what this rank's message does not say. What
/// lies between them is not encoded.
void CompressedSum::sum_encoded(const std::vector<FloatRange>& ranges) {
  const kernels::EncodingPlace place{.step = static_cast<std::uint64_t>(step_), .first = ranges.front().first};
  if (ranges.size() == 1) {
    return sum_->sum(*encoder_, part(residual_, ranges[0]), part(run_.gradient, ranges[0]), place);
  }
  const auto size = static_cast<std::size_t>(size_of(ranges));
  packed_.resize(size);
  sums_.resize(size);
  pack(residual_, ranges, packed_);
  sum_->sum(*encoder_, packed_, sums_, place);
  unpack(packed_, ranges, residual_);
  unpack(sums_, ranges, run_.gradient);
}

/// Velocities of what is sent start anew, and residuals are cut, where this is wanted.
void CompressedSum::forget(const FloatRange& range) {
  const MutableView residual = part(residual_, range);
  if (!velocity_.empty()) {
    const MutableView velocity = part(velocity_, range);
    for (std::size_t i = 0; i < velocity.size(); ++i) velocity[i] = residual[i] == 0 ? 0 : velocity[i];
  }
  if (settings_.kind == Compression::threshold && settings_.residual_limit > 0) {
    const auto limit = static_cast<float>(settings_.residual_limit * settings_.threshold);
    for (float& value : residual) value = std::clamp(value, -limit, limit);
  }
}

void CompressedSum::finish() {
  if (settings_.clip_norm > 0) clip_own_gradient(run_, settings_.clip_norm);
  const bool plain = is_plain();
  buckets_.finish();
  if (!plain) sum_exact_blocks();
  residual_is_zero_ = plain;
  count(plain);
  ++step_;
  choose_density();
}

void CompressedSum::sum_exact_blocks() {
  const ScopedTimer timer(exact_seconds_, run_.runtime);
  pack(run_.gradient, blocks_.exact, exact_);
  run_.communicator.allreduce_sum(std::span<float>(exact_));
  unpack(exact_, blocks_.exact, run_.gradient);
}

/// After the warm-up, the share of the values that top_k sends falls by the same factor in each step of the ramp.
void CompressedSum::choose_density() {
  const std::int64_t into_ramp = step_ - settings_.warmup_steps;
  if (settings_.kind != Compression::top_k || into_ramp < 0 || into_ramp > settings_.ramp_steps) return;
  const double way = static_cast<double>(into_ramp + 1) / static_cast<double>(settings_.ramp_steps + 1);
  encoder_ = kernels::make_top_k_encoder(std::pow(settings_.density, way));
}

void CompressedSum::count(bool plain) {
  const int ranks = run_.communicator.size();
  const std::int64_t all = plain_sum_bytes(std::ssize(run_.gradient), ranks);
  plainly_sent_ += plain ? all : plain_sum_bytes(std::ssize(exact_), ranks);
  auto& counters = run_.counters.of<CompressionCounters>();
  counters.sent_bytes = plainly_sent_ + sum_->sent_bytes();
  counters.plain_bytes += all;
}

}  // namespace

std::vector<StateVector> compression_vectors(const CompressionSettings& settings) {
  std::vector<StateVector> vectors;
  const auto add = [&](const char* name) {
    vectors.push_back({.name = name, .scope = StateScope::replica, .adds_up = true});
  };
  if (settings.is_on()) add("residual");
  if (settings.kind == Compression::top_k && settings.momentum > 0) add("velocity");
  if (settings.kind == Compression::power_sgd) vectors.push_back({.name = "right_factors"});
  return vectors;
}

std::unique_ptr<GradientExchange> make_compressed_sum(StepTerms& run, const CompressionSettings& settings) {
  if (settings.kind == Compression::power_sgd) return make_power_sgd(run, settings);
  return std::make_unique<CompressedSum>(run, settings);
}

void clip_own_gradient(StepTerms& run, double clip_norm) {
  double squares = 0;
  for (const FloatRange& segment : run.replica.counted()) {
    squares += run.backend.squared_norm(part(View(run.gradient), segment));
  }
  run.replica.sum(std::span(&squares, 1));
  const double limit = clip_norm / std::sqrt(run.communicator.size());
  if (squares > limit * limit) {
    run.backend.axpby(static_cast<float>(limit / std::sqrt(squares)), run.gradient, 0, run.gradient);
  }
}

std::int64_t compression_bytes(const ParameterLayout& layout, int ranks, const CompressionSettings& settings) {
  constexpr Index kLargestBucket = Index{1} << 20;  // floats; see Communicator::bucket_bytes
  constexpr std::int64_t kFloat = sizeof(float);
  const auto encoder = make_encoder(settings);
  if (!encoder || ranks == 1) return 0;  // of PowerSGD, factors, which are small
  const Index bucket = std::min(layout.size(), kLargestBucket);
  return 2 * kFloat * bucket + encoder->most_bytes(bucket) * (encoder->is_dense() ? 2 : ranks);
}

std::int64_t plain_sum_bytes(Index n, int ranks) {
  const Index bytes = n * Index{sizeof(float)}, others = ranks - 1;
  return bytes * ranks <= comm::kShortSumBytes ? others * bytes : 2 * others * bytes / ranks;
}

// The keys of [strategy.compression], and which of them exclude others of the config.

namespace {

constexpr Named<Compression> kCompressions[] = {
    {Compression::none, "none", "gradients are sent as they are, in fp32"},
    {Compression::bf16, "bf16", "each value rounded to bfloat16: 2 bytes a value"},
    {Compression::eight_bit, "eight_bit",
     "8 bits a value and a scale for each 256, rounded up or down at random: about 1 byte a value"},
    {Compression::one_bit, "one_bit",
     "the signs, and for each 256 values the means of both signs: 1.25 bits a value (1-bit SGD)"},
    {Compression::threshold, "threshold",
     "values that reach a threshold, as plus or minus the threshold: 4 bytes for each of these"},
    {Compression::top_k, "top_k",
     "the largest values as they are: 8 bytes for each of these (deep gradient "
     "compression)"},
    {Compression::power_sgd, "power_sgd", "each matrix as a product of two of low rank (PowerSGD)"}};

/// Of these, those for changes of parameters.
constexpr Named<Compression> kOfChanges[] = {{Compression::none, "none", "changes are sent as they are, in fp32"},
                                             kCompressions[1],
                                             kCompressions[2],
                                             kCompressions[3],
                                             kCompressions[5]};

/// And those for pushes to servers.
constexpr Named<Compression> kOfPushes[] = {kCompressions[0], kCompressions[1], kCompressions[2],
                                            kCompressions[3], kCompressions[4], kCompressions[5]};

constexpr const char* kExact =
    "blocks or layers that are sent whole, as names or patterns: [\"dense3\", \"embedding*.weight\"]. Biases and the "
    "parameters of norms always are";

void describe_choice_of_threshold(CompressionSettings& settings, ConfigVisitor& visitor) {
  visitor.field(
      {.name = "threshold",
       .meaning = "the threshold, in units of the gradient; 0: it is chosen anew for each message, by density",
       .range = at_least(0)},
      settings.threshold);
  visitor.field({.name = "density",
                 .meaning = "about which share of the values is sent, where the threshold is chosen",
                 .range = above(0).at_most(1)},
                settings.threshold_density);
  visitor.require("threshold", kernels::fits_fp32(settings.threshold),
                  "threshold is outside of the range of fp32: set it to a number from 1e-37 to 1e38, or to 0");
  visitor.require("density",
                  settings.threshold == 0 || settings.threshold_density == CompressionSettings{}.threshold_density,
                  "density chooses the threshold, but threshold is given: set threshold = 0, or remove density");
}

void describe_threshold(CompressionSettings& settings, ConfigVisitor& visitor) {
  describe_choice_of_threshold(settings, visitor);
  visitor.field({.name = "residual_limit",
                 .meaning = "cut what was not sent to so many thresholds; 0: nothing is cut, so that all of it is sent "
                            "some time",
                 .range = at_least(0)},
                settings.residual_limit);
  visitor.require("residual_limit", settings.residual_limit == 0 || settings.threshold > 0,
                  "residual_limit is in thresholds, but the threshold is chosen anew for each message: set threshold "
                  "to a number above 0, or residual_limit = 0");
}

void describe_density(CompressionSettings& settings, ConfigVisitor& visitor) {
  visitor.field({.name = "density", .meaning = "share of the values that is sent", .range = above(0).at_most(1)},
                settings.density);
}

void describe_top_k(CompressionSettings& settings, ConfigVisitor& visitor) {
  describe_density(settings, visitor);
  visitor.field({.name = "momentum",
                 .meaning = "momentum correction: each rank has its own momentum, and sends of it; it takes the place "
                            "of optimizer.momentum",
                 .range = at_least(0).below(1)},
                settings.momentum);
  visitor.field({.name = "ramp_steps",
                 .meaning = "steps after the warm-up in which the share falls from 1 to density, by the same factor "
                            "in each",
                 .unit = "steps",
                 .range = at_least(0)},
                settings.ramp_steps);
}

}  // namespace

void CompressionSettings::describe(ConfigVisitor& visitor) {
  visitor.variant(
      {.name = "kind",
       .meaning = "what ranks send instead of whole gradients. What a rank has not sent is added to its next gradient"},
      kind, kCompressions,
      {{Compression::threshold, [this](ConfigVisitor& inner) { describe_threshold(*this, inner); }},
       {Compression::top_k, [this](ConfigVisitor& inner) { describe_top_k(*this, inner); }},
       {Compression::power_sgd, [this](ConfigVisitor& inner) {
          inner.field({.name = "rank",
                       .meaning = "columns of the two matrices of which a product is sent",
                       .range = at_least(1).at_most(256)},
                      rank);
        }}});
  visitor.field({.name = "warmup_steps",
                 .meaning = "first steps of the run, whose gradients are sent whole",
                 .unit = "steps",
                 .range = at_least(0)},
                warmup_steps);
  visitor.field({.name = "clip_norm",
                 .meaning = "scale a rank's own gradient down to this norm over the square root of the number of "
                            "ranks, before it is compressed; 0: never",
                 .range = at_least(0)},
                clip_norm);
  visitor.field({.name = "exact", .meaning = kExact}, exact);
  for (const auto& [key, is_set] :
       {std::pair{"warmup_steps", warmup_steps > 0}, {"clip_norm", clip_norm > 0}, {"exact", !exact.empty()}}) {
    visitor.require(key, is_on() || !is_set,
                    std::string(key) +
                        " belongs to compressed gradients, but kind = \"none\": set "
                        "strategy.compression.kind, or remove it");
  }
}

void CompressionSettings::describe_for_changes(ConfigVisitor& visitor) {
  visitor.variant(
      {.name = "kind",
       .meaning = "what ranks send instead of whole changes. What a rank has not sent is added to its next changes"},
      kind, kOfChanges, {{Compression::top_k, [this](ConfigVisitor& inner) { describe_density(*this, inner); }}});
  visitor.field({.name = "exact", .meaning = kExact}, exact);
  visitor.require("exact", is_on() || exact.empty(),
                  "exact belongs to compressed changes, but kind = \"none\": set strategy.compression.kind, or remove "
                  "it");
}

void CompressionSettings::describe_for_pushes(ConfigVisitor& visitor) {
  visitor.variant(
      {.name = "kind",
       .meaning =
           "what workers push instead of whole gradients. What a worker has not pushed is added to its next push"},
      kind, kOfPushes,
      {{Compression::threshold, [this](ConfigVisitor& inner) { describe_choice_of_threshold(*this, inner); }},
       {Compression::top_k, [this](ConfigVisitor& inner) { describe_density(*this, inner); }}});
  visitor.field({.name = "exact", .meaning = kExact}, exact);
  visitor.require("exact", is_on() || exact.empty(),
                  "exact belongs to compressed pushes, but kind = \"none\": set strategy.compression.kind, or remove "
                  "it");
}

void CompressionSettings::check(const CompressionTerms& terms, ConfigVisitor& visitor) const {
  if (!is_on()) return;
  visitor.require("strategy", !terms.reproducible,
                  "strategy.compression rounds what each rank sends, so sums depend on the number of ranks: set "
                  "communication.reduction = \"fast\", or strategy.compression.kind = \"none\"");
  visitor.require("strategy", terms.clip_norm == 0,
                  "optimizer.clip_norm would clip sums that hold what earlier steps did not send: set "
                  "strategy.compression.clip_norm, which clips each rank's gradient before it is compressed, and "
                  "optimizer.clip_norm = 0");
  visitor.require("strategy", momentum == 0 || kind != Compression::top_k || terms.optimizer_states == 0,
                  "strategy.compression.momentum takes the place of the optimizer's own state, but this optimizer "
                  "keeps some: set optimizer.kind = \"sgd\" with momentum = 0, or strategy.compression.momentum = 0");
}

void require_fitting_blocks(const CompressionSettings& settings, const ParameterLayout& layout) {
  for (const std::string& pattern : settings.exact) {
    if (!layout.matching(pattern).empty()) continue;
    throw ConfigError(
        fmt::format("strategy.compression.exact: no block of the model fits '{}'; 'unisono info' lists them", pattern));
  }
}

std::unique_ptr<kernels::Encoder> make_encoder(const CompressionSettings& settings) {
  switch (settings.kind) {
    case Compression::bf16:
      return kernels::make_bf16_encoder();
    case Compression::eight_bit:
      return kernels::make_eight_bit_encoder();
    case Compression::one_bit:
      return kernels::make_one_bit_encoder();
    case Compression::threshold:
      return kernels::make_threshold_encoder(
          {.threshold = static_cast<float>(settings.threshold), .density = settings.threshold_density});
    case Compression::top_k:
      return kernels::make_top_k_encoder(settings.density);
    case Compression::none:
    case Compression::power_sgd:
      break;
  }
  return nullptr;
}

}  // namespace unisono::parallel
