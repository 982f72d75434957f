#include <catch2/catch.hpp>
#include <set>

#include "sparse_sets.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/data/grid.hpp"

using namespace unisono;
using namespace unisono::test;

namespace {

DataSettings strata(const std::string& path, const std::string& partition, double validation_fraction = 0) {
  DataSettings settings = settings_for(path, true, validation_fraction);
  settings.partition = partition;
  settings.order = "strata";
  return settings;
}

std::unique_ptr<Dataset> open_part(const DataSettings& settings, int rank, int ranks) {
  NodeShare share;
  share.rank = rank;
  share.size = ranks;
  return open_dataset(settings, 1, share);
}

/// An entry as it was in the file, of the numbers that a rank with these rows of the grid gave it.
std::string global_content(const SparseEntry& entry, Index side, Index users, ExampleRange rows, Index column) {
  Index first = 0, row = rows.first;
  const Deal deal{.things = users, .parts = side};
  while (entry.row >= first + deal.size(row)) first += deal.size(row++);
  return fmt::format("({}, {}) {}", (entry.row - first) * side + row, entry.column * side + column, entry.value);
}

}  // namespace

TEST_CASE("things are dealt like cards", "[strata]") {
  const Deal deal{.things = 11, .parts = 4};
  CHECK(deal.size(0) == 3);
  CHECK(deal.size(2) == 3);
  CHECK(deal.size(3) == 2);
  CHECK(deal.largest() == 3);
  CHECK(Deal{.things = 2, .parts = 4}.size(3) == 0);
}

TEST_CASE("a stratum's blocks share neither users nor items, and an epoch has every rating once", "[strata]") {
  const TempDir folder;
  const std::int64_t n = 20000;  // ⌊√(20000 / 512)⌋ = 6 blocks a side
  Contents contents;
  {
    hdf5::File file(folder / "a.h5", hdf5::File::Mode::create);
    contents = write_ratings_group(file, "train", n);
  }
  const auto set = open_dataset(strata(folder / "a.h5", "global"), 1);
  REQUIRE(set->info().grid == 6);
  const auto source = set->train({});
  REQUIRE(source->steps_per_epoch() == 6);
  CHECK(source->examples_per_epoch() == n);
  for (int epoch = 0; epoch < 2; ++epoch) {
    Contents seen;
    std::int64_t before = 0;
    for (int step = 0; step < 6; ++step) {
      const Batch batch = source->next();
      const auto entries = std::get<SparseEntries>(*batch.set);
      CHECK(batch.epoch == epoch);
      CHECK(batch.epoch_examples_before == before);
      CHECK(batch.last_of_epoch == (step == 5));
      CHECK(batch.size == batch.global_size);
      REQUIRE(batch.ranges.size() == 6);
      before += batch.size;
      for (int row = 0; row < 6; ++row) {
        const ExampleRange& block = batch.ranges[static_cast<std::size_t>(row)];
        for (std::int64_t i = block.first; i < block.last; ++i) {
          const SparseEntry& entry = entries[static_cast<std::size_t>(i)];
          CHECK(entry.row % 6 == static_cast<std::uint32_t>(row));
          CHECK(entry.column % 6 == static_cast<std::uint32_t>((row + step) % 6));
          seen.push_back(content(*batch.set, i));
        }
      }
    }
    CHECK(sorted(seen) == sorted(contents));
  }
}

TEST_CASE("ranks hold the ratings of their users, in the order of the whole", "[strata]") {
  const TempDir folder;
  Contents contents, tested;
  {
    hdf5::File file(folder / "a.h5", hdf5::File::Mode::create);
    contents = write_ratings_group(file, "train", 20000);
    tested = write_ratings_group(file, "test", 3000);
  }
  for (const double fraction : {0.0, 0.25}) {
    const auto whole = open_dataset(strata(folder / "a.h5", "global", fraction), 1);
    const Index side = whole->info().grid;
    for (const int ranks : {1, 2, 3, 5}) {
      Contents trained, all_tested, validated;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto set = open_part(strata(folder / "a.h5", "strata", fraction), rank, ranks);
        CHECK(set->info().train == whole->info().train);
        CHECK(set->info().mean_value == whole->info().mean_value);
        const ExampleRange rows{side * rank / ranks, side * (rank + 1) / ranks};
        const auto source = set->train({.rank = rank, .size = ranks});
        const auto reference = whole->train({.rank = rank, .size = ranks});
        CHECK(source->examples_per_epoch() == whole->info().train);
        const auto collect = [&](const Batch& batch, Index step, Contents& to) {
          REQUIRE(batch.ranges.size() == static_cast<std::size_t>(rows.size()));
          for (Index row = rows.first; row < rows.last; ++row) {
            const ExampleRange& block = batch.ranges[static_cast<std::size_t>(row - rows.first)];
            for (std::int64_t i = block.first; i < block.last; ++i) {
              to.push_back(global_content(std::get<SparseEntries>(*batch.set)[static_cast<std::size_t>(i)], side, 70,
                                          rows, (row + step) % side));
            }
          }
        };
        for (Index step = 0; step < side; ++step) {
          const Batch batch = source->next(), same = reference->next();
          Contents own, expected;
          collect(batch, step, own);
          for (const ExampleRange& range : same.ranges) {
            for (std::int64_t i = range.first; i < range.last; ++i) expected.push_back(content(*same.set, i));
          }
          CHECK(own == expected);
          CHECK(batch.global_size == same.global_size);
          trained.insert(trained.end(), own.begin(), own.end());
        }
        const auto evaluated = [&](Split split, Contents& to) {
          const auto evaluation = set->evaluate(split, rank, ranks, 100);
          for (Index step = 0; step < side; ++step) collect(*evaluation->next(), step, to);
          CHECK_FALSE(evaluation->next());
        };
        evaluated(Split::test, all_tested);
        if (fraction > 0) evaluated(Split::validation, validated);
      }
      CHECK(sorted(all_tested) == sorted(tested));
      trained.insert(trained.end(), validated.begin(), validated.end());
      CHECK(sorted(trained) == sorted(contents));
    }
  }
}

TEST_CASE("a source in strata goes on anywhere", "[strata]") {
  const TempDir folder;
  {
    hdf5::File file(folder / "a.h5", hdf5::File::Mode::create);
    write_ratings_group(file, "train", 20000);
  }
  const auto set = open_dataset(strata(folder / "a.h5", "global"), 1);
  const auto source = set->train({}), later = set->train({});
  for (int step = 0; step < 10; ++step) source->next();
  later->seek({.epoch = 1, .step = 4});
  const Batch batch = source->next(), same = later->next();
  CHECK(std::equal(batch.ranges.begin(), batch.ranges.end(), same.ranges.begin(), same.ranges.end()));
  CHECK(same.epoch == 1);
}

TEST_CASE("only ratings come in strata", "[strata]") {
  const TempDir folder;
  {
    hdf5::File file(folder / "text.h5", hdf5::File::Mode::create);
    write_text_group(file, "train", 10);
  }
  CHECK_THROWS_AS(open_dataset(strata(folder / "text.h5", "global"), 1), ConfigError);
}
