#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "describe/figures.hpp"
#include "describe/sparse_sets.hpp"
#include "import/columns.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

constexpr std::size_t kShownValues = 12, kShownItems = 5;

/// How often each number occurs in a dataset of numbers of a dictionary.
std::vector<std::int64_t> count_numbers(const hdf5::File& file, const std::string& dataset, std::uint64_t size) {
  ColumnReader<std::uint32_t> numbers(file, dataset);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(size));
  for (std::uint32_t number = 0; numbers.next(number); ++counts[number]) {
    if (number >= size)
      throw DataError(fmt::format("{}: /{} holds the number {}, but its dictionary has only {} names, numbered from 0",
                                  file.path(), dataset, number, size));
  }
  return counts;
}

std::int64_t count_used(const std::vector<std::int64_t>& counts) {
  return static_cast<std::int64_t>(counts.size()) - std::count(counts.begin(), counts.end(), 0);
}

/// The values with their counts, if there are few different ones; else ten ranges.
class Histogram {
 public:
  void add(float value) {
    if (counts_.size() <= kShownValues) ++counts_[value];
  }
  bool is_whole() const { return counts_.size() <= kShownValues; }
  std::string text(std::int64_t all) const {
    std::string text;
    for (const auto& [value, count] : counts_)
      text += fmt::format("            {:>8.5g} {:>12} {:>7}\n", value, grouped(count), share_text(count, all));
    return text;
  }

 private:
  std::map<float, std::int64_t> counts_;
};

std::string ranges_text(const hdf5::File& file, const std::string& dataset, const Survey& survey) {
  constexpr std::size_t ranges = 10;
  std::vector<std::int64_t> counts(ranges);
  ColumnReader<float> values(file, dataset);
  const double width = (survey.high - survey.low) / ranges;
  for (float value = 0; values.next(value);)
    ++counts[std::min(ranges - 1, static_cast<std::size_t>((value - survey.low) / width))];
  std::string text;
  for (std::size_t i = 0; i < ranges; ++i) {
    const double low = survey.low + width * static_cast<double>(i);
    text += fmt::format("            {:>8.4g} to {:<8.4g} {:>12} {:>7}\n", low, low + width, grouped(counts[i]),
                        share_text(counts[i], static_cast<std::int64_t>(values.size())));
  }
  return text;
}

std::string rating_values_text(const hdf5::File& file, const std::string& dataset) {
  ColumnReader<float> values(file, dataset);
  Tally tally;
  Histogram histogram;
  for (float value = 0; values.next(value);) {
    if (!std::isfinite(value))
      throw DataError(
          fmt::format("{}: /{} holds {}, which is not finite; remove or replace it", file.path(), dataset, value));
    tally.add(value);
    histogram.add(value);
  }
  if (tally.count() == 0) return "";
  const Survey survey = tally.survey(0);
  return fmt::format("  ratings   {}\n", survey_text(survey)) +
         (histogram.is_whole() ? histogram.text(static_cast<std::int64_t>(values.size()))
                               : ranges_text(file, dataset, survey));
}

std::string most_rated(const hdf5::File& file, const std::vector<std::int64_t>& counts) {
  std::vector<std::size_t> items(counts.size());
  for (std::size_t i = 0; i < items.size(); ++i) items[i] = i;
  const std::size_t shown = std::min(kShownItems, items.size());
  std::partial_sort(
      items.begin(), items.begin() + static_cast<std::ptrdiff_t>(shown), items.end(),
      [&](std::size_t a, std::size_t b) { return counts[a] != counts[b] ? counts[a] > counts[b] : a < b; });
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) {
    text += fmt::format("{}{} ({})", i > 0 ? ", " : "", file.read_strings("dictionary/items", items[i], 1)[0],
                        grouped(counts[items[i]]));
  }
  return text;
}

std::string group_text(const hdf5::File& file, const std::string& group, std::uint64_t users, std::uint64_t items) {
  const auto ratings = static_cast<std::int64_t>(file.shape(group + "/ratings").rows());
  const auto of_users = count_numbers(file, group + "/users", users),
             of_items = count_numbers(file, group + "/items", items);
  std::string text = fmt::format("\n{}: {} ratings by {} users of {} items\n", group, grouped(ratings),
                                 grouped(count_used(of_users)), grouped(count_used(of_items)));
  text += rating_values_text(file, group + "/ratings");
  if (file.exists(group + "/times")) {
    ColumnReader<double> times(file, group + "/times");
    Tally tally;
    for (double time = 0; times.next(time);) tally.add(time);
    if (tally.count() > 0)
      text += fmt::format("  times     {:.10g} to {:.10g}\n", tally.survey(0).low, tally.survey(0).high);
  }
  return text + fmt::format("  most often rated: {}\n", most_rated(file, of_items));
}

}  // namespace

std::string describe_ratings(const hdf5::File& file) {
  const std::uint64_t users = file.count_strings("dictionary/users"), items = file.count_strings("dictionary/items");
  std::string text =
      title_text(file) + fmt::format("ratings of {} items by {} users\n", grouped(static_cast<std::int64_t>(items)),
                                     grouped(static_cast<std::int64_t>(users)));
  for (const std::string group : {"train", "validation", "test"}) {
    if (file.exists(group + "/ratings")) text += group_text(file, group, users, items);
  }
  return text;
}

}  // namespace unisono::data
