#include "hogwild.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "step.hpp"
#include "unisono/base/counters.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/threads.hpp"
#include "unisono/kernels/in_place.hpp"

// Lock-free training by the threads of a rank (Hogwild), between ranks with periodic averaging.
//   Every thread of a rank, on the one θ that they share, without waiting for the others:
//     a model that updates in place:   takes the next examples of the step;   θ ← θ − rate · ∇ℓ_i(θ)
//     any other:                       takes steps of its own: reads θ, g ← ∇ of a mini-batch at what it read, and
//                                      adds to θ what its optimizer makes of g
//   When two threads write the same number at once, one update is lost; that is rare where examples touch few
//   parameters. `locking` makes it impossible, at a price. Ranks: every `period` steps, and at epochs' ends,
//       θ ← Σ_r n_r θ_r / Σ_r n_r        n_r: examples that rank r has seen since the last average
//   With one thread and one rank it is the serial run, bit for bit.
//   Niu, Recht, Ré & Wright, "Hogwild!", NIPS 2011. Locked, for comparison: their RR and AIG.
// Cost: inside a rank only the cache lines that move between the threads' cores; per period one barrier and one
// allreduce of 4N bytes.
namespace unisono::strategies {
namespace {

inline constexpr int kStripes = 4096;

/// Hogwild's steps of a model with gradients: one thread makes a whole step. It copies θ, computes the gradient and the
/// optimizer's update on the copy, and adds the change of the copy to the shared θ.
class WorkerSteps {
 public:
  WorkerSteps(TrainContext& run, models::RowLocks* locks)
      : run_(run), locks_(locks), team_(run.threads, "hogwild"), threads_(static_cast<std::size_t>(run.threads)) {
    for (Worker& worker : run.workers.subspan(1)) take_state(run.workers.front().optimizer, worker.optimizer);
  }

  /// Makes steps [first, last), between which nothing is averaged or reported; worker w makes every `threads`-th step,
  /// beginning with first_step + w. \return the record of the last one
  StepRecord make(std::int64_t first, std::int64_t last) {
    const parallel::ComputeScope computes(run_);
    // A single thread goes on with the sum, whose bits then do not depend on how many steps are made at a time.
    threads_.front().sums = std::exchange(run_.sums, {});
    team_.run([&](int number) {
      Thread& thread = threads_[static_cast<std::size_t>(number)];
      Worker& worker = run_.workers[static_cast<std::size_t>(number)];
      std::copy(run_.state.statistics.begin(), run_.state.statistics.end(), worker.state.statistics.begin());
      for (std::int64_t step = first; step < last; ++step) {
        if ((step - run_.first_step) % run_.threads == number) make_one(step, worker, thread);
      }
    });
    return combine(last);
  }
  Index own_examples() const { return own_examples_; }

 private:
  struct alignas(kAlignmentBytes) Thread {
    std::vector<float> before;  ///< θ as this thread read it
    kernels::LossSums sums;
    data::Batch last;
    Index examples = 0, global_examples = 0;
    models::RowLocks::Set stripe;
  };

  /// Every thread has an optimizer state of its own, which begins as a copy of the first thread's: that is the one in
  /// checkpoints.
  static void take_state(optim::Optimizer& from, optim::Optimizer& to) {
    for (std::size_t i = 0; i < to.state().size(); ++i) {
      const View values = from.state()[i].values.view();
      std::copy(values.begin(), values.end(), to.state()[i].values.data());
    }
    to.set_steps(from.steps());
  }

  void make_one(std::int64_t step, Worker& worker, Thread& thread) {
    read_parameters(worker, thread);
    for (kernels::Write write = kernels::Write::overwrite;; write = kernels::Write::add) {
      thread.last = worker.source.next();
      const float scale = 1.0F / static_cast<float>(std::max<Index>(1, thread.last.rank_step_size));
      worker.model.loss_and_gradient(thread.last, scale, worker.state,
                                     {worker.gradient, write, {}, thread.last.last_of_step}, thread.sums);
      if (thread.last.last_of_step) break;
    }
    thread.examples += thread.last.rank_step_size;
    thread.global_examples += thread.last.global_size;
    if (thread.last.rank_step_size == 0) return;
    worker.optimizer.step(worker.state.parameters, worker.gradient, run_.schedule.rate(step));
    add_changes(worker, thread);
  }

