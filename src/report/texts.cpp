#include "texts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "unisono/records/progress.hpp"

namespace unisono::report {

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds)) return "–";
  return seconds < 10 ? fmt::format("{:.3g} s", seconds) : records::clock_text(seconds);
}

std::string share_text(double part, double whole) {
  return whole > 0 && std::isfinite(part) ? fmt::format("{:.1f} %", 100 * part / whole) : "";
}

double number_in(const nlohmann::ordered_json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? found->get<double>() : std::numeric_limits<double>::quiet_NaN();
}

std::string unquoted(const std::string& value) {
  const bool quoted = value.size() >= 2 && value.front() == '"' && value.back() == '"';
  return quoted ? value.substr(1, value.size() - 2) : value;
}

}  // namespace unisono::report
