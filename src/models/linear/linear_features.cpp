#include <algorithm>
#include <array>
#include <cstdint>

#include "linear/linear_model.hpp"
#include "rows.hpp"

// Linear models whose features are divided among threads and ranks.

namespace unisono::models {
namespace {

constexpr Index kFeaturesOfLine = 16;  ///< whose weights share a cache line
constexpr Index kSample = 1 << 15;     ///< values

const SparseRows* rows_of(const data::Batch& batch) {
  return batch.set == nullptr ? nullptr : &std::get<data::LabelledRows>(*batch.set).rows;
}

}  // namespace

std::vector<Index> LinearModel::divide_features(const data::Batch& batch, int parts) const {
  const SparseRows* const rows = rows_of(batch);
  std::vector<Index> sample;
  const Index all = rows != nullptr ? std::ssize(rows->columns) : features_, taken = std::min(all, kSample);
  for (Index i = 0; i < taken; ++i) {
    const Index at = all * i / taken;
    sample.push_back(rows != nullptr ? rows->columns[static_cast<std::size_t>(at)] : at);
  }
  std::sort(sample.begin(), sample.end());
  std::vector<Index> bounds{0};
  for (int part = 1; part < parts; ++part) {
    const Index bound = taken == 0 ? 0 : sample[static_cast<std::size_t>(taken * part / parts)];
    const Index whole_lines = (bound + kFeaturesOfLine / 2) / kFeaturesOfLine * kFeaturesOfLine;
    bounds.push_back(std::clamp(whole_lines, bounds.back(), features_));
  }
  bounds.push_back(features_);
  return bounds;
}

std::vector<std::uint64_t> LinearModel::first_values(const data::Batch& batch, Index feature) const {
  const SparseRows* const rows = rows_of(batch);
  if (rows == nullptr) return {};
  if (feature == 0) return {rows->offsets.begin(), rows->offsets.end() - 1};
  if (feature == features_) return {rows->offsets.begin() + 1, rows->offsets.end()};
  std::vector<std::uint64_t> first(static_cast<std::size_t>(rows->rows()));
  for (std::size_t i = 0; i < first.size(); ++i) {
    const auto begin = rows->columns.begin() + static_cast<std::ptrdiff_t>(rows->offsets[i]);
    const auto end = rows->columns.begin() + static_cast<std::ptrdiff_t>(rows->offsets[i + 1]);
    first[i] = rows->offsets[i] +
               static_cast<std::uint64_t>(std::lower_bound(begin, end, static_cast<std::uint32_t>(feature)) - begin);
  }
  return first;
}

kernels::LinearRows LinearModel::kernel_rows(const ExampleSlice& part) const {
  if (part.rows != nullptr) return {.sparse = part.rows, .first = part.first, .last = part.first + part.count};
  return {.last = part.count, .values = part.values, .features = features_};
}

void LinearModel::part_margins(const data::Batch& batch, data::ExampleRange range, const FeatureShare& share,
                               MutableView parameters, Scratch& scratch, MutableView margins) const {
  kernels::LinearWeights weights = margin_weights(weights_, parameters);
  if (!share.adds_bias) weights.bias = nullptr;
  const ExampleSlice part = part_of(batch, range, static_cast<LinearScratch&>(scratch).targets);
  kernels_->part_margins(kernel_rows(part), share.part, weights, margins);
}

void LinearModel::step_on_part(const data::Batch& batch, data::ExampleRange range, const FeatureShare& share,
                               const InPlaceStep& step, View margins, Scratch& scratch, kernels::LossSums* sums) const {
  const ExampleSlice part = part_of(batch, range, static_cast<LinearScratch&>(scratch).targets);
  const auto first = static_cast<std::size_t>(part.rows != nullptr ? part.first : 0);
  const auto count = static_cast<std::size_t>(part.count);
  const auto of_these = [&](View values) { return values.empty() ? View{} : values.subspan(first, count); };
  std::array<float, kernels::kMostMiniBatch> memory;
  const MutableView moves = MutableView(memory).first(count);
  const kernels::LinearStep with = linear_step(part, step, step.examples_before);
  kernels::InPlaceSums added;
  kernels_->moves(margin_loss(), of_these(part.targets), of_these(part.weights), with.rate, margins, moves,
                  sums != nullptr ? &added : nullptr);
  if (sums != nullptr) add(added, *sums);
  kernels::LinearWeights weights = margin_weights(weights_, step.parameters);
  weights.weight_sums = pointer_at(sums_.weights, step.parameters);
  weights.bias_sum = pointer_at(sums_.bias, step.parameters);
  if (!share.keeps_rest) weights.bias = weights.bias_sum = nullptr;
  kernels_->part_steps(kernel_rows(part), share.part, with, weights, moves);
  if (share.keeps_rest) note_updates(step.parameters, step.examples_before + part.count);
}

}  // namespace unisono::models
