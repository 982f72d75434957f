#include "batch/alternating.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

#include "batch/divided_function.hpp"
#include "step.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/threads.hpp"
#include "unisono/comm/gather.hpp"
#include "unisono/optim/catalog.hpp"
#include "unisono/tensor/exact_sum.hpp"

// Alternating least squares, for models whose objective is quadratic in each of two tables while the other is fixed:
//     for each user u:  θ_u ← argmin J(θ_u; items)        then all ranks get all users
//     for each item i:  θ_i ← argmin J(θ_i; users)        then all ranks get all items
//   The rows of a table do not depend on each other, and a rank solves those whose ratings it holds, on all its
//   threads. The rows are cut into portions of about equal work, n K² + K³ / 3 flops for a row with n ratings; each row
//   is solved by one thread in a fixed order, Gram matrices are added up in fixed blocks, and sums of losses are exact:
//   the result is the same, bit for bit, on any number of ranks and threads. Zhou, Wilkinson, Schreiber & Pan, AAIM
//   2008; Hu, Koren & Volinsky, ICDM 2008.
// Cost of an iteration: 2 · ratings · K² + (users + items) · K³ / 3 flops over all ranks; a rank receives the rows of
// all others, 4 · (users + items) · stride bytes. A rank holds all of θ, and its users' and its items' ratings, 8 bytes
// each.
namespace unisono::strategies {
namespace {

constexpr int kTag = 84;
constexpr Index kMostBlocks = 64, kRowsOfBlock = 256;  ///< of a Gram matrix: at most, and at least

/// A table, how it is divided, and this rank's rows of it.
struct Table {
  models::RowSpace rows;
  TablePortions portions;
  TableRatings ratings;
  std::vector<float> gram;  ///< Σ x xᵀ over all its rows; empty where the model has no use for it

  Table(const TrainContext& run, std::size_t space, std::span<const double> work, std::span<const std::int64_t> counts,
        data::Dataset& data);
};

Table::Table(const TrainContext& run, std::size_t space, std::span<const double> work,
             std::span<const std::int64_t> counts, data::Dataset& data)
    : rows(run.model.in_place()->row_spaces()[space]),
      portions(work),
      ratings(space, portions.rows_of_rank(run.communicator.rank(), run.communicator.size()), counts,
              run.model.in_place()->row_spaces()[1 - space].rows, data),
      gram(static_cast<std::size_t>(run.model.alternating()->gram_floats())) {}

class Iterations {
 public:
  Iterations(TrainContext& run, data::Dataset& data);
  /// \return J after it
  double make();
  /// J as it is now.
  double objective();

 private:
  struct alignas(kAlignmentBytes) Thread {
    std::unique_ptr<models::Scratch> scratch;
    kernels::LossSums sums;
    ExactSquares objective;
  };

  std::unique_ptr<Table> make_table(std::size_t space, data::Dataset& data);
  void require_preferences();
  void pass(std::size_t space, bool solves);
  void visit(Thread& thread, std::size_t space, Numbers rows, bool solves);
  void share(const Table& table);
  void add_gram(std::size_t space);
  void add_blocks(std::size_t space, Index blocks, Buffer& sums);
  double total();

