#include "describe/figures.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_set>

#include "import/set_writer.hpp"
#include "recipe/recipe_file.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

constexpr std::size_t kShownRows = 5, kShownEntriesOfRow = 8;

[[noreturn]] void fail(const hdf5::File& file, const std::string& dataset, const std::string& what) {
  throw DataError(fmt::format("{}: /{}: {}", file.path(), dataset, what));
}

std::string rows_text(const hdf5::File& file, const std::string& features, std::int64_t columns) {
  ColumnReader<std::uint64_t> indptr(file, features + "/indptr");
  const std::uint64_t nonzeros = file.shape(features + "/indices").rows();
  Tally lengths;
  std::uint64_t begin = 0, end = 0;
  if (!indptr.next(begin) || begin != 0) fail(file, features + "/indptr", "must begin with 0");
  for (; indptr.next(end); begin = end) {
    if (end < begin || end > nonzeros)
      fail(file, features + "/indptr",
           fmt::format("holds {} after {}; the values must ascend and be at most {}, the number of indices", end, begin,
                       nonzeros));
    lengths.add(static_cast<double>(end - begin));
  }
  if (lengths.count() == 0) fail(file, features + "/indptr", "has no rows");
  return fmt::format("  features  {} values, {:.3g} % of all entries of {} columns\n            values per row {}\n",
                     grouped(static_cast<std::int64_t>(nonzeros)),
                     100 * static_cast<double>(nonzeros) / lengths.count() / static_cast<double>(columns),
                     grouped(columns), survey_text(lengths.survey(0)));
}

std::string columns_text(const hdf5::File& file, const std::string& features, std::int64_t columns) {
  ColumnReader<std::uint32_t> indices(file, features + "/indices");
  std::unordered_set<std::uint32_t> used;
  for (std::uint32_t index = 0; indices.next(index);) {
    if (index >= columns)
      fail(file, features + "/indices",
           fmt::format("holds the column {}, but there are only {} columns, numbered from 0", index, columns));
    used.insert(index);
  }
  return fmt::format("            columns with values: {}\n", grouped(static_cast<std::int64_t>(used.size())));
}

Tally tally_of(const hdf5::File& file, const std::string& dataset) {
  ColumnReader<float> values(file, dataset);
  Tally tally;
  for (float value = 0; values.next(value);) tally.add(value);
  return tally;
}

std::string stored_values_text(const hdf5::File& file, const std::string& features) {
  if (!file.exists(features + "/data")) return "            all values are 1\n";
  const Tally tally = tally_of(file, features + "/data");
  return tally.count() > 0 ? fmt::format("            values {}\n", survey_text(tally.survey(0))) : "";
}

std::string labels_text(const hdf5::File& file, const std::string& dataset) {
  ColumnReader<std::int64_t> labels(file, dataset);
  std::vector<std::int64_t> counts;
  constexpr std::int64_t most = 1 << 24;  // largest number of classes that is counted
  for (std::int64_t label = 0; labels.next(label); ++counts[static_cast<std::size_t>(label)]) {
    if (label < 0 || label >= most)
      fail(file, dataset, fmt::format("holds the label {}; labels are class numbers from 0 up", label));
    if (label >= static_cast<std::int64_t>(counts.size())) counts.resize(static_cast<std::size_t>(label) + 1);
  }
  if (counts.empty()) return "";
  std::vector<std::string> names;
  if (file.has_attribute("", "class_names")) names = file.read_attribute<std::vector<std::string>>("", "class_names");
  return labels_line(hdf5::name_of(file.shape(dataset).type), counts) + balance_text(counts, names);
}

std::string targets_text(const hdf5::File& file, const std::string& dataset) {
  const Tally tally = tally_of(file, dataset);
  return tally.count() > 0 ? fmt::format("  targets   {}\n", survey_text(tally.survey(0))) : "";
}

/// "  3:1, 11:0.5, …" of the first rows.
std::string examples_text(const hdf5::File& file, const std::string& features) {
  ColumnReader<std::uint64_t> indptr(file, features + "/indptr");
  std::string text;
  std::uint64_t begin = 0, end = 0;
  indptr.next(begin);
  for (std::size_t row = 0; row < kShownRows && indptr.next(end); ++row, begin = end) {
    const std::size_t shown = std::min<std::size_t>(end - begin, kShownEntriesOfRow);
    std::vector<std::uint32_t> indices(shown);
    std::vector<float> values(shown, 1);
    file.read_rows(features + "/indices", begin, shown, indices.data());
    if (file.exists(features + "/data")) file.read_rows(features + "/data", begin, shown, values.data());
    std::vector<std::string> entries;
    for (std::size_t i = 0; i < shown; ++i) entries.push_back(fmt::format("{}:{:.5g}", indices[i], values[i]));
    text += fmt::format("  {}{}\n", fmt::join(entries, ", "), shown < end - begin ? ", …" : "");
  }
  return text;
}

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

