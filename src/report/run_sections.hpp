#pragma once

#include "history.hpp"
#include "page.hpp"
#include "unisono/report/report.hpp"

namespace unisono::report {

// The sections of a run's page. One without anything to show has no blocks.

/// What was trained on what, how, on which machine; and what its config chooses.
Section section_of_settings(const RunHistory& run, const models::ModelKinds& models);
/// How it ended, and the metrics of each split.
Section section_of_result(const RunHistory& run);
/// Losses and metrics over epochs and steps.
Section section_of_metrics(const RunHistory& run);
/// Learning rate, norms, steps of whole-batch methods.
Section section_of_steps(const RunHistory& run);
/// Examples per second, and where the time went.
Section section_of_time(const RunHistory& run);
/// What the strategy counted: histograms of staleness, servers and workers, counters over time.
Section section_of_counters(const RunHistory& run);
/// Other figures of the summary: bytes sent, memory, a comparison.
Section section_of_other_figures(const RunHistory& run);
/// How a step of a pipeline goes, predicted.
Section section_of_pipeline(const RunHistory& run, const ReportOptions& options);
/// Confusion matrix, the worst examples, neighbours of embeddings: what the newest checkpoint does on its data.
Section section_of_examples(const RunHistory& run, const ReportOptions& options, Log& log);

}  // namespace unisono::report