  TrainContext& run_;
  const models::Alternating& model_;
  ThreadTeam team_;
  std::vector<Thread> threads_;
  std::array<std::unique_ptr<Table>, 2> tables_;
};

Iterations::Iterations(TrainContext& run, data::Dataset& data)
    : run_(run),
      model_(*run.model.alternating()),
      team_(run.threads, "alternating least squares"),
      threads_(static_cast<std::size_t>(run.threads)) {
  const parallel::Phase phase(run, run.seconds.input);
  for (Thread& thread : threads_) thread.scratch = model_.make_solver();
  for (std::size_t space = 0; space < 2; ++space) tables_[space] = make_table(space, data);
  if (model_.adds_up_ratings()) require_preferences();
  add_gram(1);
}

std::unique_ptr<Table> Iterations::make_table(std::size_t space, data::Dataset& data) {
  const std::span<const std::int64_t> all = data.occurrences();
  const auto users = static_cast<std::size_t>(data.info().rows);
  const auto counts = space == 0 ? all.first(users) : all.subspan(users);
  std::vector<double> work;
  for (const std::int64_t n : counts) work.push_back(model_.solving_flops(n));
  return std::make_unique<Table>(run_, space, work, counts, data);
}

void Iterations::require_preferences() {
  for (const auto& table : tables_) table->ratings.add_up();
  if (run_.communicator.max(tables_[0]->ratings.has_positive() ? 1 : 0) > 0) return;
  throw DataError(
      "model.feedback = \"implicit\": no rating is above 0, so there is no preference to learn; check the ratings, or "
      "set it to \"explicit\"");
}

/// Solves this rank's rows of a table, or only measures them. Ratings are measured with the items.
void Iterations::pass(std::size_t space, bool solves) {
  const TablePortions& portions = tables_[space]->portions;
  const parallel::ComputeScope computes(
      run_, solves ? portions.work_of_rank(run_.communicator.rank(), run_.communicator.size()) : 0);
  const Numbers own = portions.of_rank(run_.communicator.rank(), run_.communicator.size());
  std::atomic<Index> next{own.first};
  team_.run([&](int number) {
    Thread& thread = threads_[static_cast<std::size_t>(number)];
    for (Index i = next++; i < own.last; i = next++) visit(thread, space, portions.rows(i), solves);
  });
}

void Iterations::visit(Thread& thread, std::size_t space, Numbers rows, bool solves) {
  const MutableView theta = run_.state.parameters;
  kernels::LossSums sums;
  double objective = 0;
  for (Index number = rows.first; number < rows.last; ++number) {
    const models::RatedRow row = tables_[space]->ratings.row(number);
    if (solves) model_.solve(row, tables_[1 - space]->gram, theta, *thread.scratch);
    objective += model_.row_penalty(row, theta);
    if (space == 1) objective += model_.add_losses(row, theta, *thread.scratch, sums);
  }
  thread.objective.add_sum(objective);
  sums.settle();
  thread.sums += sums;
}

/// Every rank gets all rows of a table: they go round a ring of ranks.
void Iterations::share(const Table& table) {
  comm::Communicator& ranks = run_.communicator;
  const int size = ranks.size(), next = (ranks.rank() + 1) % size, previous = (ranks.rank() + size - 1) % size;
  const auto rows_of = [&](int steps) {
    const Numbers rows = table.portions.rows_of_rank((ranks.rank() + 2 * size - steps) % size, size);
    return std::as_writable_bytes(
        run_.state.parameters.subspan(static_cast<std::size_t>(table.rows.offset + rows.first * table.rows.stride),
                                      static_cast<std::size_t>(rows.count() * table.rows.stride)));
  };
  if (size == 1) return;
  parallel::meet(run_);
  const parallel::Phase phase(run_, run_.seconds.exposed_communication);
  for (int step = 0; step + 1 < size; ++step) {
    const auto received = ranks.start_receive(rows_of(step + 1), previous, kTag);
    const auto sent = ranks.start_send(rows_of(step), next, kTag);
    received->wait();
    sent->wait();
    run_.counters.of<PassedCounters>().bytes += std::ssize(rows_of(step));
  }
}

/// Adds up this rank's blocks of rows.
void Iterations::add_blocks(std::size_t space, Index blocks, Buffer& sums) {
  const parallel::ComputeScope computes(run_);
  const comm::Slice own = comm::slice_of(blocks, run_.communicator.rank(), run_.communicator.size());
  const Index size = model_.gram_floats();
  std::atomic<Index> next{own.first};
  team_.run([&](int) {
    for (Index block = next++; block < own.last; block = next++) {
      const comm::Slice rows =
          comm::slice_of(tables_[space]->rows.rows, static_cast<int>(block), static_cast<int>(blocks));
      model_.add_gram(space, rows.first, rows.last, run_.state.parameters,
                      sums.view().subspan(static_cast<std::size_t>(block * size), static_cast<std::size_t>(size)));
    }
  });
}

/// A table's Gram matrix: sums of fixed blocks of rows, added up in their order.
void Iterations::add_gram(std::size_t space) {
  Table& table = *tables_[space];
  if (table.gram.empty()) return;
  const Index blocks = std::clamp<Index>(table.rows.rows / kRowsOfBlock, 1, kMostBlocks), size = std::ssize(table.gram);
  Buffer sums(blocks * size);
  add_blocks(space, blocks, sums);
  if (run_.communicator.size() > 1) {
    const parallel::Phase phase(run_, run_.seconds.exposed_communication);
    run_.communicator.allreduce_sum(sums.view());  // of one number and zeros each: exact
  }
  for (Index i = 0; i < size; ++i) {
    double sum = 0;
    for (Index block = 0; block < blocks; ++block) sum += static_cast<double>(sums.data()[block * size + i]);
    table.gram[static_cast<std::size_t>(i)] = static_cast<float>(sum);
  }
}

double Iterations::make() {
  for (std::size_t space = 0; space < 2; ++space) {
    pass(space, /*solves=*/true);
    share(*tables_[space]);
    add_gram(space);
  }
  for (Thread& thread : threads_) run_.sums += std::exchange(thread.sums, {});
  return total();
}

double Iterations::objective() {
  add_gram(0);
  for (std::size_t space = 0; space < 2; ++space) pass(space, /*solves=*/false);
  for (Thread& thread : threads_) thread.sums = {};
  return total();
}

/// J over all ranks, from what the passes added up.
double Iterations::total() {
  ExactSquares sum;
  for (Thread& thread : threads_) sum.add(std::exchange(thread.objective, {}));
  {
    const parallel::Phase phase(run_, run_.seconds.exposed_communication);
    comm::CommunicatorSquares(run_.communicator).sum({&sum, 1});
  }
  return sum.value() + model_.shared_loss(tables_[0]->gram, tables_[1]->gram);
}

optim::BatchEnd end_of(double before, double now, double tolerance) {
  if (!std::isfinite(now)) return optim::BatchEnd::not_finite;
  const bool converged = tolerance > 0 && std::abs(before - now) <= tolerance * std::abs(now);
  return converged ? optim::BatchEnd::function : optim::BatchEnd::none;
}

}  // namespace

void require_alternating(const models::Model& model) {
  if (model.alternating() != nullptr) return;
  throw ConfigError(
      "optimizer.kind = \"als\" trains models of two tables, of users and items: model.kind = \"factorization\"");
}

std::int64_t alternating_bytes(const models::Alternating& model, int ranks) {
  constexpr std::int64_t kRating = 2 * 8 + 12 + 8;  // in both tables; while one is made, a copy and its order
  return kRating * model.training_ratings() / ranks + 4 * (kMostBlocks + 2) * model.gram_floats();
}

void train_alternating(TrainContext& run) {
  require_alternating(run.model);
  Iterations iterations(run, *run.data);
  const double tolerance = run.optimizer_settings.own.of<optim::AlsSettings>().function_tolerance;
  const std::int64_t ratings = run.data->info().train;
  double before = run.first_step > 0 ? iterations.objective() : INFINITY;
  bool go_on = true;
  for (std::int64_t step = run.first_step; go_on && step < run.total_steps; ++step) {
    const double now = iterations.make();
    const optim::BatchEnd end = end_of(std::exchange(before, now), now, tolerance);
    auto& counters = run.counters.of<BatchCounters>();
    ++counters.passes;
    ++counters.evaluations;
    go_on = run.observer.step({.step = step + 1,
                               .epoch = step,
                               .last_of_epoch = true,
                               .global_size = ratings,
                               .iteration = optim::BatchIteration{.value = now / static_cast<double>(ratings),
                                                                  .gradient_magnitude = -1,
                                                                  .step_length = -1,
                                                                  .evaluations = 1,
                                                                  .end = end,
                                                                  .passes = counters.passes}});
    go_on &= end == optim::BatchEnd::none;
  }
}

TablePortions::TablePortions(std::span<const double> work) {
  const double enough = std::accumulate(work.begin(), work.end(), 0.0) / static_cast<double>(kPortions);
  double portion = 0;
  for (std::size_t row = 0; row < work.size(); ++row) {
    portion += work[row];
    if (portion < enough && row + 1 < work.size()) continue;
    first_rows_.push_back(static_cast<Index>(row) + 1);
    work_.push_back(work_.back() + portion);
    portion = 0;
  }
}

/// A rank gets the portions that begin in its share of the work.
Numbers TablePortions::of_rank(int rank, int ranks) const {
  const auto begin_of = [&](int r) {
    if (r == ranks) return size();
    const double before = work_.back() * r / ranks;
    return static_cast<Index>(std::lower_bound(work_.begin(), work_.end() - 1, before) - work_.begin());
  };
  return {begin_of(rank), begin_of(rank + 1)};
}

Numbers TablePortions::rows_of_rank(int rank, int ranks) const {
  const Numbers portions = of_rank(rank, ranks);
  return {first_rows_[at(portions.first)], first_rows_[at(portions.last)]};
}

double TablePortions::work_of_rank(int rank, int ranks) const {
  const Numbers portions = of_rank(rank, ranks);
  return work_[at(portions.last)] - work_[at(portions.first)];
}

TableRatings::TableRatings(std::size_t space, Numbers rows, std::span<const std::int64_t> counts, Index others,
                           data::Dataset& data)
    : space_(space), rows_(rows) {
  for (Index row = rows.first; row < rows.last; ++row) {
    offsets_.push_back(offsets_.back() + static_cast<std::size_t>(counts[static_cast<std::size_t>(row)]));
  }
  others_.resize(offsets_.back());
  values_.resize(offsets_.back());
  // Sorted by the other table's row, then dealt out to the rows: each row's are then in that order.
  const std::vector<SparseEntry> ratings = own_ratings(data);
  std::vector<std::size_t> next(static_cast<std::size_t>(others) + 1);
  for (const SparseEntry& rating : ratings) ++next[other_of(rating) + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  std::vector<std::size_t> order(ratings.size());
  for (std::size_t i = 0; i < ratings.size(); ++i) order[next[other_of(ratings[i])]++] = i;
  next.assign(offsets_.begin(), offsets_.end());
  for (const std::size_t i : order) {
    const std::size_t place = next[static_cast<std::size_t>(row_of(ratings[i]) - rows_.first)]++;
    others_[place] = other_of(ratings[i]);
    values_[place] = ratings[i].value;
  }
}

void TableRatings::add_up() {
  std::size_t kept = 0, first = 0;
  for (std::size_t row = 0; row + 1 < offsets_.size(); ++row) {
    const std::size_t begin = kept, last = offsets_[row + 1];
    for (std::size_t i = first; i < last; ++i) {
      if (kept > begin && others_[kept - 1] == others_[i]) {
        values_[kept - 1] += values_[i];
        continue;
      }
      others_[kept] = others_[i];
      values_[kept++] = values_[i];
    }
    first = last;
    offsets_[row + 1] = kept;
  }
  others_.resize(kept);
  values_.resize(kept);
}

bool TableRatings::has_positive() const {
  return std::ranges::any_of(values_, [](float value) { return value > 0; });
}

std::vector<SparseEntry> TableRatings::own_ratings(data::Dataset& data) const {
  constexpr Index kAtATime = Index{1} << 20;
  std::vector<SparseEntry> own;
  own.reserve(offsets_.back());
  const auto source = data.training_part(0, 1, kAtATime, {});
  while (const auto batch = source->next()) {
    const auto entries = std::get<data::SparseEntries>(*batch->set);
    for (const data::ExampleRange& range : batch->ranges) {
      for (const SparseEntry& one :
           entries.subspan(static_cast<std::size_t>(range.first), static_cast<std::size_t>(range.size()))) {
        if (row_of(one) >= rows_.first && row_of(one) < rows_.last) own.push_back(one);
      }
    }
  }
  return own;
}

models::RatedRow TableRatings::row(Index number) const {
  const auto i = static_cast<std::size_t>(number - rows_.first);
  const std::size_t first = offsets_[i], n = offsets_[i + 1] - first;
  return {.space = space_,
          .number = number,
          .others = std::span(others_).subspan(first, n),
          .values = View(values_).subspan(first, n)};
}

}  // namespace unisono::strategies
