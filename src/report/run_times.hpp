#pragma once

#include <array>
#include <string>
#include <vector>

#include "history.hpp"
#include "plot/bars.hpp"

namespace unisono::report {

/// The parts of a run's time, as metrics.jsonl has them.
inline constexpr std::array kTimeParts = {
    "compute", "exposed_communication", "straggler_wait", "bubble", "input", "optimizer", "evaluation", "checkpoint",
    "other"};

/// [parts] Of all reports, those before a run was resumed, too.
std::vector<double> seconds_of(const RunHistory& run);

/// A bar of seconds a row. \param seconds [rows][parts]
plot::BarPlot time_plot(const std::string& title, const std::vector<std::string>& rows,
                        const std::vector<std::vector<double>>& seconds);

}  // namespace unisono::report
