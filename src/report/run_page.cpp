#include <fmt/format.h>

#include "pages.hpp"
#include "run_sections.hpp"
#include "texts.hpp"
#include "unisono/base/text.hpp"
#include "unisono/records/folder_owner.hpp"

namespace unisono::report {
namespace {

Page run_page(const ReportOptions& options, Log& log) {
  const RunHistory run = read_history(options.folders.front());
  Page page{.title = run.name(),
            .subtitle = fmt::format("A run of unisono: {}, {}, {}", run.record.status,
                                    count_of(run.record.epochs, "epoch"), count_of(run.record.steps, "step"))};
  page.add(section_of_result(run));
  page.add(section_of_metrics(run));
  page.add(section_of_examples(run, options, log));
  page.add(section_of_steps(run));
  page.add(section_of_time(run));
  page.add(section_of_counters(run));
  page.add(section_of_pipeline(run, options));
  page.add(section_of_other_figures(run));
  page.add(section_of_settings(run, options.models));
  return page;
}

}  // namespace

const PageKind kRunPage = {
    .what = "a run",
    .fits = [](const auto& folders) { return folders.size() == 1 && records::holds_run(folders.front()); },
    .make = run_page};

}  // namespace unisono::report