  /// Calls visit(first, floats) for the stripes of θ, holding the stripe's lock where locking is on.
  template <typename Visit>
  void for_each_stripe(Thread& thread, Visit visit) {
    const auto size = static_cast<Index>(run_.state.parameters.size());
    const Index floats = locks_ == nullptr ? size : (size + kStripes - 1) / kStripes;
    for (Index first = 0, stripe = 0; first < size; first += floats, ++stripe) {
      if (locks_ == nullptr) {
        visit(first, size);
        continue;
      }
      thread.stripe.clear();
      thread.stripe.add(*locks_, 0, stripe);
      const auto guard = locks_->lock(thread.stripe);
      visit(first, std::min(floats, size - first));
    }
  }

  void read_parameters(Worker& worker, Thread& thread) {
    for_each_stripe(thread, [&](Index first, Index floats) {
      kernels::read_shared(run_.state.parameters.data() + first, worker.state.parameters.data() + first, floats);
    });
    thread.before.assign(worker.state.parameters.begin(), worker.state.parameters.end());
  }

  void add_changes(Worker& worker, Thread& thread) {
    for_each_stripe(thread, [&](Index first, Index floats) {
      kernels::add_to_shared(thread.before.data() + first, worker.state.parameters.data() + first,
                             run_.state.parameters.data() + first, floats);
    });
  }

  /// Adds up the threads' losses and averages their running statistics.
  StepRecord combine(std::int64_t made) {
    const auto& statistics = run_.state.statistics;
    std::vector<double> sums(statistics.size());
    Index examples = 0, global_examples = 0;
    for (std::size_t i = 0; i < threads_.size(); ++i) {
      Thread& thread = threads_[i];
      run_.sums += std::exchange(thread.sums, {});
      for (std::size_t k = 0; k < sums.size(); ++k) {
        sums[k] += static_cast<double>(thread.examples) * static_cast<double>(run_.workers[i].state.statistics[k]);
      }
      examples += std::exchange(thread.examples, 0);
      global_examples += std::exchange(thread.global_examples, 0);
    }
    for (std::size_t k = 0; examples > 0 && k < sums.size(); ++k) {
      statistics[k] = static_cast<float>(sums[k] / static_cast<double>(examples));
    }
    own_examples_ = examples;
    const auto last = static_cast<std::size_t>((made - 1 - run_.first_step) % run_.threads);
    StepRecord record = make_record(threads_[last].last, made, run_.schedule.rate(made - 1), /*consistent=*/true);
    record.global_size = global_examples;
    return record;
  }

  TrainContext& run_;
  models::RowLocks* locks_;
  ThreadTeam team_;
  std::vector<Thread> threads_;
  Index own_examples_ = 0;
};

inline constexpr std::int64_t kWatchedSteps = 64;  // one in-place step out of so many is sampled by ConflictMeter

/// Rows of θ that threads touched, in the steps that ConflictMeter sampled.
struct ConflictCounters {
  std::int64_t touched = 0, conflicts = 0;  ///< conflicts: that were also in use by another thread

  void describe(CounterVisitor& visitor) {
    visitor.count({.name = "touched_rows", .hidden = true}, touched);
    visitor.count({.name = "row_conflicts", .hidden = true}, conflicts);
    visitor.figure({.name = "row_conflict_rate"}, rate());
  }
  std::string text(const CounterTerms&) const {
    if (touched == 0) return "";
    return fmt::format(
        "  conflicts   {:.3g} % of the rows that examples touched were also in use by another thread (in sampled "
        "steps)\n",
        100 * rate());
  }
  /// NaN where no step was sampled.
  double rate() const {
    return touched == 0 ? std::numeric_limits<double>::quiet_NaN()
                        : static_cast<double>(conflicts) / static_cast<double>(touched);
  }
};

/// Hogwild's steps of a model that is updated in place: the threads divide the examples of each step.
class InPlaceSteps {
 public:
  InPlaceSteps(TrainContext& run, models::RowLocks* locks, ParameterAverage& parameters)
      : run_(run),
        locks_(locks),
        parameters_(parameters),
        team_(run.threads, "hogwild"),
        threads_(static_cast<std::size_t>(run.threads)) {
    run.counters.of<ConflictCounters>() = {};
    if (run.threads > 1) meter_.emplace(run.model.in_place()->row_spaces(), run.threads);
    for (Thread& thread : threads_) thread.scratch = run.model.in_place()->make_scratch();
  }

