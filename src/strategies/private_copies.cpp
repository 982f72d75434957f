// Threads that each train on a copy of θ of their own, which are merged every few hundred examples.
//   Each thread t of T, on its copy θ_t:   takes the next K examples;   θ_t ← θ_t − rate · ∇ℓ_i(θ_t) for each of them
//   then, with all others:                 θ ← θ + a Σ_t (θ_t − θ),   θ_t ← θ         a = 1 (sum) or 1/T (mean)
//   No cache line is written by two threads, so that small models, whose few lines Hogwild's threads take from each
//   other with every example, gain from threads. The sum moves θ as far as one thread would with all examples, which is
//   right while the changes are small; parameters that belong to no row, which all examples change, take the mean. The
//   same threads give the same bits in every run; one thread is the serial run. Zhang & Ré, "DimmWitted", VLDB 2014 (a
//   replica for each core); Zinkevich et al., NIPS 2010, for the mean.
// Cost per K examples of each thread: a wait of 0.1 to 0.2 µs, and 4N bytes read from each other thread's cache.
#include <algorithm>
#include <optional>
#include <utility>

#include "step.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/tensor/allocator.hpp"

namespace unisono::strategies {
namespace {

enum class CopyMerge { sum, mean };

constexpr Named<CopyMerge> kCopyMerges[] = {
    {CopyMerge::sum, "sum", "the changes of all copies are added, as if one thread had made them all"},
    {CopyMerge::mean, "mean", "the mean of the copies"}};

struct PrivateCopiesSettings {
  CopyMerge merge = CopyMerge::mean;
  std::int64_t merge_every = 1024;
};

class PrivateCopies final : public Strategy {
 public:
  explicit PrivateCopies(const PrivateCopiesSettings& settings, std::int64_t threads)
      : settings_(settings), threads_(threads) {}
  void require(const models::Model& model, int ranks) const override;
  void train(TrainContext& run) override;
  std::int64_t extra_bytes(const models::Model& model, int, int) const override {
    return threads_ * 3 * static_cast<std::int64_t>(sizeof(float)) * model.layout().size();
  }

 private:
  PrivateCopiesSettings settings_;
  std::int64_t threads_;  ///< 0: as many as the rank may use
};

void PrivateCopies::require(const models::Model& model, int ranks) const {
  if (model.in_place() == nullptr) {
    throw UnfitStrategy(
        "strategy.kind = \"private_copies\" trains models that are updated in place: linear, factorization, word2vec, "
        "glove");
  }
  if (ranks == 1) return;
  throw UnfitStrategy("strategy.kind = \"private_copies\" runs on the threads of one rank: start it without mpirun");
}

/// The threads' copies, and the steps on them.
class CopiedSteps {
 public:
  CopiedSteps(TrainContext& run, const PrivateCopiesSettings& settings)
      : run_(run),
        settings_(settings),
        rounds_(run.threads),
        threads_(static_cast<std::size_t>(run.threads)),
        team_(
            run.threads, "private_copies", [this](int number) { return train_on_batch(number); },
            [this] { rounds_.fail(); }) {
    for (Thread& thread : threads_) {
      thread.scratch = run.model.in_place()->make_scratch();
      if (threads_.size() == 1) break;
      thread.base.assign(run.state.parameters.begin(), run.state.parameters.end());
      for (int place = 0; place < 2; ++place) {
        thread.copies.emplace_back(std::ssize(thread.base));
        std::copy(thread.base.begin(), thread.base.end(), thread.copies.back().data());
      }
    }
    find_shares();
  }

  /// All steps of the run, with its reports.
  void train();

 private:
  struct alignas(2 * kAlignmentBytes) Thread {
    std::unique_ptr<models::Scratch> scratch;
    kernels::LossSums sums;
    std::vector<Buffer> copies;  ///< two of θ; the others read one while it writes the other. One thread has none
    std::vector<float> base;     ///< θ after the last merge, with the same bits on every thread
  };
  /// Floats of θ that are merged alike.
  struct Share {
    std::size_t first, last;
    float factor;  ///< of the sum of their changes
  };

  void find_shares();
  void lead();
  std::optional<StepRecord> make(std::int64_t step);
  bool train_on_batch(int number);
  void merge(Thread& own, std::size_t place);

