#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "step.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/data/batch.hpp"
#include "unisono/kernels/in_place.hpp"
#include "unisono/tensor/allocator.hpp"

// Mini-batch SGD in which the features are divided, not the examples: among the ranks, and among each rank's threads.
//   For each mini-batch of a step, on every thread t of every rank:
//       z_t ← Σ_j w_j x_ij over the features j of t, for each example i of the mini-batch
//       z   ← Σ_t z_t                                     over the threads and the ranks, in their order
//       w_j ← w_j − rate Σ_i ℓ'(z_i) x_ij                 for the features j of t
//   Every weight belongs to one thread, so that none is lost, and each cache holds but a part of them. It is the serial
//   run with the same model.mini_batch, up to the order of the sums in z; with the same ranks and threads it gives the
//   same bits each time. Every rank reads all examples, and of each example only the values of its own features.
//   Boyd et al., "Distributed optimization and statistical learning via ADMM", 2011, section 8.3, for splitting a
//   linear model by features.
// Cost per mini-batch of B: a wait for the other threads (0.1 to 0.2 µs between two cores), and over ranks an allreduce
// of 4B bytes. Before reports, evaluations and checkpoints the ranks' parts of θ are put together: an allreduce of 4N.
namespace unisono::strategies {
namespace {

/// Adds margins up over the ranks, in place; empty: there is one rank.
using RanksSum = std::function<void(std::span<float>)>;

/// Where the threads of a rank add up their shares of the margins of one mini-batch after the other. A thread is at
/// most one mini-batch ahead of another, so that two places for each suffice.
class PartialMargins {
 public:
  explicit PartialMargins(int threads) : shared_(threads), summed_(1), slots_(static_cast<std::size_t>(threads)) {}

  /// Where a thread writes its share of mini-batch i, counted over the whole run.
  MutableView own(int thread, std::int64_t i, Index count) { return first(slot(thread).shares, i, count); }

  /// Tells the others that the share is there, and waits for theirs. \return the sums over the threads, in their order,
  /// and over the ranks, valid until the thread's next call; none where another thread failed
  /// \param over_ranks called on thread 0 alone
  std::optional<View> sum(int thread, std::int64_t i, Index count, const RanksSum& over_ranks) {
    shared_.finish(thread, i + 1);
    if (over_ranks && thread > 0) {
      if (!summed_.wait(0, i + 1)) return {};
      return first(slot(0).total, i, count);
    }
    if (!shared_.wait_for_all(i + 1)) return {};
    const MutableView total = first(slot(thread).total, i, count);
    for (int other = 0; other < shared_.threads(); ++other) {
      const View share = first(slot(other).shares, i, count);
      for (std::size_t k = 0; k < total.size(); ++k) total[k] = other == 0 ? share[k] : total[k] + share[k];
    }
    if (over_ranks) {
      over_ranks(total);
      summed_.finish(0, i + 1);
    }
    return total;
  }

  /// The calling thread makes no more; the others must not wait for it.
  void fail() {
    shared_.fail();
    summed_.fail();
  }

 private:
  using Margins = std::array<float, kernels::kMostMiniBatch>;
  struct alignas(2 * kAlignmentBytes) Slot {
    std::array<Margins, 2> shares, total;
  };

  Slot& slot(int thread) { return slots_[static_cast<std::size_t>(thread)]; }
  static MutableView first(std::array<Margins, 2>& places, std::int64_t i, Index count) {
    return MutableView(places[static_cast<std::size_t>(i % 2)]).first(static_cast<std::size_t>(count));
  }

  ThreadRounds shared_, summed_;
  std::vector<Slot> slots_;
};

/// The values of some features of a set's rows, in memory of their own: a thread that reads only these reads them one
/// after the other.
class FeatureValues {
 public:
  /// \param begins, ends of each row's values that belong to the part
  void take(const data::LabelledRows& whole, std::span<const std::uint64_t> begins,
            std::span<const std::uint64_t> ends) {
    offsets_.assign(1, 0);
    offsets_.reserve(begins.size() + 1);
    for (std::size_t i = 0; i < begins.size(); ++i) offsets_.push_back(offsets_.back() + ends[i] - begins[i]);
    reserve(columns_, offsets_.back());
    reserve(values_, whole.rows.values.empty() ? 0 : offsets_.back());
    for (std::size_t i = 0; i < begins.size(); ++i) {
      const auto first = static_cast<std::ptrdiff_t>(begins[i]), last = static_cast<std::ptrdiff_t>(ends[i]);
      columns_.insert(columns_.end(), whole.rows.columns.begin() + first, whole.rows.columns.begin() + last);
      if (whole.rows.values.empty()) continue;
      values_.insert(values_.end(), whole.rows.values.begin() + first, whole.rows.values.begin() + last);
    }
    data::LabelledRows part = whole;
    part.rows.offsets = offsets_;
    part.rows.columns = columns_;
    part.rows.values = values_;
    set_ = part;
  }

  const data::ExampleSet& set() const { return set_; }
  std::span<const std::uint64_t> begins() const { return std::span(offsets_).first(offsets_.size() - 1); }
  std::span<const std::uint64_t> ends() const { return std::span(offsets_).subspan(1); }

