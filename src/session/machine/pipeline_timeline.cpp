#include "machine/pipeline_timeline.hpp"

#include "unisono/session/abilities.hpp"
#include "unisono/session/memory.hpp"
#include "unisono/session/model_parts.hpp"
#include "unisono/session/settled.hpp"
#include "unisono/session/stage_report.hpp"

namespace unisono::session {

std::string predicted_timeline(const settings::Config& given, const data::DatasetInfo& data, int ranks, Log& log) {
  const auto alone = comm::make_self_communicator();
  const settings::Config config = settle(given, data).config;
  const auto strategy = strategies::make_strategy(config.strategy);
  const auto backend =
      kernels::make_cpu_backend(place_rank(*alone, NodePlace(*alone), config.train.threads, log).threads);
  LocalReducer reducer;
  models::ModelContext context = model_context(*backend, reducer, strategy->steps_together(), config);
  context.training_examples = data.train;
  const auto model = models::make_model(config.model, inputs_of(data), context);
  require_placeable(config, *model, *backend);
  const StagePlan plan(config, *model, *backend, data, *strategy,
                       abilities_of(*alone, config, *model, *backend, ranks));
  return StageReport(plan, place_model(plan, config)).svg();
}

}  // namespace unisono::session