  TrainContext& run_;
  PrivateCopiesSettings settings_;
  ThreadRounds rounds_;
  std::vector<Thread> threads_;
  StepTeam team_;
  std::vector<Share> shares_;
  std::optional<data::Batch> batch_;  ///< of the present step
  double rate_ = 0;
  std::int64_t made_ = 0;  ///< rounds of earlier steps
  int rounds_of_step_ = 0;
};

/// Rows are merged as the config says, all else by the mean.
void CopiedSteps::find_shares() {
  const auto size = run_.state.parameters.size();
  const float mean = 1 / static_cast<float>(threads_.size());
  std::size_t at = 0;
  for (const models::RowSpace& rows : run_.model.in_place()->row_spaces()) {
    if (settings_.merge == CopyMerge::mean) break;
    const auto first = static_cast<std::size_t>(rows.offset);
    shares_.push_back({at, first, mean});
    at = first + static_cast<std::size_t>(rows.rows * rows.stride);
    shares_.push_back({first, at, 1});
  }
  shares_.push_back({at, size, mean});
}

void CopiedSteps::train() {
  team_.run([this] { lead(); });
}

void CopiedSteps::lead() {
  bool go_on = true;
  for (std::int64_t step = run_.first_step; go_on && step < run_.total_steps; ++step) {
    const std::optional<StepRecord> record = make(step);
    if (!record) return;
    go_on = run_.observer.step(*record);
  }
}

/// \return none where another thread failed, whose exception ends the run
std::optional<StepRecord> CopiedSteps::make(std::int64_t step) {
  rate_ = run_.schedule.rate(step);
  batch_ = parallel::next_batch(run_);
  const Index at_once = settings_.merge_every * run_.threads;
  const Index rounds = run_.threads == 1 ? 1 : (batch_->size + at_once - 1) / at_once;
  rounds_of_step_ = static_cast<int>(std::max<Index>(1, rounds));
  {
    const parallel::ComputeScope computes(run_);
    if (!team_.step()) return {};
  }
  made_ += rounds_of_step_;
  const std::vector<float>& merged = threads_.front().base;
  std::copy(merged.begin(), merged.end(), run_.state.parameters.begin());  // of one thread nothing
  for (Thread& thread : threads_) run_.sums += std::exchange(thread.sums, {});
  return make_record(*batch_, step + 1, rate_, /*consistent=*/true);
}

bool CopiedSteps::train_on_batch(int number) {
  Thread& own = threads_[static_cast<std::size_t>(number)];
  const data::Batch& batch = *batch_;
  models::InPlaceStep step{
      .rate = rate_, .examples_before = own_examples_before(run_, batch, run_.threads), .parameters = {}};
  for (int round = 0; round < rounds_of_step_; ++round) {
    const std::int64_t made = made_ + round + 1;
    const auto place = static_cast<std::size_t>(made % 2);
    step.parameters = threads_.size() == 1 ? run_.state.parameters : own.copies[place].view();
    for (const data::ExampleRange& piece :
         pieces_of(batch, round * run_.threads + number, rounds_of_step_ * run_.threads)) {
      run_.model.in_place()->update_in_place(batch, piece, step, *own.scratch, own.sums);
      step.examples_before += piece.size();
    }
    if (threads_.size() == 1) return true;
    rounds_.finish(number, made);
    if (!rounds_.wait_for_all(made)) return false;
    merge(own, place);
  }
  return true;
}

/// θ ← θ + a Σ_t (θ_t − θ), of the copies at this place, into the thread's own base and its copy at the other place.
/// Block by block, so that the sums stay in the first cache.
void CopiedSteps::merge(Thread& own, std::size_t place) {
  constexpr std::size_t kBlock = 512;
  float* const base = own.base.data();
  float* const next = own.copies[1 - place].data();
  for (const Share& share : shares_) {
    for (std::size_t first = share.first; first < share.last; first += kBlock) {
      const std::size_t last = std::min(first + kBlock, share.last);
      float changes[kBlock] = {};
      for (Thread& other : threads_) {
        const float* const copy = other.copies[place].data();
        for (std::size_t i = first; i < last; ++i) changes[i - first] += copy[i] - base[i];
      }
      for (std::size_t i = first; i < last; ++i) base[i] = next[i] = base[i] + share.factor * changes[i - first];
    }
  }
}

void PrivateCopies::train(TrainContext& run) { CopiedSteps(run, settings_).train(); }

void describe_private_copies(StrategySettings& settings, ConfigVisitor& visitor) {
  auto& own = settings.own.of<PrivateCopiesSettings>();
  settings.describe_threads(visitor);
  visitor.choice({.name = "merge", .meaning = "what the threads' copies become"}, own.merge, kCopyMerges);
  visitor.field({.name = "merge_every",
                 .meaning = "examples of each thread between two merges; the end of a step is one, too",
                 .unit = "examples",
                 .range = at_least(1)},
                own.merge_every);
}

std::unique_ptr<Strategy> make_private_copies(const StrategySettings& settings) {
  return std::make_unique<PrivateCopies>(settings.own.of<PrivateCopiesSettings>(), settings.threads);
}

}  // namespace

StrategyKind private_copies_strategy() {
  return {.name = "private_copies",
          .meaning = "threads of a rank train on copies of their own, which are merged every few hundred examples",
          .describe = describe_private_copies,
          .make = make_private_copies,
          .traits = {.shares_model = true, .times_threads = true},
          .relief = [](const StrategySettings&, bool) -> std::string {
            return "with a larger merge_every, threads wait less often";
          }};
}

}  // namespace unisono::strategies