 private:
  template <typename Value>
  static void reserve(std::vector<Value>& values, std::size_t count) {
    values.reserve(count);
    ask_for_huge_pages(values.data(), count * sizeof(Value));
  }

  std::vector<std::uint64_t> offsets_{0};
  std::vector<std::uint32_t> columns_;
  std::vector<float> values_;
  data::ExampleSet set_;
};

class FeatureParallel final : public Strategy {
 public:
  void require(const models::Model& model, int ranks) const override;
  void train(TrainContext& run) override;
  std::optional<DataShard> data_shard(int, int) const override { return DataShard{0, 1}; }  // each rank sees all
};

void FeatureParallel::require(const models::Model& model, int) const {
  if (model.in_place() != nullptr && model.in_place()->by_features() != nullptr) return;
  throw UnfitStrategy(
      "strategy.kind = \"feature_parallel\" divides the features of models with one margin: model.kind = \"linear\" "
      "with any loss but \"softmax\"");
}

/// A rank's parts of the features, and the steps on them.
class DividedSteps {
 public:
  explicit DividedSteps(TrainContext& run)
      : run_(run),
        model_(*run.model.in_place()->by_features()),
        threads_(static_cast<std::size_t>(run.threads)),
        margins_(run.threads),
        team_(
            run.threads, "feature_parallel", [this](int number) { return train_on_batch(number); },
            [this] { margins_.fail(); }) {
    std::vector<std::int64_t> counts(static_cast<std::size_t>(run.communicator.size()));
    const auto rank = counts.begin() + run.communicator.rank();
    *rank = run.threads;
    run.communicator.allreduce_sum(std::span(counts));
    first_part_ = static_cast<int>(std::accumulate(counts.begin(), rank, std::int64_t{0}));
    parts_ = static_cast<int>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
    for (Thread& thread : threads_) thread.scratch = run.model.in_place()->make_scratch();
  }

  /// All steps of the run, with its reports.
  void train();

 private:
  struct alignas(kAlignmentBytes) Thread {
    bool has_part = false;
    models::FeatureShare share;
    FeatureValues rows;  ///< of sparse rows, the values of its features; empty where one thread has all of them
    std::unique_ptr<models::Scratch> scratch;
    kernels::LossSums sums;
  };

  void divide(const data::Batch& batch);
  void take_part(int number);
  void cut(const data::Batch& batch);
  void lead();
  std::optional<StepRecord> make(std::int64_t first, std::int64_t last);
  void gather();
  /// \return whether no other thread failed
  bool train_on_batch(int number);
  /// Over the ranks, on the thread that communicates.
  void sum_over_ranks(std::span<float> margins) {
    const Stopwatch watch(run_.runtime);
    run_.communicator.allreduce_sum(margins);
    waited_ += watch.seconds();
  }

