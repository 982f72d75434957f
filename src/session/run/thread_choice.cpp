#include "unisono/session/settled.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <variant>
#include <vector>

#include "run/resume.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/median.hpp"
#include "unisono/data/batch.hpp"
#include "unisono/session/training_parts.hpp"

namespace unisono::session {
namespace {

/// The first steps of another source, over and over, from a copy of their examples: also whoever reads a whole set
/// reads only these. Not for texts.
class SampleSource final : public data::BatchSource {
 public:
  /// \param examples at least so many of this rank, unless an epoch has fewer or they are large
  SampleSource(data::BatchSource& source, Index examples);

  data::Batch next() override;
  std::int64_t steps_per_epoch() const override { return std::ssize(steps_); }
  std::int64_t examples_per_epoch() const override { return examples_; }
  void seek(const data::DataCursor& cursor) override;
  double wait_seconds() const override { return 0; }

 private:
  struct Step {
    data::Batch batch;
    std::vector<data::ExampleRange> ranges;
    std::vector<std::uint64_t> examples;
    std::vector<std::int32_t> labels;
    std::vector<float> features, targets, weights;
  };
  Index take(const data::Batch& batch);
  void take_range(const data::LabelledRows& rows, data::ExampleRange range);
  void take_range(data::SparseEntries entries, data::ExampleRange range);
  void bind();

  std::vector<Step> steps_;
  std::vector<std::uint64_t> offsets_{0};  ///< of sparse rows
  std::vector<std::uint32_t> columns_;
  std::vector<float> values_, targets_, weights_;
  std::vector<SparseEntry> entries_;
  data::ExampleSet set_;  ///< of the copied rows or entries
  std::int64_t examples_ = 0;
  data::DataCursor cursor_;
};

constexpr Index kMostFloats = Index{1} << 22;  // of a table

template <typename Values>
auto copy_of(const Values& values) {
  return std::vector<std::remove_cv_t<typename Values::element_type>>(values.begin(), values.end());
}

template <typename Values>
auto part_of(const Values& values, std::uint64_t first, std::uint64_t last) {
  return values.empty() ? values : values.subspan(first, last - first);
}

void append(std::vector<float>& to, View values) { to.insert(to.end(), values.begin(), values.end()); }

SampleSource::SampleSource(data::BatchSource& source, Index examples) {
  Index own = 0, floats = 0;
  for (bool ended = false; !ended && own < examples && floats < kMostFloats;) {
    const data::Batch batch = source.next();
    if (steps_.empty() && batch.set != nullptr) set_ = *batch.set;
    own += take(batch);
    floats += std::ssize(batch.features);
    ended = batch.last_of_epoch;
  }
  bind();
}

/// \return the batch's examples
Index SampleSource::take(const data::Batch& batch) {
  Step& step = steps_.emplace_back(Step{batch,
                                        {},
                                        copy_of(batch.examples),
                                        copy_of(batch.labels),
                                        copy_of(batch.features),
                                        copy_of(batch.targets),
                                        copy_of(batch.weights)});
  step.batch.epoch_examples_before = examples_;
  examples_ += batch.global_size;
  for (const data::ExampleRange& range : batch.ranges) {
    const auto* const rows = std::get_if<data::LabelledRows>(batch.set);
    const auto first = rows != nullptr ? std::ssize(offsets_) - 1 : std::ssize(entries_);
    step.ranges.push_back({first, first + range.size()});
    rows != nullptr ? take_range(*rows, range) : take_range(std::get<data::SparseEntries>(*batch.set), range);
  }
  return batch.size;
}

void SampleSource::take_range(const data::LabelledRows& rows, data::ExampleRange range) {
  const auto first_row = static_cast<std::size_t>(range.first), last_row = static_cast<std::size_t>(range.last);
  const std::uint64_t first = rows.rows.offsets[first_row], last = rows.rows.offsets[last_row];
  const std::uint64_t before = offsets_.back();
  for (std::size_t row = first_row; row < last_row; ++row) {
    offsets_.push_back(before + rows.rows.offsets[row + 1] - first);
  }
  const auto columns = part_of(rows.rows.columns, first, last);
  columns_.insert(columns_.end(), columns.begin(), columns.end());
  append(values_, part_of(rows.rows.values, first, last));
  append(targets_, part_of(rows.targets, first_row, last_row));
  append(weights_, part_of(rows.weights, first_row, last_row));
}

void SampleSource::take_range(data::SparseEntries entries, data::ExampleRange range) {
  entries_.insert(entries_.end(), entries.begin() + range.first, entries.begin() + range.last);
}

/// Lets the steps' views point to the copies.
void SampleSource::bind() {
  if (auto* const rows = std::get_if<data::LabelledRows>(&set_)) {
    rows->rows.offsets = offsets_;
    rows->rows.columns = columns_;
    rows->rows.values = values_;
    rows->targets = targets_;
    rows->weights = weights_;
  } else {
    set_ = data::SparseEntries(entries_);
  }
  for (Step& step : steps_) {
    step.batch.examples = step.examples;
    step.batch.features = step.features;
    step.batch.labels = step.labels;
    step.batch.targets = step.targets;
    step.batch.weights = step.weights;
    step.batch.ranges = step.ranges;
    if (step.batch.set != nullptr) step.batch.set = &set_;
  }
}

data::Batch SampleSource::next() {
  data::Batch batch = steps_[static_cast<std::size_t>(cursor_.step)].batch;
  batch.epoch = cursor_.epoch;
  seek({.epoch = cursor_.epoch, .step = cursor_.step + 1});
  batch.last_of_epoch = cursor_.step == 0;
  return batch;
}

void SampleSource::seek(const data::DataCursor& cursor) {
  const std::int64_t steps = steps_per_epoch();
  cursor_ = {.epoch = cursor.epoch + cursor.step / steps, .step = cursor.step % steps};
}

constexpr Index kSampledExamples = 8192;
constexpr int kRounds = 3;            // of each way; their medians count, which single disturbances do not affect
constexpr double kClearly = 1.05;     // as fast
constexpr double kShareOfRun = 0.01;  // that a timing may take
constexpr double kMuchLonger = 3;     // than one thread: a trial of several ends there
// What several threads lose by a checkpoint, while it is written on one of their cores.
constexpr double kSecondsOfCheckpoint = 0.001;
constexpr double kLeastSeconds = 0.002, kMostSeconds = 0.02;  // of a timing

/// Of the slowest rank.
struct Timing {
  double first_pass = 0;  ///< over the sample, with all that is done before
  double later_step = 0;
  bool stopped = false;  ///< it took so long that the rest is an estimate
};

/// Watches the first pass over the sample and the steps after it. Stops where they take too long: threads that wait for
/// each other may need a hundred times as long while others use their cores.
class Watched final : public strategies::Observer {
 public:
  struct Plan {
    std::int64_t of_sample, later;  ///< steps
    double most_seconds;
  };
  Watched(comm::Communicator& group, const Plan& plan) : group_(group), plan_(plan) {}

