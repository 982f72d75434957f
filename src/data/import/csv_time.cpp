#include "import/csv_time.hpp"

#include <chrono>
#include <cstdio>

#include "import/csv_dialect.hpp"

namespace unisono::data {

std::optional<double> parse_time(const std::string& text) {
  if (const auto number = parse_number(text)) return number;
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, read = 0;
  double second = 0;
  if (std::sscanf(text.c_str(), "%4d-%2d-%2d%n", &year, &month, &day, &read) != 3) return std::nullopt;
  const std::string rest = text.substr(static_cast<std::size_t>(read));
  if (!rest.empty()) {
    char separator = 0;
    int end = 0;
    const int fields = std::sscanf(rest.c_str(), "%c%2d:%2d%n:%lf%n", &separator, &hour, &minute, &end, &second, &end);
    const std::string zone = fields >= 3 ? rest.substr(static_cast<std::size_t>(end)) : "?";
    if ((separator != 'T' && separator != ' ') || !(zone.empty() || zone == "Z")) return std::nullopt;
  }
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok() || hour > 23 || minute > 59 || !(second >= 0 && second < 61)) return std::nullopt;
  const auto days = std::chrono::sys_days(date).time_since_epoch().count();
  return static_cast<double>(days) * 86400 + hour * 3600 + minute * 60 + second;
}

}  // namespace unisono::data