  TrainContext& run_;
  const models::ByFeatures& model_;
  std::vector<Thread> threads_;
  PartialMargins margins_;
  StepTeam team_;
  std::optional<data::Batch> batch_;  ///< of the present step
  double rate_ = 0;
  int first_part_ = 0, parts_ = 1;                ///< this rank's first; of all ranks
  std::vector<Index> bounds_;                     ///< of this rank's parts; empty: not divided yet
  std::vector<data::ExampleRange> mini_batches_;  ///< of the present step
  std::int64_t made_ = 0;                         ///< mini-batches before the present step
  double waited_ = 0;
};

/// Bounds of the threads' parts of the features.
void DividedSteps::divide(const data::Batch& batch) {
  const std::vector<Index> all = model_.divide_features(batch, parts_);
  bounds_.assign(all.begin() + first_part_, all.begin() + first_part_ + run_.threads + 1);
}

/// A thread's part of the features and of the rows, which the whole run keeps.
void DividedSteps::take_part(int number) {
  const auto i = static_cast<std::size_t>(number);
  Thread& thread = threads_[i];
  thread.has_part = true;
  thread.share = {.part = {.first = bounds_[i], .last = bounds_[i + 1]},
                  .adds_bias = first_part_ + number == 0,
                  .keeps_rest = number == 0};
  if (batch_->set == nullptr) return;
  const auto& set = std::get<data::LabelledRows>(*batch_->set);
  if (parts_ == 1) {
    const std::span<const std::uint64_t> offsets = set.rows.offsets;
    thread.share.part.begins = offsets.first(offsets.size() - 1);
    thread.share.part.ends = offsets.subspan(1);
    return;
  }
  thread.rows.take(set, model_.first_values(*batch_, bounds_[i]), model_.first_values(*batch_, bounds_[i + 1]));
  thread.share.part.begins = thread.rows.begins();
  thread.share.part.ends = thread.rows.ends();
}

/// The mini-batches of a step: those that the serial run makes.
void DividedSteps::cut(const data::Batch& batch) {
  mini_batches_.clear();
  for (const data::ExampleRange& piece : pieces_of(batch)) {
    for (std::int64_t first = piece.first; first < piece.last; first += model_.mini_batch()) {
      mini_batches_.push_back({first, std::min<std::int64_t>(first + model_.mini_batch(), piece.last)});
    }
  }
}

void DividedSteps::train() {
  if (run_.first_step >= run_.total_steps) return;
  batch_ = parallel::next_batch(run_);
  divide(*batch_);
  team_.run([this] { lead(); });
}

/// Thread 0 reads the batches and reports.
void DividedSteps::lead() {
  const std::int64_t epoch = run_.source.steps_per_epoch();
  bool go_on = true;
  for (std::int64_t made = run_.first_step; go_on && made < run_.total_steps;) {
    const std::int64_t last = std::min({run_.total_steps, (made / epoch + 1) * epoch, run_.observer.next_due(made)});
    const std::optional<StepRecord> record = make(made, last);
    if (!record) return;
    gather();
    made = last;
    go_on = run_.observer.step(*record);
  }
}

/// Makes steps [first, last), between which nothing is reported. \return the record of the last one; none where another
/// thread failed, whose exception ends the run
std::optional<StepRecord> DividedSteps::make(std::int64_t first, std::int64_t last) {
  const double input_before = run_.seconds.input;
  Index examples = 0;
  {
    const parallel::ComputeScope computes(run_);
    for (std::int64_t step = first; step < last; ++step) {
      if (step > run_.first_step) batch_ = parallel::next_batch(run_);
      cut(*batch_);
      rate_ = run_.schedule.rate(step);
      examples += batch_->global_size;
      if (!team_.step()) return {};
      made_ += std::ssize(mini_batches_);
      // After each step, so that the bits do not depend on how many steps are made at a time.
      for (Thread& thread : threads_) run_.sums += std::exchange(thread.sums, {});
    }
  }
  const double waited = std::exchange(waited_, 0);
  run_.seconds.compute -= waited + (run_.seconds.input - input_before);
  run_.seconds.exposed_communication += waited;
  StepRecord record = make_record(*batch_, last, rate_, /*consistent=*/true);
  record.global_size = examples;
  return record;
}

bool DividedSteps::train_on_batch(int number) {
  Thread& thread = threads_[static_cast<std::size_t>(number)];
  if (!thread.has_part) take_part(number);
  data::Batch batch = *batch_;
  if (batch.set != nullptr && parts_ > 1) batch.set = &thread.rows.set();
  models::InPlaceStep step{
      .rate = rate_, .examples_before = own_examples_before(run_, batch, 1), .parameters = run_.state.parameters};
  const bool alone = run_.communicator.size() == 1;
  const RanksSum over_ranks = alone ? RanksSum() : [this](std::span<float> margins) { sum_over_ranks(margins); };
  for (std::size_t i = 0; i < mini_batches_.size(); ++i) {
    const data::ExampleRange& now = mini_batches_[i];
    const std::int64_t round = made_ + static_cast<std::int64_t>(i);
    const MutableView own = margins_.own(number, round, now.size());
    model_.part_margins(batch, now, thread.share, run_.state.parameters, *thread.scratch, own);
    const auto z = margins_.sum(number, round, now.size(), over_ranks);
    if (!z) return false;
    const bool counts = static_cast<int>(i % static_cast<std::size_t>(parts_)) == first_part_ + number;
    model_.step_on_part(batch, now, thread.share, step, *z, *thread.scratch, counts ? &thread.sums : nullptr);
    step.examples_before += now.size();
  }
  return true;
}

/// Puts the ranks' parts of θ together, on all ranks. Collective.
void DividedSteps::gather() {
  if (run_.communicator.size() == 1) return;
  parallel::meet(run_);
  const parallel::Phase phase(run_, run_.seconds.exposed_communication);
  for (const models::RowSpace& space : run_.model.in_place()->row_spaces()) {
    const auto at = [&](Index feature) { return static_cast<std::size_t>(space.offset + feature * space.stride); };
    const MutableView all = run_.state.parameters;
    std::fill(all.begin() + static_cast<std::ptrdiff_t>(at(0)),
              all.begin() + static_cast<std::ptrdiff_t>(at(bounds_.front())), 0.0F);
    std::fill(all.begin() + static_cast<std::ptrdiff_t>(at(bounds_.back())),
              all.begin() + static_cast<std::ptrdiff_t>(at(space.rows)), 0.0F);
    run_.communicator.allreduce_sum(all.subspan(at(0), at(space.rows) - at(0)));
  }
}

void FeatureParallel::train(TrainContext& run) { DividedSteps(run).train(); }

void describe_feature_parallel(StrategySettings& settings, ConfigVisitor& visitor) {
  settings.describe_threads(visitor);
}

}  // namespace

StrategyKind feature_parallel_strategy() {
  return {.name = "feature_parallel",
          .meaning =
              "for linear models: threads and ranks divide the features, and add up their shares of each mini-batch's "
              "margins",
          .describe = describe_feature_parallel,
          .make = construct<FeatureParallel>,
          .traits = {.shares_model = true, .times_threads = true, .divides_features = true},
          .relief = [](const StrategySettings&, bool) -> std::string {
            return "a larger model.mini_batch sends fewer, larger ones";
          }};
}

}  // namespace unisono::strategies
