// Matrix factorization by blocks, so that no two workers ever touch the same row or column.
//   Users and items are dealt to the rows and columns of a B × B grid. Each rank has a part of the grid's rows: their
//   ratings, and their users' part of θ. In step w, row i trains with column j = i + w (mod B):
//     for the ratings (u, v) of block (i, j), in its order:   θ_u, θ_v ← θ_u, θ_v − rate · ∇ℓ_uv(θ_u, θ_v)
//   Blocks of one step share neither users nor items. So the threads and ranks can train on all of them at the same
//   time, and the result does not depend on their order: it equals, bit for bit, the serial run with data.order =
//   "strata", on any number of ranks and threads.
//   The columns, with their items' part of θ, travel round the ranks while the next blocks are trained on: after a step
//   the last row of rank r − 1 needs the column of rank r's first row. A rank holds 1/P of the users and ratings, and
//   1/P of the items plus two columns.
//   Gemulla et al., "Large-scale matrix factorization with distributed stochastic gradient descent", KDD 2011, and
//   Teflioudi et al., ICDM 2012, for ranks; for threads Zhuang et al., RecSys 2013, where threads take any
//   free block.
// Cost per epoch: every item travels once round the ring; each rank sends 4 · items · stride bytes.
#include <algorithm>
#include <vector>

#include "step.hpp"
#include "stratified/item_ring.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::strategies {
namespace {

class Stratified final : public Strategy {
 public:
  void require(const models::Model& model, int ranks) const override;
  std::shared_ptr<parallel::RowHolding> divide(const models::Model& model, const data::DatasetInfo& data,
                                               comm::Communicator& communicator) override;
  void train(TrainContext& run) override;

 private:
  std::shared_ptr<ItemRing> ring_;
};

/// This rank's part of steps that are made in one pass of the ring.
struct Segment {
  struct Diagonal {
    double rate = 0;
    std::vector<data::ExampleRange> blocks;  ///< [rows]
  };
  std::vector<Diagonal> diagonals;
  data::SparseEntries entries;
  StepRecord record;  ///< of the last step, with the examples of all steps
};

Segment read_segment(TrainContext& run, std::int64_t first, std::int64_t last) {
  Segment segment;
  Index examples = 0;
  for (std::int64_t step = first; step < last; ++step) {
    const data::Batch batch = parallel::next_batch(run);
    const double rate = run.schedule.rate(step);
    segment.diagonals.push_back({rate, {batch.ranges.begin(), batch.ranges.end()}});
    segment.entries = std::get<data::SparseEntries>(*batch.set);
    segment.record = make_record(batch, step + 1, rate, /*consistent=*/true);
    examples += batch.global_size;
  }
  segment.record.global_size = examples;
  return segment;
}

void Stratified::require(const models::Model& model, int) const {
  if (model.in_place() != nullptr && model.in_place()->bipartite() != nullptr) return;
  throw UnfitStrategy(
      "strategy.kind = \"stratified\" trains models whose examples touch one row of each of two tables: model.kind = "
      "\"factorization\"");
}

std::shared_ptr<parallel::RowHolding> Stratified::divide(const models::Model& model, const data::DatasetInfo& data,
                                                         comm::Communicator& communicator) {
  require(model, communicator.size());
  ring_ = std::make_shared<ItemRing>(model, data, communicator);
  return ring_;
}

void Stratified::train(TrainContext& run) {
  ThreadTeam team(run.threads, "stratified");
  std::vector<kernels::LossSums> sums(
      static_cast<std::size_t>(ring_->rows()));  // by row; only one thread at a time adds to a row's
  bool go_on = true;
  for (std::int64_t made = run.first_step; go_on && made < run.total_steps;) {
    const Segment segment = read_segment(run, made, std::min(run.total_steps, run.observer.next_due(made)));
    const std::int64_t sent_before = ring_->sent_bytes(), first = ring_->diagonal();
    const auto update = [&](Index row, std::int64_t diagonal, const models::TableParts& parts) {
      const Segment::Diagonal& now = segment.diagonals[static_cast<std::size_t>(diagonal - first)];
      const auto i = static_cast<std::size_t>(row);
      ring_->model().update_part(ratings_of(segment.entries, now.blocks[i]), now.rate, parts, sums[i]);
    };
    double waited = 0;
    {
      const parallel::ComputeScope computes(run);
      waited = ring_->pass(std::ssize(segment.diagonals), run.state.parameters, team, update, run.runtime);
    }
    run.seconds.compute -= waited;
    run.seconds.exposed_communication += waited;
    for (kernels::LossSums& row : sums) run.sums += std::exchange(row, {});
    run.counters.of<PassedCounters>().bytes += ring_->sent_bytes() - sent_before;
    made = segment.record.step;
    go_on = run.observer.step(segment.record);
  }
}

void describe_stratified(StrategySettings& settings, ConfigVisitor& visitor) { settings.describe_threads(visitor); }

void check_stratified(const StrategySettings&, const StrategyTerms& terms, ConfigVisitor& visitor) {
  visitor.require(
      "data", terms.shuffle,
      "shuffle = false does not work with strategy.kind = \"stratified\", which has its own order; remove it");
}

}  // namespace

StrategyKind stratified_strategy() {
  return {.name = "stratified",
          .meaning =
              "for factorization: all threads and ranks work on blocks of ratings that share neither users nor "
              "items; each rank holds a part of the data and of the parameters",
          .describe = describe_stratified,
          .check = check_stratified,
          .make = construct<Stratified>,
          .traits = {.divides_model = true, .shares_model = true},
          .waiting = "ranks waited for items from each other",
          .relief = [](const StrategySettings&, bool) -> std::string {
            return "fewer ranks with more threads send fewer";
          }};
}

}  // namespace unisono::strategies
