#pragma once

#include <optional>
#include <string>

namespace unisono::data {

/// A number as it is; a date, or a date and a time of the day, as seconds since 1970-01-01T00:00:00 (UTC). Nothing for
/// other texts.
std::optional<double> parse_time(const std::string& text);

}  // namespace unisono::data
