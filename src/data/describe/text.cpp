#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "describe/figures.hpp"
#include "describe/sparse_sets.hpp"
#include "import/columns.hpp"

namespace unisono::data {
namespace {

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
