// Rows, one by one:
//   mean:  row_i ← Σ_r n_r [rank r changed row i] row_i,r / Σ_r n_r [rank r changed row i]   where anybody changed it
//   sum:   row_i ← old_i + Σ_r (row_i,r − old_i)
//   n_r: examples that rank r has seen since the last average; old: what all ranks held then
// A rank that did not change a row does not count in its mean: a plain mean over all ranks would undo most of what the
// others have learnt. The sum moves a row as far as one rank would with the examples of all. That is right while the
// ranks' changes are small: they then act like asynchronous updates that arrive some steps late. Where they are large,
// the sum moves too far.
// The more updates a row gets before it is merged, the further the ranks' copies drift apart. So rows whose changes are
// added are also merged between averages, whenever the ranks together have touched them about `merge_after` times:
// frequent words many times a step, rare ones hardly before the average (after Ji et al., "Parallelizing word2vec in
// shared and distributed memory", 2016, who merge frequent words more often). After each step the ranks sum the numbers
// of touches of each row: one allreduce of 4 bytes a row, and one of the rows that are then merged. Within the next
// step a row that was touched n times is merged n / merge_after times, at equal intervals: the step is cut into parts,
// and after each part one allreduce merges the rows that are due. (In the first step after an average, touches are
// summed after 1, 2, 4, … of its parts.) The sum needs a copy of old: 4N bytes more.
// Changes may be compressed: a rank's message then holds encode(row_i,r − old_i + residual_i,r), and the residual is
// what it does not say (exchange/encoded_sum.cpp). Numbers of touches are sent as they are.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "parameter_average.hpp"

#include "step.hpp"

