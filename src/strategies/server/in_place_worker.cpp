// A worker of a model that is updated in place: for each of its steps
//     it pulls the rows of θ that the step's examples touch,
//     trains on the examples, one after the other,
//     pushes what changed:   change_row = θ_row − what was pulled
// If it is the only worker, it pushes the rows themselves: nobody else changed them, and rounding may make θ + (θ' − θ)
// differ from θ'.
// Memory: θ, of which only the rows in use are up to date, and twice the rows of a step.
#include <array>
#include <optional>
#include <utility>

#include "server/workers.hpp"
#include "step.hpp"
#include "unisono/base/clock.hpp"

namespace unisono::strategies {
namespace {

class InPlaceWorker final : public ServedWorker {
 public:
  InPlaceWorker(const TrainContext& run, Client client, const WorkerSettings& settings,
                const std::vector<comm::Slice>& shards)
      : ServedWorker(run, std::move(client), settings),
        scratch_(run.model.in_place()->make_scratch()),
        touched_(run.model.in_place()->row_spaces()) {
    for (const comm::Slice& shard : shards) {
      parts_.push_back({.map = {std::ssize(run.state.parameters), run.model.in_place()->row_spaces(), shard},
                        .rows = {},
                        .values = {}});
    }
  }

 private:
  /// The rows of a step that lie in one shard.
  struct PulledShard {
    ShardRows map;
    std::vector<std::uint32_t> rows;
    std::array<std::vector<float>, 2> values;  ///< values of the rows: of this step, and of the previous one
  };

  void make_steps(const Segment& segment) override;
  void mark(const data::Batch& batch);
  Pulled pull(std::int64_t clock);
  void train_on(const data::Batch& batch, double rate);
  void push(const Segment& segment, std::int64_t clock, const data::Batch& batch);
  std::vector<ShardPart> parts();
  template <typename Visit>
  void for_each_row(Visit visit);

  std::unique_ptr<models::Scratch> scratch_;
  models::TouchedRows touched_;
  std::vector<PulledShard> parts_;
  std::optional<data::Batch> batch_;  ///< a batch that was read but not yet trained on
};

void InPlaceWorker::make_steps(const Segment& segment) {
  const bool in_step = settings_.consistency != Consistency::asynchronous;  // all make as many steps
  for (std::int64_t clock = 0; !in_step || clock < segment.steps; ++clock) {
    if (!batch_) batch_ = parallel::next_batch(run_);
    mark(*batch_);
    if (pull(clock).granted == 0) return;  // the others make what is left
    const data::Batch batch = *std::exchange(batch_, std::nullopt);
    train_on(batch, run_.schedule.rate(segment.step_at(clock)));
    push(segment, clock, batch);
    count(batch);
  }
}

/// Finds the rows that the batch touches.
void InPlaceWorker::mark(const data::Batch& batch) {
  const ScopedTimer timer(run_.seconds.compute, run_.clock);
  for (const data::ExampleRange& piece : pieces_of(batch)) {
    run_.model.in_place()->mark_rows(batch, piece, *scratch_, touched_);
  }
  for (PulledShard& part : parts_) {
    part.rows.clear();
    part.map.take_touched(touched_, part.rows);
    std::swap(part.values[0], part.values[1]);  // the previous step's values are still being sent
    part.values[0].resize(static_cast<std::size_t>(part.map.floats_of(part.rows)));
  }
}

std::vector<ShardPart> InPlaceWorker::parts() {
  std::vector<ShardPart> parts;
  for (PulledShard& part : parts_) parts.push_back({part.values[0], part.rows});
  return parts;
}

/// Calls visit(a row in θ, the same row in the message) for each pulled row.
template <typename Visit>
void InPlaceWorker::for_each_row(Visit visit) {
  for (PulledShard& part : parts_) {
    std::span<float> left(part.values[0]);
    part.map.for_each(part.rows, [&](Index offset, Index floats) {
      const auto count = static_cast<std::size_t>(floats);
      visit(run_.state.parameters.subspan(static_cast<std::size_t>(offset), count), left.first(count));
      left = left.subspan(count);
    });
  }
}

Pulled InPlaceWorker::pull(std::int64_t clock) {
  client_.start_pull(clock, 1, parts(), {});
  const Pulled pulled = client_.finish_pull();
  const ScopedTimer timer(run_.seconds.exposed_communication, run_.clock);
  for_each_row([](MutableView theta, MutableView message) { std::ranges::copy(message, theta.begin()); });
  return pulled;
}

void InPlaceWorker::train_on(const data::Batch& batch, double rate) {
  const parallel::ComputeScope computes(run_);
  models::InPlaceStep step{.rate = rate,
                           .examples_before = own_examples_before(run_, batch, settings_.workers),
                           .parameters = run_.state.parameters};
  for (const data::ExampleRange& piece : pieces_of(batch)) {
    run_.model.in_place()->update_in_place(batch, piece, step, *scratch_, run_.sums);
    step.examples_before += piece.size();
  }
}

void InPlaceWorker::push(const Segment& segment, std::int64_t clock, const data::Batch& batch) {
  {
    const ScopedTimer timer(run_.seconds.exposed_communication, run_.clock);
    const bool alone = settings_.workers == 1;
    for_each_row([&](View theta, MutableView message) {
      for (std::size_t k = 0; k < theta.size(); ++k) {
        message[k] = alone ? theta[k] : settings_.share * (theta[k] - message[k]);
      }
    });
  }
  client_.start_push({.clock = clock + 1,
                      .examples = batch.rank_step_size,
                      .rate = run_.schedule.rate(segment.step_at(clock)),
                      .weight = share_of(batch)},
                     parts(), {});
}

}  // namespace

std::unique_ptr<ServedWorker> make_in_place_worker(const TrainContext& run, Client client,
                                                   const WorkerSettings& settings,
                                                   const std::vector<comm::Slice>& shards) {
  return std::make_unique<InPlaceWorker>(run, std::move(client), settings, shards);
}

}  // namespace unisono::strategies
