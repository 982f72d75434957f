// A replica whose ranks are the stages of a pipeline.
//   A step:  every stage runs its operations of the schedule's program, for all micro-batches of the replica
//            running statistics ← batch statistics of all micro-batches, in their order
//   Stage 0 reads inputs, the last stage labels; the others only how many examples there are, and which.
#include <algorithm>
#include <map>

#include "pipeline/program.hpp"
#include "pipeline/schedules.hpp"
#include "pipeline/stage.hpp"
#include "unisono/parallel/counters.hpp"
#include "unisono/parallel/step.hpp"
#include "unisono/parallel/step_terms.hpp"

namespace unisono::parallel {
namespace {

class PipelinedReplica final : public Replica {
 public:
  explicit PipelinedReplica(const PipelineTerms& terms) : terms_(terms), stage_(terms) {}

  const ParameterLayout& layout() const override { return terms_.stages.parameters().local(rank()); }
  const ParameterLayout& statistics_layout() const override { return terms_.stages.statistics().local(rank()); }
  data::Batch gradient_of_step(StepTerms& run, MeanOver mean_over, GradientExchange* exchange) override;
  void evaluate(data::EvaluationSource& source, models::ModelState state, kernels::LossSums& sums,
                models::PredictionReader* reader) override;
  void sum(std::span<double> values) override { terms_.replica.allreduce_sum(values); }
  std::vector<FloatRange> counted() const override { return counted_floats(*terms_.held); }
  std::int64_t workspace_bytes() const override {
    return static_cast<std::int64_t>(sizeof(float)) * stage_.most_floats();
  }

 private:
  /// Of all ranks.
  int rank() const { return terms_.stages.rank_of(terms_.replicas.rank(), terms_.pipeline.rank()); }
  const Program& program_of(int micro_batches);
  void apply_moments(StepTerms& run, const data::Batch& batch);

  PipelineTerms terms_;
  Stage stage_;
  std::map<int, Program> programs_;  ///< by the number of micro-batches
};

const Program& PipelinedReplica::program_of(int micro_batches) {
  const auto [entry, is_new] = programs_.try_emplace(micro_batches);
  if (is_new) {
    entry->second =
        make_program(terms_.settings.schedule, terms_.stages.stages(), terms_.stages.chunks(), micro_batches);
  }
  return entry->second;
}

data::Batch PipelinedReplica::gradient_of_step(StepTerms& run, MeanOver mean_over, GradientExchange* exchange) {
  MicroBatches batches([&run] { return next_batch(run); });
  const int own = static_cast<int>(batches[0].rank_micro_batches);
  const std::int64_t sent_before = stage_.sent_bytes();
  {
    const SumsOfLayers sums(run);
    stage_.run(program_of(own), batches,
               {.state = run.state, .sums = run.sums, .run = &run, .mean_over = mean_over, .exchange = exchange});
  }
  run.counters.of<PipelineCounters>().boundary_bytes += stage_.sent_bytes() - sent_before;
  const data::Batch& last = batches[own - 1];
  apply_moments(run, last);
  data::Batch counts = last;
  counts.examples = {};
  counts.features = counts.targets = counts.weights = counts.other_shares = {};
  counts.labels = counts.other_labels = {};
  return counts;
}

void PipelinedReplica::apply_moments(StepTerms& run, const data::Batch& batch) {
  const Phase phase(run, run.seconds.exposed_communication);
  stage_.apply_moments(batch.micro_batches, batch.whole && terms_.replicas.size() > 1, run.state);
}

void PipelinedReplica::evaluate(data::EvaluationSource& source, models::ModelState state, kernels::LossSums& sums,
                                models::PredictionReader* reader) {
  // A stage with several chunks may run ahead of the others by all batches of a program.
  const Index most = terms_.stages.chunks() == 1 ? 1024 : 4 * terms_.stages.stages();
  Index left = source.last() - source.first();
  while (left > 0) {
    MicroBatches batches([this, &source] {
      terms_.backend.submit();  // the source may write over the batch before
      return source.next().value();
    });
    const Index size = batches[0].size;
    const Index count = std::min<Index>(most, (left + size - 1) / size);
    stage_.run(forward_program(terms_.stages.stages(), terms_.stages.chunks(), static_cast<int>(count)), batches,
               {.state = state, .sums = sums, .reader = reader});
    left -= count * size;
  }
}

}  // namespace

double expected_bubble(const ReplicaSettings& settings, int micro_batches) {
  const int stages = static_cast<int>(settings.stages), chunks = static_cast<int>(settings.chunks);
  const double again = settings.recompute == Recompute::all ? 1 : 0;
  const PassSeconds stage{.forward = 1, .backward_inputs = 1 + again, .backward_weights = 1};
  const Program program = make_program(settings.schedule, stages, chunks, micro_batches);
  return 1 - micro_batches * stage.sum() / simulate(program, equal_costs(stages, chunks, stage)).seconds;
}

std::unique_ptr<Replica> make_pipelined_replica(const PipelineTerms& terms) {
  return std::make_unique<PipelinedReplica>(terms);
}

}  // namespace unisono::parallel
