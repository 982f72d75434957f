#include <fmt/format.h>

#include <algorithm>

#include "run_sections.hpp"
#include "texts.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::report {
namespace {

Block timeline_of(const RunHistory& run, const ReportOptions& options) {
  try {
    return Drawing{.title = "A step of the pipeline, predicted",
                   .svg = options.predict_timeline(run.record.folder, run.config, run.record.ranks),
                   .on_paper = true};
  } catch (const Error& error) {
    return Paragraph{fmt::format("The timeline of a step cannot be predicted: {}", error.what())};
  }
}

}  // namespace

Section section_of_pipeline(const RunHistory& run, const ReportOptions& options) {
  Section section{.title = "Pipeline"};
  const auto stages = run.record.config.find("replica.stages");
  if (stages == run.record.config.end() || stages->second == "1") return section;
  if (options.predict_timeline) section.blocks.push_back(timeline_of(run, options));
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

}  // namespace unisono::report
