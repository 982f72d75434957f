#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "cooccurrence/pair_table.hpp"
#include "sets.hpp"
#include "unisono/data/import.hpp"

using namespace unisono::data;
using Catch::Contains;
using unisono::test::TempDir;

namespace {

using Pair = std::pair<std::uint32_t, std::uint32_t>;

struct CountedEntries {
  std::vector<std::uint32_t> rows, columns;
  std::vector<float> counts;
  unisono::data::CooccurrenceSummary summary;
  bool operator==(const CountedEntries& other) const {
    return rows == other.rows && columns == other.columns && counts == other.counts;
  }
  std::map<Pair, float> by_pair() const {
    std::map<Pair, float> entries;
    for (std::size_t i = 0; i < rows.size(); ++i) entries[{rows[i], columns[i]}] = counts[i];
    return entries;
  }
};

/// A set of text, of sentences of word numbers.
std::string write_text(const std::string& path, const std::vector<std::vector<std::int32_t>>& sentences,
                       std::size_t vocabulary) {
  std::vector<std::int32_t> words;
  std::vector<std::uint64_t> ends{0};
  for (const auto& sentence : sentences) {
    words.insert(words.end(), sentence.begin(), sentence.end());
    ends.push_back(words.size());
  }
  unisono::data::hdf5::File file(path, unisono::data::hdf5::File::Mode::create);
  file.write("train/words", words);
  file.write("train/sentences", ends);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < vocabulary; ++i) names.push_back("w" + std::to_string(i));
  file.write_strings("dictionary/words", names);
  file.write("dictionary/counts", std::vector<std::int64_t>(vocabulary, 1));
  return path;
}

CountedEntries count(const std::string& text, const unisono::data::CooccurrenceOptions& options) {
  const TempDir folder;
  CountedEntries entries;
  entries.summary = unisono::data::count_cooccurrences(text, options, {.path = folder / "c.h5"});
  const unisono::data::hdf5::File file(folder / "c.h5", unisono::data::hdf5::File::Mode::read);
  entries.rows = file.read<std::uint32_t>("train/rows");
  entries.columns = file.read<std::uint32_t>("train/columns");
  entries.counts = file.read<float>("train/counts");
  CHECK(file.read_strings("dictionary/words") ==
        unisono::data::hdf5::File(text, unisono::data::hdf5::File::Mode::read).read_strings("dictionary/words"));
  return entries;
}

std::string cooccurrence_refusal(const std::string& text, const unisono::data::CooccurrenceOptions& options = {}) {
  return unisono::test::message_of<unisono::DataError>([&] { count(text, options); });
}

std::vector<std::vector<std::int32_t>> random_text(std::size_t sentences, std::size_t length,
                                                   std::uint64_t vocabulary) {
  unisono::RandomStream random(1, unisono::Purpose::test);
  std::vector<std::vector<std::int32_t>> text(sentences);
  for (auto& sentence : text) {
    while (sentence.size() < length) sentence.push_back(static_cast<std::int32_t>(random.below(vocabulary)));
  }
  return text;
}

}  // namespace

TEST_CASE("words that are d places apart count 1/d, in both orders and within sentences", "[cooccurrences]") {
  const TempDir folder;
  // 0 1 2 | 1 1 | 2: 0–1 and 1–2 are neighbours, 0–2 two apart; 1–1 are neighbours, and count in both orders.
  const std::string text = write_text(folder / "t.h5", {{0, 1, 2}, {1, 1}, {}, {2}}, 3);
  const std::map<Pair, float> both{{{0, 1}, 1},   {{1, 0}, 1},   {{1, 2}, 1}, {{2, 1}, 1},
                                   {{0, 2}, 0.5}, {{2, 0}, 0.5}, {{1, 1}, 2}};
  CHECK(count(text, {}).by_pair() == both);
  CHECK(count(text, {}).summary.entries == 7);
  const std::map<Pair, float> right{{{0, 1}, 1}, {{1, 2}, 1}, {{0, 2}, 0.5}, {{1, 1}, 1}};
  CHECK(count(text, {.symmetric = false}).by_pair() == right);
  const std::map<Pair, float> neighbours{{{0, 1}, 1}, {{1, 2}, 1}, {{1, 1}, 1}};
  CHECK(count(text, {.window = 1, .symmetric = false}).by_pair() == neighbours);
}