  bool step(const strategies::StepRecord& record) override {
    made_ = record.step;
    (made_ <= plan_.of_sample ? first_ : all_) = watch_.seconds();
    if (!record.consistent) return true;
    stopped_ = group_.max(std::int64_t{watch_.seconds() > plan_.most_seconds ? 1 : 0}) != 0;
    return !stopped_;
  }
  std::int64_t next_due(std::int64_t step) const override {
    return std::min(step + std::max<std::int64_t>(1, plan_.later / 8),
                    step < plan_.of_sample ? plan_.of_sample : std::numeric_limits<std::int64_t>::max());
  }
  /// Collective.
  Timing timing() const {
    const auto made = static_cast<double>(made_);
    const double each = watch_.seconds() / made;
    std::array<double, 2> slowest = {first_, (all_ - first_) / static_cast<double>(plan_.later)};
    if (stopped_) slowest = {each * static_cast<double>(plan_.of_sample), each};
    group_.allreduce_max(std::span<double>(slowest));
    return {slowest[0], slowest[1], stopped_};
  }

 private:
  comm::Communicator& group_;
  Plan plan_;
  Stopwatch watch_;
  std::int64_t made_ = 0;
  double first_ = 0, all_ = 0;
  bool stopped_ = false;
};

double checkpoints_of_run(const settings::Config& config, double epochs, double steps_of_epoch) {
  const auto part = [](double all, std::int64_t each) { return each > 0 ? all / static_cast<double>(each) : 0; };
  return part(epochs, config.checkpoint.every_epochs) + part(epochs * steps_of_epoch, config.checkpoint.every_steps);
}

/// A copy of a run's model and a sample of its examples, with which steps are timed.
class TimedCopy {
 public:
  TimedCopy(const ModelPlace& where, const settings::Config& config, data::Dataset& data)
      : group_(where.group),
        config_(config),
        data_(data),
        parts_(where, config, inputs_of(data.info()), &data),
        training_(parts_, config),
        source_(*data.train(source_options(parts_, config)), kSampledExamples),
        schedule_(schedule_of(config, source_.steps_per_epoch())) {
    parts_.initialise(static_cast<std::uint64_t>(config.seed));
  }

  /// Trains on the sample once, and then makes so many steps. Collective.
  Timing time(int threads, std::int64_t steps, double most_seconds) {
    // What a model keeps beside a set must not be taken for another set's.
    const auto model = models::make_model(
        config_.model, inputs_of(data_.info()),
        model_context(*parts_.backend, parts_.statistics_reducer, parts_.strategy->steps_together(), config_, &data_));
    const std::int64_t of_sample = source_.steps_per_epoch();
    group_.barrier();
    Watched watched(group_, {of_sample, steps, most_seconds});
    strategies::TrainContext context{
        step_terms(parts_, training_, config_, {.source = source_, .another_model = model.get()}),
        {.optimizer_settings = config_.optimizer,
         .schedule = schedule_,
         .observer = watched,
         .total_steps = of_sample + steps,
         .threads = threads,
         .seed = static_cast<std::uint64_t>(config_.seed)},
        {},
        {}};
    parts_.strategy->train(context);
    training_.sums = {};
    return watched.timing();
  }

