#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "sets.hpp"
#include "unisono/base/random.hpp"

// Small sets that are no tables, and what of them stands in memory as text: an example each.

namespace unisono::test {

using Contents = std::vector<std::string>;

/// Writes a group of so many rows, entries or sentences. \return what they should be in memory
using WriteGroup = Contents (*)(data::hdf5::File& file, const std::string& group, std::int64_t units);

struct Kind {
  std::string name;
  data::SetKind kind;
  WriteGroup write;
};

/// Rows of 0 to 3 columns of 11, a target each.
inline Contents write_rows_group(data::hdf5::File& file, const std::string& group, std::int64_t rows, bool data) {
  Contents contents;
  std::vector<std::uint64_t> indptr{0};
  std::vector<std::uint32_t> indices;
  std::vector<float> values, targets;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::size_t first = indices.size();
    for (std::int64_t k = 0; k < row % 4; ++k) {
      indices.push_back(static_cast<std::uint32_t>(row % 3 + 4 * k));
      values.push_back(data ? static_cast<float>(100 * row + k) : 1.0F);
    }
    indptr.push_back(indices.size());
    targets.push_back(static_cast<float>(row) + 0.5F);
    contents.push_back(
        fmt::format("{}:{}={}", fmt::join(indices.begin() + static_cast<std::ptrdiff_t>(first), indices.end(), ","),
                    fmt::join(values.begin() + static_cast<std::ptrdiff_t>(first), values.end(), ","), targets.back()));
  }
  file.write(group + "/features/indptr", indptr);
  file.write(group + "/features/indices", indices);
  if (data) file.write(group + "/features/data", values);
  file.write_attribute(group + "/features", "columns", std::int64_t{11});
  file.write(group + "/targets", targets);
  return contents;
}

/// Entries of different pairs, where there are not too many, in no order.
inline Contents write_entries_group(data::hdf5::File& file, const std::array<std::string, 3>& datasets,
                                    std::int64_t entries, std::uint32_t rows, std::uint32_t columns) {
  RandomStream random(5, Purpose::test, static_cast<std::uint64_t>(entries));
  Contents contents;
  std::vector<std::uint32_t> row, column;
  std::vector<float> values;
  for (std::int64_t i = 0; i < entries; ++i) {
    row.push_back(static_cast<std::uint32_t>(random.below(rows)));
    column.push_back(static_cast<std::uint32_t>(random.below(columns)));
    values.push_back(static_cast<float>(i + 1));
    contents.push_back(fmt::format("({}, {}) {}", row.back(), column.back(), values.back()));
  }
  file.write(datasets[0], row);
  file.write(datasets[1], column);
  file.write(datasets[2], values);
  return contents;
}

inline void write_names(data::hdf5::File& file, const std::string& dictionary, std::size_t n) {
  if (file.exists(dictionary)) return;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < n; ++i) names.push_back(fmt::format("n{}", i));
  file.write_strings(dictionary, names);
}

inline Contents write_ratings_group(data::hdf5::File& file, const std::string& group, std::int64_t entries) {
  write_names(file, "dictionary/users", 70);
  write_names(file, "dictionary/items", 40);
  return write_entries_group(file, {group + "/users", group + "/items", group + "/ratings"}, entries, 70, 40);
}

inline Contents write_cooccurrences_group(data::hdf5::File& file, const std::string& group, std::int64_t entries) {
  write_names(file, "dictionary/words", 30);
  return write_entries_group(file, {group + "/rows", group + "/columns", group + "/counts"}, entries, 30, 30);
}

/// Sentences of 1 to 6 words.
inline Contents write_text_group(data::hdf5::File& file, const std::string& group, std::int64_t sentences) {
  constexpr std::size_t kWords = 50;
  RandomStream random(5, Purpose::test, static_cast<std::uint64_t>(sentences));
  Contents contents;
  std::vector<std::int32_t> words;
  std::vector<std::uint64_t> bounds{0};
  for (std::int64_t i = 0; i < sentences; ++i) {
    const auto first = static_cast<std::ptrdiff_t>(words.size());
    for (std::uint64_t k = 0; k <= random.below(6); ++k)
      words.push_back(static_cast<std::int32_t>(random.below(kWords)));
    words.push_back(static_cast<std::int32_t>(i % 50));
    bounds.push_back(words.size());
    contents.push_back(fmt::format("{}", fmt::join(words.begin() + first, words.end(), " ")));
  }
  file.write(group + "/words", words);
  file.write(group + "/sentences", bounds);
  write_names(file, "dictionary/words", kWords);
  if (!file.exists("dictionary/counts")) file.write("dictionary/counts", std::vector<std::int64_t>(kWords, 7));
  return contents;
}