TEST_CASE("counts are those of adding up every pair, however little memory there is", "[long][cooccurrences]") {
  const TempDir folder;
  const auto sentences = random_text(40, 1500, 700);  // some 240,000 pairs: many runs of a MiB
  const std::string text = write_text(folder / "t.h5", sentences, 700);
  std::map<Pair, double> expected;
  for (const auto& sentence : sentences) {
    for (std::size_t i = 0; i < sentence.size(); ++i) {
      for (std::size_t j = i + 1; j < std::min(sentence.size(), i + 8); ++j) {
        const auto a = static_cast<std::uint32_t>(sentence[i]), b = static_cast<std::uint32_t>(sentence[j]);
        expected[{a, b}] += 1.0 / static_cast<double>(j - i);
        expected[{b, a}] += 1.0 / static_cast<double>(j - i);
      }
    }
  }
  const CountedEntries at_once = count(text, {.window = 7}),
                       piecemeal = count(text, {.window = 7, .memory_bytes = 1 << 20});
  CHECK(at_once.summary.runs == 1);
  CHECK(piecemeal.summary.runs > 5);
  CHECK(at_once == piecemeal);
  const auto counts = at_once.by_pair();
  REQUIRE(counts.size() == expected.size());
  // Each of the addends is rounded to 2⁻³⁹ at most; the float's own rounding is 2⁻²⁵ of the sum.
  for (const auto& [pair, sum] : expected) CHECK(std::abs(counts.at(pair) - sum) <= 1e-7 * sum);
}

TEST_CASE("entries come in a random order of the seed's", "[cooccurrences]") {
  const TempDir folder;
  const std::string text = write_text(folder / "t.h5", random_text(10, 1000, 300), 300);
  const CountedEntries entries = count(text, {}), again = count(text, {}), other = count(text, {.seed = 2});
  CHECK(entries == again);
  CHECK_FALSE(entries == other);
  CHECK(entries.by_pair() == other.by_pair());
  // In each tenth of the entries the mean row is near the mean of all, 150 ± some deviations of 87/√n.
  const std::size_t tenth = entries.rows.size() / 10;
  for (std::size_t part = 0; part < 10; ++part) {
    double sum = 0;
    for (std::size_t i = part * tenth; i < (part + 1) * tenth; ++i) sum += entries.rows[i];
    CHECK(std::abs(sum / static_cast<double>(tenth) - 149.5) < 5 * 87 / std::sqrt(static_cast<double>(tenth)));
  }
}

TEST_CASE("a text that cannot be counted is refused, with what is wrong in it", "[cooccurrences]") {
  const TempDir folder;
  CHECK_THAT(cooccurrence_refusal(unisono::test::write_set(folder / "set.h5", {})),
             Contains("set.h5: has no /train/words; it is not a text set"));
  CHECK_THAT(cooccurrence_refusal(write_text(folder / "a.h5", {{0, 3}}, 3)),
             Contains("a.h5: /train/words: word 1 has the number 3, but the dictionary has only 3 words"));
  CHECK_THAT(cooccurrence_refusal(write_text(folder / "b.h5", {{0, -1}}, 3)), Contains("word 1 has the number -1"));
  CHECK_THAT(cooccurrence_refusal(write_text(folder / "c.h5", {{0}, {1}}, 3)),
             Contains("c.h5: no sentence has two or more words"));
  const auto with_ends = [&](const std::vector<std::uint64_t>& ends) {
    const std::string path = folder / "d.h5";
    {
      unisono::data::hdf5::File file(path, unisono::data::hdf5::File::Mode::create);
      file.write<std::int32_t>("train/words", {0, 1, 0});
      file.write("train/sentences", ends);
      file.write_strings("dictionary/words", {"a", "b"});
      file.write<std::int64_t>("dictionary/counts", {2, 1});
    }
    return cooccurrence_refusal(path);
  };
  CHECK_THAT(with_ends({1, 3}), Contains("/train/sentences: must begin with 0"));
  CHECK_THAT(with_ends({0, 4}), Contains("/train/sentences: holds 4 after 0; the values must ascend and be at most 3"));
  CHECK_THAT(with_ends({0, 2, 1, 3}), Contains("/train/sentences: holds 1 after 2"));
  CHECK_THAT(with_ends({0, 2}), Contains("/train/sentences: ends with 2, but must end with 3"));
  CHECK(with_ends({0, 2, 3}).empty());
  const auto bad_options = [&](const unisono::data::CooccurrenceOptions& options) {
    return unisono::test::message_of<unisono::ConfigError>([&] { count(folder / "d.h5", options); });
  };
  CHECK_THAT(bad_options({.memory_bytes = 1000}), Contains("--memory 1000"));
  CHECK_THAT(bad_options({.window = 0}), Contains("--window 0"));
}
