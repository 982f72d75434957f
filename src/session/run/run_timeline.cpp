#include "unisono/session/run_timeline.hpp"

#include <algorithm>

#include "machine/pipeline_timeline.hpp"
#include "unisono/session/model_parts.hpp"
#include "unisono/session/stored_checkpoint.hpp"

namespace unisono::session {

std::string run_timeline(const std::string& run, const std::string& config, int ranks,
                         const models::ModelKinds& models) {
  Log quiet(0, /*terminal=*/false);
  const settings::Config parsed =
      settings::parse_config({.path = "config.toml", .text = config, .overrides = {}}, models);
  const auto alone = comm::make_self_communicator();
  const data::DatasetInfo shapes = set_like(find_checkpoint(*alone, run, quiet).header.inputs);
  return predicted_timeline(parsed, shapes, std::max(ranks, parsed.stages()), quiet);
}

}  // namespace unisono::session