  double examples_of_run() const { return epochs_of_run() * static_cast<double>(data_.info().train); }
  /// What the run would take.
  double seconds_of_run(int threads, const Timing& timing) const {
    const double epochs = epochs_of_run(), first = std::min(1.0, epochs);
    const double checkpoints = threads > 1 ? checkpoints_of_run(config_, epochs, steps_of_epoch()) : 0;
    return kSecondsOfCheckpoint * checkpoints + first * samples_of_epoch() * timing.first_pass +
           (epochs - first) * steps_of_epoch() * timing.later_step;
  }
  std::int64_t steps_of_sample() const { return source_.steps_per_epoch(); }

 private:
  /// How many times the sample an epoch is.
  double samples_of_epoch() const {
    return static_cast<double>(data_.info().train) / static_cast<double>(source_.examples_per_epoch());
  }
  double steps_of_epoch() const { return samples_of_epoch() * static_cast<double>(source_.steps_per_epoch()); }
  double epochs_of_run() const {
    const optim::Length length = config_.train.length();
    return static_cast<double>(length.count) / (length.in_steps ? steps_of_epoch() : 1);
  }

  comm::Communicator& group_;
  const settings::Config& config_;
  data::Dataset& data_;
  ModelParts parts_;
  TrainingParts training_;
  SampleSource source_;
  optim::Schedule schedule_;
};

/// What the run would take, by several timings of each way in turn.
struct Estimates {
  std::vector<double> one, all;
};

Estimates time_both(TimedCopy& copy, int threads) {
  constexpr double kNoLimit = std::numeric_limits<double>::infinity();
  const Timing first = copy.time(1, copy.steps_of_sample(), kNoLimit);
  const double seconds = std::clamp(kShareOfRun * copy.seconds_of_run(1, first), kLeastSeconds, kMostSeconds);
  const std::int64_t steps =
      std::clamp<std::int64_t>(std::llround(seconds / std::max(first.later_step, 1e-9)), 2, 1 << 20);
  const double most_seconds = kMuchLonger * (first.first_pass + static_cast<double>(steps) * first.later_step);
  Estimates estimates;
  for (int round = 0; round < kRounds; ++round) {
    const Timing all = copy.time(threads, steps, most_seconds);
    estimates.all.push_back(copy.seconds_of_run(threads, all));
    if (all.stopped && round == 0) {  // all threads need not be tried again
      estimates.one.push_back(copy.seconds_of_run(1, first));
      return estimates;
    }
    estimates.one.push_back(copy.seconds_of_run(1, copy.time(1, steps, kNoLimit)));
  }
  return estimates;
}

/// Whether all threads are clearly faster: by the median, and at least a little each time.
bool clearly_faster(const Estimates& estimates) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < estimates.one.size(); ++i) ratios.push_back(estimates.one[i] / estimates.all[i]);
  return median_of(ratios) > kClearly && *std::ranges::min_element(ratios) > 1;
}

std::string text_of(double examples_per_second) {
  return examples_per_second < 1e6 ? grouped(std::llround(examples_per_second))
                                   : fmt::format("{:.3g} M", examples_per_second / 1e6);
}

}  // namespace

// Examples of texts and co-occurrences take so long that threads gain everywhere.
bool leaves_threads_open(const settings::Config& config, data::SetKind set) {
  const bool words = set == data::SetKind::text || set == data::SetKind::cooccurrences;
  return traits_of(config.strategy).times_threads && config.strategy.threads == 0 &&
         settings::updates_in_place(config) && !words;
}

Settled choose_threads(const ModelPlace& where, Settled asked, data::Dataset& data) {
  if (!leaves_threads_open(asked.config, data.info().kind)) return asked;
  std::array<std::int64_t, 2> shares = {where.place.fair_share(), -where.place.fair_share()};
  where.group.allreduce_max(std::span<std::int64_t>(shares));
  const int most = static_cast<int>(shares[0]), least = static_cast<int>(-shares[1]);
  if (most == 1) return asked;
  Log silent(where.group.rank(), /*terminal=*/false);
  TimedCopy copy({where.group, where.place, silent}, asked.config, data);
  const Estimates estimates = time_both(copy, where.place.fair_share());
  const bool all = clearly_faster(estimates);
  std::string one_text = "1 thread", one_rate = text_of(copy.examples_of_run() / median_of(estimates.one));
  std::string all_text = least == most ? count_of(most, "thread") : fmt::format("{} to {} threads", least, most);
  std::string all_rate = text_of(copy.examples_of_run() / median_of(estimates.all));
  if (all) std::swap(one_text, all_text), std::swap(one_rate, all_rate);
  asked.config.strategy.threads = !all ? 1 : least == most ? most : 0;
  asked.choices.push_back({"strategy.threads", ChosenBy::trial,
                           fmt::format("{} a rank, expected to train on {} examples/s, {} on {} (by a short trial)",
                                       one_text, one_rate, all_text, all_rate)});
  return asked;
}

}  // namespace unisono::session
