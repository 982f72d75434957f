#include <stdexcept>

#include "unisono/strategies/pipeline.hpp"

namespace unisono::strategies {
namespace {

class PipelinedReplica final : public Replica {
 public:
  explicit PipelinedReplica(const PipelineTerms& terms) : terms_(terms) {}

  const ParameterLayout& layout() const override { return terms_.stages.parameters().local(rank()); }
  const ParameterLayout& statistics_layout() const override { return terms_.stages.statistics().local(rank()); }
  data::Batch gradient_of_step(TrainContext&, MeanOver, GradientExchange*) override {
    throw std::logic_error("pipelines are not executed yet");
  }
  void evaluate(data::EvaluationSource&, models::ModelState, kernels::LossSums&) override {
    throw std::logic_error("pipelines are not executed yet");
  }

 private:
  int rank() const { return terms_.replicas.rank() * terms_.stages.stages() + terms_.pipeline.rank(); }

  PipelineTerms terms_;
};

}  // namespace

std::unique_ptr<Replica> make_pipelined_replica(const PipelineTerms& terms) {
  return std::make_unique<PipelinedReplica>(terms);
}

}  // namespace unisono::strategies
