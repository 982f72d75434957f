#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/stored_checkpoint.hpp"
#include "machine/parts.hpp"
#include "machine/pipeline_timeline.hpp"
#include "report/run_sections.hpp"
#include "report/texts.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::experiment {
namespace {

/// The set's shapes, as the newest checkpoint has them: the set itself may be gone.
data::DatasetInfo trained_shapes(const RunHistory& run, Log& log) {
  const auto alone = comm::make_self_communicator();
  return set_like(find_checkpoint(*alone, run.record.folder, log).header.inputs);
}

Block timeline_of(const RunHistory& run, const models::ModelKinds& models) {
  Log quiet(0, /*terminal=*/false);
  try {
    const Config config = parse_config({.path = "config.toml", .text = run.config, .overrides = {}}, models);
    const int ranks = std::max(run.record.ranks, config.stages());
    return Drawing{.title = "A step of the pipeline, predicted",
                   .svg = predicted_timeline(config, trained_shapes(run, quiet), ranks, quiet),
                   .on_paper = true};
  } catch (const Error& error) {
    return Paragraph{fmt::format("The timeline of a step cannot be predicted: {}", error.what())};
  }
}

}  // namespace

Section section_of_pipeline(const RunHistory& run, const models::ModelKinds& models) {
  Section section{.title = "Pipeline"};
  const auto stages = run.record.config.find("replica.stages");
  if (stages == run.record.config.end() || stages->second == "1") return section;
  section.blocks.push_back(timeline_of(run, models));
  const auto measured = run.summary.find("pipeline");
  if (measured == run.summary.end() || !measured->is_object()) return section;
  Table table{.caption = "Measured", .head = {"figure", "value"}, .rows = {}};
  for (const auto& [name, value] : measured->items()) {
    table.rows.push_back({words_of(name), value.is_string()
                                              ? value.get<std::string>()
                                              : number_text(value.is_number() ? value.get<double>() : 0)});
  }
  section.blocks.emplace_back(std::move(table));
  return section;
}

}  // namespace unisono::experiment
