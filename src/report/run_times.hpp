#pragma once

#include <string>
#include <vector>

#include "history.hpp"
#include "plot/bars.hpp"
#include "unisono/base/counters.hpp"

namespace unisono::report {

/// The seconds of all reports, those before a run was resumed, too.
Seconds seconds_of(const RunHistory& run);

/// A bar of seconds a row.
plot::BarPlot time_plot(const std::string& title, const std::vector<std::string>& rows,
                        const std::vector<Seconds>& seconds);

}  // namespace unisono::report
