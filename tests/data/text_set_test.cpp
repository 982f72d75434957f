// Text in memory: chunks of whole sentences. See src/data/sparse/word_sets.cpp.
#include <catch2/catch.hpp>

#include "sparse/split.hpp"
#include "sparse_sets.hpp"

using namespace unisono::data;
using namespace unisono::test;

namespace {

/// Sentences of these lengths, of the word 0.
std::string write_sentences(const std::string& path, const std::vector<std::uint64_t>& lengths) {
  std::vector<std::uint64_t> bounds{0};
  for (const std::uint64_t length : lengths) bounds.push_back(bounds.back() + length);
  unisono::data::hdf5::File file(path, unisono::data::hdf5::File::Mode::create);
  file.write("train/words", std::vector<std::int32_t>(bounds.back()));
  file.write("train/sentences", bounds);
  file.write_strings("dictionary/words", {"a"});
  return path;
}

}  // namespace

TEST_CASE("a step of a text takes whole sentences, of about its words", "[sparse][text]") {
  const unisono::test::TempDir folder;
  std::vector<std::uint64_t> lengths;
  for (std::uint64_t i = 0; i < 4000; ++i) lengths.push_back(i % 11);  // empty ones among them
  write_sentences(folder / "a.h5", lengths);
  const auto set = unisono::data::open_dataset(unisono::test::settings_for(folder / "a.h5"), 1);
  const auto source = set->train({.batch_size = 1000});
  const std::int64_t words = source->examples_per_epoch();
  CHECK(words == set->info().train);
  CHECK(source->steps_per_epoch() == (words + 999) / 1000);
  // A chunk has at least a 1024th of the words, and ends with the sentence that brings it there.
  const std::int64_t most = words / 1024 + 10;
  std::vector<int> seen(lengths.size());
  std::int64_t all = 0;
  for (std::int64_t step = 0; step < source->steps_per_epoch(); ++step) {
    const unisono::data::Batch batch = source->next();
    CHECK(std::abs(batch.size - words / source->steps_per_epoch()) <= most + 1);
    std::int64_t own = 0;
    for (const unisono::data::ExampleRange& range : batch.ranges) {
      for (std::int64_t i = range.first; i < range.last; ++i) {
        ++seen[static_cast<std::size_t>(i)];
        own += static_cast<std::int64_t>(lengths[static_cast<std::size_t>(i)]);
      }
    }
    CHECK(own == batch.size);
    all += own;
  }
  CHECK(all == words);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] > 0) CHECK(seen[i] == 1);
    CHECK(seen[i] <= 1);
  }
}

TEST_CASE("one long sentence is one step", "[sparse][text]") {
  const unisono::test::TempDir folder;
  write_sentences(folder / "a.h5", {30000});
  const auto set = unisono::data::open_dataset(unisono::test::settings_for(folder / "a.h5"), 1);
  const auto source = set->train({.batch_size = 100});
  CHECK(source->steps_per_epoch() == 1);
  CHECK(source->next().size == 30000);
  CHECK(source->next().epoch == 1);
  // Of two ranks one has nothing to do.
  const auto second = set->train({.rank = 1, .size = 2, .batch_size = 100});
  const unisono::data::Batch batch = second->next();
  CHECK(batch.size == 0);
  CHECK(batch.ranges.empty());
  CHECK(batch.global_size == 30000);
}
