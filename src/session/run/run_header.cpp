#include "run/run_header.hpp"

namespace unisono::session {

CheckpointHeader first_header(const RunPlan& plan, const ModelParts& parts, bool averaged) {
  CheckpointHeader header;
  data::Dataset& data = plan.data();
  header.seed = static_cast<std::uint64_t>(plan.config.seed);
  header.config = settings::effective_config(plan.config);
  header.threads_chosen = plan.trial_of_threads() != nullptr && plan.config.strategy.threads > 0;
  header.inputs = inputs_of(data.info());
  header.preprocessing = data.preprocessing();
  header.data_identity = data.info().identity;
  header.resident = data.info().resident;
  header.averaged = averaged;
  header.ranks = parts.grid.all().size();
  header.threads = parts.placement.threads;
  header.device = parts.device();
  header.build = build_hash();
  header.layout = parts.model->layout().hash();
  return header;
}

records::EventFileHeader events_header(const CheckpointHeader& header, const settings::Config& config,
                                       const ModelParts& parts, std::int64_t steps_per_epoch) {
  return {.workers = parts.workers(),
          .servers = parts.strategy->event_lists(header.ranks),
          .threads = header.threads,
          .device = header.device,
          .data_identity = header.data_identity,
          .build = header.build,
          .layout = header.layout,
          .schedule_steps =
              config.schedule.kind == optim::ScheduleKind::constant ? 0 : config.schedule_epochs() * steps_per_epoch,
          .config = header.config};
}

}  // namespace unisono::session