inline const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {{"rows", data::SetKind::sparse,
                                         [](data::hdf5::File& file, const std::string& group, std::int64_t n) {
                                           return write_rows_group(file, group, n, true);
                                         }},
                                        {"rows of ones", data::SetKind::sparse,
                                         [](data::hdf5::File& file, const std::string& group, std::int64_t n) {
                                           return write_rows_group(file, group, n, false);
                                         }},
                                        {"ratings", data::SetKind::ratings, write_ratings_group},
                                        {"text", data::SetKind::text, write_text_group},
                                        {"co-occurrences", data::SetKind::cooccurrences, write_cooccurrences_group}};
  return all;
}

/// What stands in memory as row, entry or sentence i.
inline std::string content(const data::ExampleSet& set, std::int64_t i) {
  const auto at = static_cast<std::size_t>(i);
  if (const auto* entries = std::get_if<data::SparseEntries>(&set)) {
    const SparseEntry& entry = (*entries)[at];
    return fmt::format("({}, {}) {}", entry.row, entry.column, entry.value);
  }
  if (const auto* text = std::get_if<Text>(&set)) {
    const auto words = text->words.subspan(text->sentences[at], text->sentences[at + 1] - text->sentences[at]);
    return fmt::format("{}", fmt::join(words.begin(), words.end(), " "));
  }
  const auto& [rows, targets, weights] = std::get<data::LabelledRows>(set);
  const std::size_t first = rows.offsets[at], count = rows.offsets[at + 1] - first;
  const auto columns = rows.columns.subspan(first, count);
  std::vector<float> values(count, 1.0F);
  if (!rows.values.empty())
    std::copy_n(rows.values.begin() + static_cast<std::ptrdiff_t>(first), count, values.begin());
  return fmt::format("{}:{}={}", fmt::join(columns.begin(), columns.end(), ","),
                     fmt::join(values.begin(), values.end(), ","), targets[at]);
}

inline Contents contents_of(const data::Batch& batch) {
  Contents contents;
  for (const data::ExampleRange& range : batch.ranges) {
    for (std::int64_t i = range.first; i < range.last; ++i) contents.push_back(content(*batch.set, i));
  }
  return contents;
}

/// The next `steps` steps of a source.
inline std::vector<Contents> take_contents(data::BatchSource& source, std::int64_t steps) {
  std::vector<Contents> taken;
  for (std::int64_t i = 0; i < steps; ++i) taken.push_back(contents_of(source.next()));
  return taken;
}

/// A rank's part of a split, or with one rank all of it.
inline Contents evaluated(data::Dataset& set, data::Split split, int rank = 0, int size = 1, Index batch_size = 7) {
  Contents contents;
  const auto source = set.evaluate(split, rank, size, batch_size);
  while (const auto batch = source->next()) {
    const Contents more = contents_of(*batch);
    contents.insert(contents.end(), more.begin(), more.end());
  }
  return contents;
}

inline Contents joined(const std::vector<Contents>& parts) {
  Contents all;
  for (const Contents& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

inline Contents sorted(Contents contents) {
  std::sort(contents.begin(), contents.end());
  return contents;
}

inline data::DataSettings settings_for(const std::string& path, bool shuffle = true, double validation_fraction = 0) {
  data::DataSettings settings;
  settings.path = path;
  settings.shuffle = shuffle;
  settings.validation_fraction = validation_fraction;
  return settings;
}

/// Opened as for a trained model.
inline std::unique_ptr<data::Dataset> open_trained(const data::DataSettings& settings, std::uint64_t seed) {
  const data::Preprocessing none;
  return data::open_dataset(settings, seed, {}, &none);
}

}  // namespace unisono::test