  StepRecord make(std::int64_t step) {
    const double rate = run_.schedule.rate(step);
    const data::Batch batch = parallel::next_batch(run_);
    train_on(batch, rate, meter_ && step % kWatchedSteps == 0 ? &*meter_ : nullptr);
    return make_record(batch, step + 1, rate, /*consistent=*/true);
  }
  Index own_examples() const { return own_examples_; }

 private:
  struct alignas(kAlignmentBytes) Thread {
    std::unique_ptr<models::Scratch> scratch;
    kernels::LossSums sums;
  };

  void train_on(const data::Batch& batch, double rate, models::ConflictMeter* meter) {
    std::int64_t before = own_examples_before(run_, batch, run_.communicator.size());
    const int parts = parameters_.begin_step(batch.global_size);
    for (int part = 0; part < parts; ++part) {
      before += train_on(batch, pieces_of(batch, part, parts), before, rate, meter);
      if (part + 1 < parts) parameters_.merge_after_part(part);
    }
    for (Thread& thread : threads_) run_.sums += std::exchange(thread.sums, {});
    own_examples_ = batch.rank_step_size;
    if (meter == nullptr) return;
    run_.counters.of<ConflictCounters>() = {.touched = meter->touched(), .conflicts = meter->conflicts()};
  }

  /// \param examples_before examples that θ was trained on before these pieces \return how many examples these have
  std::int64_t train_on(const data::Batch& batch, const std::vector<data::ExampleRange>& pieces,
                        std::int64_t examples_before, double rate, models::ConflictMeter* meter) {
    const parallel::ComputeScope computes(run_);
    std::vector<std::int64_t> before = {examples_before};
    for (const data::ExampleRange& piece : pieces) before.push_back(before.back() + piece.size());
    std::atomic<std::size_t> next{0};
    team_.run([&](int number) {
      Thread& thread = threads_[static_cast<std::size_t>(number)];
      for (std::size_t i = next++; i < pieces.size(); i = next++) {
        const models::InPlaceStep step{.rate = rate,
                                       .examples_before = before[i],
                                       .parameters = run_.state.parameters,
                                       .locks = locks_,
                                       .touched = parameters_.touched(),
                                       .meter = meter,
                                       .thread = number,
                                       .alone = run_.threads == 1};
        run_.model.in_place()->update_in_place(batch, pieces[i], step, *thread.scratch, thread.sums);
      }
    });
    return before.back() - examples_before;
  }

  TrainContext& run_;
  models::RowLocks* locks_;
  ParameterAverage& parameters_;
  std::optional<models::ConflictMeter> meter_;  ///< only with several threads
  ThreadTeam team_;
  std::vector<Thread> threads_;
  Index own_examples_ = 0;
};

constexpr Named<Locking> kLockings[] = {
    {Locking::none, "none", "nothing (lock-free); some updates may be lost"},
    {Locking::striped, "striped", "the rows that the example touches, with 4096 locks; no update is lost"},
    {Locking::global, "global", "all parameters, with a single lock"}};

class Hogwild final : public Strategy {
 public:
  Hogwild(const HogwildSettings& settings, std::int64_t threads) : settings_(settings), threads_(threads) {
    if (settings.locking != Locking::none) locks_.emplace(settings.locking == Locking::global ? 1 : kStripes);
  }

  void require(const models::Model& model, int ranks) const override;
  void train(TrainContext& run) override;
  bool has_workers(const models::Model& model) const override { return model.in_place() == nullptr; }
  std::int64_t extra_bytes(const models::Model& model, int ranks, int) const override {
    return ParameterAverage::bytes(model, settings_.merge, ranks) + meter_bytes(model) + read_bytes(model);
  }
  std::optional<Traffic> traffic(const models::Model& model, int ranks, int states,
                                 const data::DatasetInfo&) const override;

 private:
  /// θ as each thread read it, where threads make steps of their own.
  std::int64_t read_bytes(const models::Model& model) const {
    if (!has_workers(model)) return 0;
    return static_cast<std::int64_t>(sizeof(float)) * model.layout().size() * std::max<std::int64_t>(1, threads_);
  }
  /// Of the meter of conflicts: 8 bytes a row, where several threads update it in place.
  std::int64_t meter_bytes(const models::Model& model) const {
    if (threads_ == 1 || model.in_place() == nullptr) return 0;
    std::int64_t bytes = 0;
    for (const models::RowSpace& space : model.in_place()->row_spaces())
      bytes += space.rows * std::int64_t{sizeof(std::uint64_t)};
    return bytes;
  }
  models::RowLocks* locks() { return locks_ ? &*locks_ : nullptr; }
  bool averages_after(const TrainContext& run, std::int64_t steps) const;
  std::int64_t next_meeting(const TrainContext& run, std::int64_t step) const;
  template <typename Steps, typename Make>
  void train_by(TrainContext& run, ParameterAverage& parameters, const Steps& steps, Make make) const;

