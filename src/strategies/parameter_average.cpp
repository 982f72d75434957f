// Rows, one by one:
//   mean:  row_i ← Σ_r n_r [rank r changed row i] row_i,r / Σ_r n_r [rank r changed row i]   where anybody changed it
//   sum:   row_i ← old_i + Σ_r (row_i,r − old_i)
//   n_r: examples that rank r has seen since the last average; old: what all ranks held then
// A rank that did not change a row has nothing to say of it: a plain mean would take back what the others have learnt.
// The sum goes as far as one rank would with the examples of all, which is right while the ranks' changes are small
// (they then are what updates without waiting are, each some steps late), and too far where they are not.
// How far apart ranks get grows with what they do to a row before it is merged. So rows whose changes are added are
// also merged between averages, after the step in which the ranks together have touched them `merge_after` times:
// frequent words after every step, rare ones hardly before the average (after Ji et al., "Parallelizing word2vec in
// shared and distributed memory", 2016, who merge frequent words more often). Cost: one allreduce of 4 bytes a row, and
// one of the rows that are merged. The sum keeps old: 4N bytes more.
#include <algorithm>

#include "step.hpp"
#include "unisono/base/clock.hpp"

namespace unisono {
namespace {

constexpr Index kPackedFloats = Index{1} << 20;  // rows are sent 4 MiB at a time

/// Whether rows become the sum of the ranks' changes. \param merge as in the config
bool sums_changes(const Model& model, const std::string& merge) {
  return (merge == "auto" ? model.in_place()->usual_merge() : merge) == "sum";
}

}  // namespace

ParameterAverage::ParameterAverage(TrainContext& run, const StrategySettings& settings)
    : run_(run), merge_after_(settings.merge_after) {
  if (run.model.in_place() == nullptr || run.communicator.size() == 1) return;
  spaces_ = run.model.in_place()->row_spaces();
  touched_.emplace(spaces_);
  if (sums_changes(run.model, settings.merge)) old_.assign(run.state.parameters.begin(), run.state.parameters.end());
}

std::int64_t ParameterAverage::bytes(const Model& model, const StrategySettings& settings, int ranks) {
  if (model.in_place() == nullptr || ranks == 1) return 0;
  Index rows = 0, most = 0;
  for (const RowSpace& space : model.in_place()->row_spaces()) {
    rows += space.rows;
    most = std::max(most, space.rows);
  }
  const Index old = sums_changes(model, settings.merge) ? model.layout().size() : 0;
  const Index packed = std::min(kPackedFloats, model.layout().size());
  return static_cast<std::int64_t>(sizeof(float)) * (old + packed + most) +
         static_cast<std::int64_t>(sizeof(Index)) * most + rows;
}

void ParameterAverage::sum(std::span<float> values) {
  run_.communicator.allreduce_sum(values);
  count_bytes(values.size_bytes());
}

void ParameterAverage::count_bytes(std::size_t bytes) {
  std::int64_t& count = run_.doings.averaged_bytes;
  count = std::max<std::int64_t>(0, count) + static_cast<std::int64_t>(bytes);
}

void ParameterAverage::average(Index examples) {
  const ScopedTimer timer(run_.seconds.exposed_communication);
  if (!touched_) {
    run_.communicator.allreduce_weighted_mean(run_.state.parameters, static_cast<double>(examples));
    count_bytes(run_.state.parameters.size_bytes());
    return;
  }
  for (std::size_t space = 0; space < spaces_.size(); ++space) merge_rows(space, static_cast<float>(examples), 1);
  average_rest(static_cast<double>(examples));
}

void ParameterAverage::merge_early() {
  if (!merges_early()) return;
  meet(run_);
  const ScopedTimer timer(run_.seconds.exposed_communication);
  for (std::size_t space = 0; space < spaces_.size(); ++space) merge_rows(space, 1, merge_after_);
}

/// \param least touches, by all ranks, of a row that is to be merged
void ParameterAverage::merge_rows(std::size_t space, float weight, std::int64_t least) {
  const RowSpace& rows = spaces_[space];
  weights_.resize(static_cast<std::size_t>(rows.rows));
  for (Index row = 0; row < rows.rows; ++row) {
    const int touches = touched_->count(space, row);
    weights_[static_cast<std::size_t>(row)] = sums() ? static_cast<float>(touches) : touches > 0 ? weight : 0.0F;
  }
  sum(weights_);
  std::vector<Index> changed;
  for (Index row = 0; row < rows.rows; ++row) {
    const float all = weights_[static_cast<std::size_t>(row)];
    if (sums() ? all >= static_cast<float>(least) : all > 0) changed.push_back(row);
  }
  const auto at_once = static_cast<std::size_t>(std::max<Index>(1, kPackedFloats / rows.stride));
  const auto stride = static_cast<std::size_t>(rows.stride);
  for (std::size_t first = 0; first < changed.size(); first += at_once) {
    const std::span<const Index> some =
        std::span<const Index>(changed).subspan(first, std::min(at_once, changed.size() - first));
    packed_.resize(some.size() * stride);
    for (std::size_t i = 0; i < some.size(); ++i) {
      const Index at = rows.offset + some[i] * rows.stride;
      const float share =
          touched_->is_touched(space, some[i]) ? weight / weights_[static_cast<std::size_t>(some[i])] : 0.0F;
      give(at, share, std::span<float>(packed_).subspan(i * stride, stride));
    }
    sum(packed_);
    for (std::size_t i = 0; i < some.size(); ++i) {
      take(rows.offset + some[i] * rows.stride, std::span<const float>(packed_).subspan(i * stride, stride));
      touched_->forget(space, some[i]);
    }
  }
}

/// What this rank adds to a row's sum. \param share of the mean; 0: this rank did not change the row
void ParameterAverage::give(Index at, float share, std::span<float> to) const {
  const float* const row = run_.state.parameters.data() + at;
  for (std::size_t k = 0; k < to.size(); ++k) {
    if (share == 0) {
      to[k] = 0;
    } else {
      to[k] = !sums() ? share * row[k] : row[k] - old_[static_cast<std::size_t>(at) + k];
    }
  }
}

/// The row that the sum makes.
void ParameterAverage::take(Index at, std::span<const float> sum) {
  float* const row = run_.state.parameters.data() + at;
  if (!sums()) {
    std::copy(sum.begin(), sum.end(), row);
    return;
  }
  float* const old = old_.data() + at;
  for (std::size_t k = 0; k < sum.size(); ++k) row[k] = old[k] += sum[k];
}

/// What belongs to no row, of which there is little: biases of a whole model, counts.
void ParameterAverage::average_rest(double weight) {
  std::vector<std::pair<Index, Index>> taken;
  for (const RowSpace& rows : spaces_) taken.emplace_back(rows.offset, rows.offset + rows.rows * rows.stride);
  std::sort(taken.begin(), taken.end());
  taken.emplace_back(run_.state.parameters.size(), 0);
  Index at = 0;
  packed_.clear();
  const auto for_each_rest = [&](auto visit) {
    at = 0;
    for (const auto& [first, last] : taken) {
      for (Index i = at; i < first; ++i) visit(run_.state.parameters[static_cast<std::size_t>(i)]);
      at = std::max(at, last);
    }
  };
  for_each_rest([&](float& value) { packed_.push_back(value); });
  if (packed_.empty()) return;
  run_.communicator.allreduce_weighted_mean(packed_, weight);
  count_bytes(packed_.size() * sizeof(float));
  std::size_t i = 0;
  for_each_rest([&](float& value) { value = packed_[i++]; });
}

}  // namespace unisono