namespace unisono::strategies {
namespace {

constexpr Index kPackedFloats = Index{1} << 20;  // rows are sent 4 MiB at a time
constexpr Index kLeastPart = 2048;               // examples of a rank between two merges: about a millisecond

constexpr Named<MergeChoice> kRowMerges[] = {
    {MergeChoice::by_model, "auto", "mean for linear models, sum for all others"},
    {MergeChoice::sum, "sum", "the changes of all ranks are summed, as if one rank had made them all"},
    {MergeChoice::mean, "mean", "mean over the ranks that changed the row"}};

}  // namespace

void MergeSettings::describe(ConfigVisitor& visitor) {
  visitor.choice({.name = "merge",
                  .meaning = "for models that are updated in place: how a row is merged that several ranks changed"},
                 merge, kRowMerges);
  visitor.field({.name = "merge_after",
                 .meaning = "with merge = \"sum\": a row is also merged between two averages, whenever all ranks "
                            "together have touched it about this many times; 0: only with the averages",
                 .range = at_least(0).at_most(1 << 20)},
                merge_after);
}

std::string relief_of_averages(const StrategySettings&, bool) {
  return "a longer period sends fewer, and so does a larger merge_after if rows are merged between averages";
}

bool sums_changes(const models::InPlace& model, MergeChoice merge) {
  return merge == MergeChoice::by_model ? model.usual_merge() == models::RowMerging::sum : merge == MergeChoice::sum;
}

void count_averaged(const TrainContext& run, std::size_t bytes) {
  if (run.communicator.size() == 1) return;
  run.counters.of<AveragedCounters>().bytes += static_cast<std::int64_t>(bytes);
}

std::size_t average_parameters(const TrainContext& run, comm::Communicator& group, double weight) {
  // A mean of equal numbers, as those of frozen blocks, would be rounded.
  return average_parameters(run, group, weight, run.replica.layout().trainable());
}

std::size_t average_parameters(const TrainContext& run, comm::Communicator& group, double weight,
                               const std::vector<FloatRange>& ranges) {
  std::size_t bytes = 0;
  for (const FloatRange& range : ranges) {
    const MutableView values = part(run.state.parameters, range);
    group.allreduce_weighted_mean(values, weight);
    bytes += values.size_bytes();
  }
  return bytes;
}

ParameterAverage::ParameterAverage(TrainContext& run, const MergeSettings& settings,
                                   parallel::CompressedChanges* compressed)
    : run_(run), merge_after_(settings.merge_after), compressed_(compressed) {
  if (run.model.in_place() == nullptr) return;
  if (run.communicator.size() == 1) {
    take_residual();
    return;
  }
  spaces_ = run.model.in_place()->row_spaces();
  touched_.emplace(spaces_);
  for (const models::RowSpace& space : spaces_) counted_.emplace_back(static_cast<std::size_t>(space.rows));
  if (sums_changes(*run.model.in_place(), settings.merge))
    old_.assign(run.state.parameters.begin(), run.state.parameters.end());
}

std::int64_t ParameterAverage::bytes(const models::Model& model, const MergeSettings& settings, int ranks) {
  if (model.in_place() == nullptr || ranks == 1) return 0;
  Index rows = 0, most = 0;
  for (const models::RowSpace& space : model.in_place()->row_spaces()) {
    rows += space.rows;
    most = std::max(most, space.rows);
  }
  const Index old = sums_changes(*model.in_place(), settings.merge) ? model.layout().size() : 0;
  const Index packed = std::min(kPackedFloats, model.layout().size());
  return static_cast<std::int64_t>(sizeof(float)) * (old + packed + most + rows) +
         static_cast<std::int64_t>(sizeof(RowToMerge)) * most + static_cast<std::int64_t>(sizeof(std::uint32_t)) * rows;
}

void ParameterAverage::sum(std::span<float> values) {
  run_.communicator.allreduce_sum(values);
  count_averaged(run_, values.size_bytes());
}

void ParameterAverage::average(double weight) {
  const parallel::Phase phase(run_, run_.seconds.exposed_communication);
  if (!touched_) return count_averaged(run_, average_parameters(run_, run_.communicator, weight));
  // A run that is resumed from here has no counts either, and must make the same steps.
  frequent_.clear();
  learns_ = true;
  uncounted_ = 0;
  for (std::size_t space = 0; space < spaces_.size(); ++space) merge_rows(space, static_cast<float>(weight), 1);
  average_rest(weight);
}

int ParameterAverage::begin_step(Index examples) {
  parts_ = 1;
  if (!merges_early()) return parts_;
  float most = learns_ ? std::numeric_limits<float>::max() : 1.0F;
  for (const FrequentRow& row : frequent_) most = std::max(most, row.merges);
  const Index parts = std::max<Index>(1, examples / run_.communicator.size() / kLeastPart);
  parts_ = static_cast<int>(most < static_cast<float>(parts) ? static_cast<Index>(most) : parts);
  return parts_;
}

void ParameterAverage::merge_after_part(int part) {
  parallel::meet(run_);
  const parallel::Phase phase(run_, run_.seconds.exposed_communication);
  uncounted_ += 1 / static_cast<float>(parts_);
  const auto made = static_cast<unsigned>(part + 1);
  if (learns_ && std::has_single_bit(made)) {
    count_and_merge();
  } else {
    merge_due(part);
  }
}

void ParameterAverage::merge_after_step() {
  if (!merges_early()) return;
  parallel::meet(run_);
  const parallel::Phase phase(run_, run_.seconds.exposed_communication);
  uncounted_ += 1 / static_cast<float>(parts_);
  count_and_merge();
  learns_ = false;
}

void ParameterAverage::count_and_merge() {
  frequent_.clear();
  for (std::size_t space = 0; space < spaces_.size(); ++space) merge_rows(space, 1, merge_after_);
  uncounted_ = 0;
}

/// Merges the frequent rows that have a merge at the end of this part, when their merges are spread evenly over the
/// step.
void ParameterAverage::merge_due(int part) {
  const auto merges_until = [&](const FrequentRow& row, int made) {
    return std::floor(row.merges * static_cast<float>(made) / static_cast<float>(parts_));
  };
  rows_.clear();
  for (const FrequentRow& row : frequent_) {
    if (merges_until(row, part + 1) > merges_until(row, part)) rows_.push_back(row.row);
  }
  exchange(rows_);
}

/// \param least rows with at least so many touches by all ranks are merged
void ParameterAverage::merge_rows(std::size_t space, float weight, std::int64_t least) {
  const models::RowSpace& rows = spaces_[space];
  weights_.resize(static_cast<std::size_t>(rows.rows));
  for (Index row = 0; row < rows.rows; ++row) {
    const auto touches = static_cast<float>(touched_->count(space, row));
    weights_[static_cast<std::size_t>(row)] = sums() || touches == 0 ? touches : weight;
  }
  sum(weights_);
  if (merges_early() && uncounted_ > 0) note_frequent(space);
  rows_.clear();
  for (Index row = 0; row < rows.rows; ++row) {
    const float all = weights_[static_cast<std::size_t>(row)];
    if (sums() ? all < static_cast<float>(least) : all == 0) continue;
    rows_.push_back({.at = rows.offset + row * rows.stride,
                     .share = touched_->is_touched(space, row) ? weight / all : 0.0F,
                     .floats = static_cast<std::int32_t>(rows.stride)});
    touched_->forget(space, row);
    counted_[space][static_cast<std::size_t>(row)] = 0;
  }
  exchange(rows_);
}

/// Collects the rows that are touched so often, over all ranks, that they must be merged within a step.
void ParameterAverage::note_frequent(std::size_t space) {
  const models::RowSpace& rows = spaces_[space];
  for (Index row = 0; row < rows.rows; ++row) {
    float& before = counted_[space][static_cast<std::size_t>(row)];
    const float all = weights_[static_cast<std::size_t>(row)];
    const float merges = (all - std::exchange(before, all)) / uncounted_ / static_cast<float>(merge_after_);
    if (merges < 1) continue;
    const RowToMerge whole{
        .at = rows.offset + row * rows.stride, .share = 1, .floats = static_cast<std::int32_t>(rows.stride)};
    frequent_.push_back({whole, merges});
  }
}

/// Merges rows over the ranks. Collective, with the same rows on every rank.
void ParameterAverage::exchange(std::span<const RowToMerge> rows) {
  while (!rows.empty()) {
    std::size_t count = 0, floats = 0;
    while (count < rows.size() &&
           (count == 0 || floats + static_cast<std::size_t>(rows[count].floats) <= kPackedFloats))
      floats += static_cast<std::size_t>(rows[count++].floats);
    packed_.resize(floats);
    const auto for_each = [&](auto visit) {
      std::span<float> left(packed_);
      for (const RowToMerge& row : rows.first(count)) {
        visit(row, left.first(static_cast<std::size_t>(row.floats)));
        left = left.subspan(static_cast<std::size_t>(row.floats));
      }
    };
    for_each([&](const RowToMerge& row, std::span<float> part) { give(row, part); });
    if (compressed_ != nullptr) {
      sum_compressed(rows.first(count));
    } else {
      sum(packed_);
    }
    for_each([&](const RowToMerge& row, std::span<float> part) { take(row, part); });
    rows = rows.subspan(count);
  }
}

/// packed_ ← the sum of the ranks' changes of these rows, from compressed messages.
void ParameterAverage::sum_compressed(std::span<const RowToMerge> rows) {
  float* const residual = run_.vectors.back().values.data();
  unsent_.clear();
  for (const RowToMerge& row : rows) unsent_.insert(unsent_.end(), residual + row.at, residual + row.at + row.floats);
  compressed_->sum(packed_, unsent_);
  const float* from = unsent_.data();
  for (const RowToMerge& row : rows) {
    std::copy_n(from, row.floats, residual + row.at);
    from += row.floats;
  }
}

/// One rank has nobody to send to: what a run of more ranks had not sent belongs to θ.
void ParameterAverage::take_residual() {
  if (compressed_ == nullptr) return;
  const MutableView residual = run_.vectors.back().values.view();
  run_.backend.axpby(1, residual, 1, run_.state.parameters);
  run_.backend.clear(residual);
}

/// Writes this rank's contribution to the sum over ranks.
void ParameterAverage::give(const RowToMerge& row, std::span<float> to) const {
  const float* const own = run_.state.parameters.data() + row.at;
  for (std::size_t k = 0; k < to.size(); ++k) {
    if (row.share == 0) {
      to[k] = 0;
    } else {
      to[k] = !sums() ? row.share * own[k] : own[k] - old_[static_cast<std::size_t>(row.at) + k];
    }
  }
}

/// Sets a row to its merged value.
void ParameterAverage::take(const RowToMerge& row, std::span<const float> sum) {
  float* const own = run_.state.parameters.data() + row.at;
  if (!sums()) {
    std::copy(sum.begin(), sum.end(), own);
    return;
  }
  float* const old = old_.data() + row.at;
  for (std::size_t k = 0; k < sum.size(); ++k) own[k] = old[k] += sum[k];
}

/// Averages the few floats that belong to no row: biases of a whole model, counts.
void ParameterAverage::average_rest(double weight) {
  std::vector<std::pair<Index, Index>> taken;
  for (const models::RowSpace& rows : spaces_) taken.emplace_back(rows.offset, rows.offset + rows.rows * rows.stride);
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
  count_averaged(run_, packed_.size() * sizeof(float));
  std::size_t i = 0;
  for_each_rest([&](float& value) { value = packed_[i++]; });
}

}  // namespace unisono::strategies