  HogwildSettings settings_;
  std::int64_t threads_;  ///< 0: as many as the rank may use
  std::optional<models::RowLocks> locks_;
};

void Hogwild::require(const models::Model& model, int) const {
  const bool may_lose = settings_.locking == Locking::none && threads_ != 1;
  if (!may_lose || model.in_place() == nullptr || !model.in_place()->needs_every_update()) return;
  throw UnfitStrategy(
      "model.averaged: the mean of the weights needs every update, but lock-free threads lose some; set "
      "strategy.locking = \"striped\" or strategy.threads = 1");
}

/// Of a thread on one rank, without locks: it copies θ twice, and adds to it how the first copy differs from the
/// second.
std::optional<Traffic> Hogwild::traffic(const models::Model& model, int ranks, int, const data::DatasetInfo&) const {
  if (ranks > 1 || model.in_place() != nullptr || locks_) return {};
  Traffic traffic;
  traffic.touched_floats = 8 * static_cast<double>(model.layout().size());
  return traffic;
}

bool Hogwild::averages_after(const TrainContext& run, std::int64_t steps) const {
  return run.communicator.size() > 1 &&
         (steps % settings_.period == 0 || steps % run.source.steps_per_epoch() == 0 || steps == run.total_steps);
}

/// The step up to which the threads may go on without a synchronisation.
std::int64_t Hogwild::next_meeting(const TrainContext& run, std::int64_t step) const {
  const auto multiple_after = [&](std::int64_t every) { return (step / every + 1) * every; };
  std::int64_t last =
      std::min({run.total_steps, multiple_after(run.source.steps_per_epoch()), run.observer.next_due(step)});
  if (run.communicator.size() > 1) last = std::min(last, multiple_after(settings_.period));
  return last;
}

void Hogwild::train(TrainContext& run) {
  ParameterAverage parameters(run, settings_.merge);
  if (run.model.in_place() != nullptr) {
    InPlaceSteps steps(run, locks(), parameters);
    train_by(run, parameters, steps, [&](std::int64_t step) { return steps.make(step); });
  } else {
    WorkerSteps steps(run, locks());
    train_by(run, parameters, steps, [&](std::int64_t step) { return steps.make(step, next_meeting(run, step)); });
  }
}

template <typename Steps, typename Make>
void Hogwild::train_by(TrainContext& run, ParameterAverage& parameters, const Steps& steps, Make make) const {
  Index seen = 0;  // examples since the last average
  bool go_on = true;
  for (std::int64_t made = run.first_step; go_on && made < run.total_steps;) {
    StepRecord record = make(made);
    made = record.step;
    seen += steps.own_examples();
    const bool averages = averages_after(run, made);
    if (averages) {
      parallel::meet(run);
      const Index examples = std::exchange(seen, 0);
      parallel::average_local_statistics(run, examples);
      parameters.average(static_cast<double>(examples));
    } else {
      parameters.merge_after_step();
    }
    record.consistent = averages || run.communicator.size() == 1;
    go_on = run.observer.step(record) || !record.consistent;
  }
}

void describe_hogwild(StrategySettings& settings, ConfigVisitor& visitor) {
  auto& own = settings.own.of<HogwildSettings>();
  settings.describe_threads(visitor);
  visitor.choice({.name = "locking", .meaning = "what a thread locks during an update"}, own.locking, kLockings);
  visitor.field(
      {.name = "period",
       .meaning =
           "with several ranks: steps between two averages; parameters are also averaged at the end of every epoch",
       .unit = "steps",
       .range = at_least(1)},
      own.period);
  own.merge.describe(visitor);
}

std::unique_ptr<Strategy> make_hogwild(const StrategySettings& settings) {
  return std::make_unique<Hogwild>(settings.own.of<HogwildSettings>(), settings.threads);
}

}  // namespace

StrategyKind hogwild_strategy() {
  return {
      .name = "hogwild",
      .meaning =
          "lock-free: threads of a rank train on the same parameters without waiting for each other; ranks average at "
          "intervals",
      .describe = describe_hogwild,
      .make = make_hogwild,
      .traits = {.shares_model = true, .times_threads = true},
      .relief = relief_of_averages};
}

}  // namespace unisono::strategies
