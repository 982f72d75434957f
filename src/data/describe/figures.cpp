#include "describe/figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

namespace unisono::data {
namespace {

constexpr std::size_t kShownClasses = 20;

}  // namespace

std::string size_text(double bytes) {
  constexpr std::string_view units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(units); ++unit) bytes /= 1024;
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 1, units[unit]);
}

std::string share_text(std::int64_t part, std::int64_t whole) {
  return fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string labels_line(std::string_view type, const std::vector<std::int64_t>& counts) {
  const auto used = std::count_if(counts.begin(), counts.end(), [](std::int64_t n) { return n > 0; });
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  return fmt::format("  labels    {}, {} classes, {} to {} examples each\n", type, used, grouped(*least),
                     grouped(*most));
}

std::string balance_text(const std::vector<std::int64_t>& counts, const std::vector<std::string>& names) {
  const std::int64_t all = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  std::string text;
  for (std::size_t i = 0; i < std::min(counts.size(), kShownClasses); ++i) {
    const std::string name = i < names.size() ? " " + names[i] : "";
    text +=
        fmt::format("            {:>3}{:<16} {:>10} {:>7}\n", i, name, grouped(counts[i]), share_text(counts[i], all));
  }
  if (counts.size() > kShownClasses)
    text += fmt::format("            … and {} more classes\n", counts.size() - kShownClasses);
  return text;
}

std::string title_text(const hdf5::File& file) {
  return fmt::format("{}: {}, ", file.path(), size_text(static_cast<double>(std::filesystem::file_size(file.path()))));
}

}  // namespace unisono::data
