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
#include "unisono/parallel/compressed_sum.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "unisono/comm/buckets.hpp"
#include "unisono/parallel/background.hpp"
#include "unisono/parallel/counters.hpp"
#include "unisono/parallel/replica.hpp"

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
    return {run_.gradient, place.first ? kernels::Write::overwrite : kernels::Write::add,
            place.last && settings_.clip_norm == 0};
  }
  void ready(const MicroBatchPlace&, Index first, Index last) override { buckets_.ready(first, last); }
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
  std::vector<float> sums_, exact_;  ///< of a bucket; of all exact blocks
  std::int64_t step_, plainly_sent_ = 0;
  double exact_seconds_ = 0;
  comm::GradientBuckets buckets_;
  Background background_{"compressed gradients"};  ///< ends before all that it uses
};

CompressedSum::CompressedSum(StepTerms& run, const CompressionSettings& settings)
    : run_(run),
      settings_(settings),
      blocks_(divide_blocks(run.replica.layout(), blocks_to_compress(run.replica.layout(), settings.exact))),
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
          run.clock) {
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
  for_each_in(bucket, blocks_.compressed, [this](const FloatRange& range) { accumulate(range); });
  sums_.resize(static_cast<std::size_t>(bucket.last - bucket.first));
  sum_->sum(*encoder_, part(residual_, bucket), sums_,
            {.step = static_cast<std::uint64_t>(step_), .first = bucket.first});
  for_each_in(bucket, blocks_.compressed, [&](const FloatRange& range) {
    const FloatRange in_bucket{range.first - bucket.first, range.last - bucket.first};
    std::ranges::copy(part(View(sums_), in_bucket), part(run_.gradient, range).begin());
    forget(range);
  });
  for (const auto& ranges : {blocks_.exact, blocks_.unsent}) {  // of whose zeros one_bit has left something
    for_each_in(bucket, ranges, [this](const FloatRange& range) { std::ranges::fill(part(residual_, range), 0.0F); });
  }
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
  const ScopedTimer timer(exact_seconds_, run_.clock);
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
  for (const FloatRange& segment : run.replica.layout().trainable()) {
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
  return kFloat * bucket + encoder->most_bytes(bucket) * (encoder->is_dense() ? 2 : ranks);
}

std::int64_t plain_sum_bytes(Index n, int ranks) {
  const Index bytes = n * Index{sizeof(float)}, others = ranks - 1;
  return bytes * ranks <= comm::kShortSumBytes ? others * bytes : 2 * others * bytes / ranks;
}

}  // namespace unisono::parallel
