#include "pipeline/formula.hpp"

#include <algorithm>

#include "pipeline/schedules.hpp"

namespace unisono::parallel {

std::optional<double> formula_seconds(PipelineSchedule schedule, int stages, int chunks, int micro_batches,
                                      const PassSeconds& stage) {
  const auto [f, b, w] = stage;
  const double work = micro_batches * stage.sum();
  switch (schedule) {
    case PipelineSchedule::naive:
      return stages * work;
    case PipelineSchedule::interleaved:
      if (micro_batches < stages) return {};
      return work + (stages - 1) * stage.sum() / chunks;
    case PipelineSchedule::zero_bubble:
      if (micro_batches < stages) return {};
      return work + (stages - 1) * std::max({f, b, f + b - w});
    default:
      return work + (stages - 1) * stage.sum();
  }
}

int formula_flights(PipelineSchedule schedule, int stages, int chunks, int micro_batches, int stage) {
  switch (schedule) {
    case PipelineSchedule::naive:
      return 1;
    case PipelineSchedule::gpipe:
      return micro_batches;
    case PipelineSchedule::interleaved: {
      const int group = interleaved_groups(stages, micro_batches).front();
      return std::min(chunks * micro_batches, (chunks - 1) * group + 2 * (stages - stage) - 1);
    }
    case PipelineSchedule::zero_bubble:
      return std::min(micro_batches, stages);
    default:
      return std::min(micro_batches, stages - stage);
  }
}

}  // namespace unisono::parallel