constexpr std::uint64_t kShownWords = 10, kShownEntries = 5;

std::string sentences_text(const hdf5::File& file, const std::string& group) {
  ColumnReader<std::uint64_t> ends(file, group + "/sentences");
  Tally lengths;
  std::uint64_t begin = 0, end = 0;
  ends.next(begin);
  for (; ends.next(end); begin = end) lengths.add(static_cast<double>(end) - static_cast<double>(begin));
  const auto words = static_cast<std::int64_t>(file.shape(group + "/words").rows());
  std::string text = fmt::format("\n{}: {} words in {} sentences\n", group, grouped(words),
                                 grouped(static_cast<std::int64_t>(lengths.count())));
  if (lengths.count() > 0) text += fmt::format("  words per sentence: {}\n", survey_text(lengths.survey(0)));
  return text;
}

std::string vocabulary_text(const hdf5::File& file) {
  const auto counts = file.read<std::int64_t>("dictionary/counts");
  std::int64_t all = 0;
  for (const std::int64_t count : counts) all += count;
  const std::uint64_t shown = std::min<std::uint64_t>(counts.size(), kShownWords);
  const auto words = file.read_strings("dictionary/words", 0, shown);
  std::string text = "\nmost frequent words of train:\n";
  for (std::size_t i = 0; i < shown; ++i)
    text += fmt::format("  {:>8} {:<24} {:>12} {:>7}\n", i, words[i], grouped(counts[i]), share_text(counts[i], all));
  if (counts.size() > shown)
    text +=
        fmt::format("  … and {} more, down to {} times\n", grouped(static_cast<std::int64_t>(counts.size() - shown)),
                    grouped(*std::min_element(counts.begin(), counts.end())));
  return text;
}

std::string word_at(const hdf5::File& file, std::uint32_t number) {
  return file.read_strings("dictionary/words", number, 1)[0];
}

}  // namespace

std::string describe_csr(const hdf5::File& file) {
  std::string text, first;
  std::int64_t columns = 0;
  for (const std::string group : {"train", "validation", "test"}) {
    const std::string features = group + "/features";
    if (!file.exists(features)) continue;
    columns = file.read_attribute<std::int64_t>(features, "columns");
    if (columns < 1)
      fail(file, features, fmt::format("has the attribute columns = {}; it must be at least 1", columns));
    text += fmt::format("\n{}: {} examples\n", group,
                        grouped(static_cast<std::int64_t>(file.shape(features + "/indptr").rows()) - 1));
    text +=
        rows_text(file, features, columns) + columns_text(file, features, columns) + stored_values_text(file, features);
    if (file.exists(group + "/labels")) text += labels_text(file, group + "/labels");
    if (file.exists(group + "/targets")) text += targets_text(file, group + "/targets");
    if (first.empty())
      first = fmt::format("\nfirst examples of {}, column:value\n", group) + examples_text(file, features);
  }
  const bool scaled = read_recipe(file).scaling == Scaling::standard;
  return title_text(file) +
         fmt::format("sparse examples of {} columns{}\n", grouped(columns),
                     scaled ? ", which runs divide by their standard deviations" : "") +
         text + first;
}

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

std::string describe_text(const hdf5::File& file) {
  std::string text =
      title_text(file) + fmt::format("text of {} distinct words\n",
                                     grouped(static_cast<std::int64_t>(file.count_strings("dictionary/words"))));
  for (const std::string group : {"train", "validation", "test"}) {
    if (file.exists(group + "/sentences")) text += sentences_text(file, group);
  }
  return text + vocabulary_text(file);
}

std::string describe_cooccurrences(const hdf5::File& file) {
  const std::uint64_t entries = file.shape("train/counts").rows(), words = file.count_strings("dictionary/words");
  ColumnReader<float> counts(file, "train/counts");
  Tally tally;
  for (float count = 0; counts.next(count);) tally.add(count);
  std::string text =
      title_text(file) +
      fmt::format("co-occurrences of {} words\n\ntrain: {} entries, {:.3g} % of all pairs\n",
                  grouped(static_cast<std::int64_t>(words)), grouped(static_cast<std::int64_t>(entries)),
                  100 * static_cast<double>(entries) / static_cast<double>(words) / static_cast<double>(words));
  if (entries > 0) text += fmt::format("  counts    {}\n\nfirst entries:\n", survey_text(tally.survey(0)));
  const std::uint64_t shown = std::min(entries, kShownEntries);
  std::vector<std::uint32_t> rows(shown), columns(shown);
  std::vector<float> values(shown);
  file.read_rows("train/rows", 0, shown, rows.data());
  file.read_rows("train/columns", 0, shown, columns.data());
  file.read_rows("train/counts", 0, shown, values.data());
  for (std::size_t i = 0; i < shown; ++i)
    text += fmt::format("  {} – {}: {:.5g}\n", word_at(file, rows[i]), word_at(file, columns[i]), values[i]);
  return text;
}

}  // namespace unisono::data
