#include <catch2/catch.hpp>
#include <set>
#include <value_of.hpp>

#include "sparse_sets.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/data/dataset.hpp"

using namespace unisono::data;
using namespace unisono::test;

namespace {

unisono::data::DataSettings strata(const std::string& path, const std::string& partition,
                                   double validation_fraction = 0) {
  unisono::data::DataSettings settings = unisono::test::settings_for(path, true, validation_fraction);
  settings.partition = unisono::value_of(partition, unisono::data::kPartitions);
  settings.order = unisono::data::Order::strata;
  return settings;
}

std::unique_ptr<unisono::data::Dataset> open_part(const unisono::data::DataSettings& settings, int rank, int ranks) {
  unisono::data::NodeShare share;
  share.rank = rank;
  share.size = ranks;
  return unisono::data::open_dataset(settings, 1, share);
}

/// An entry as it was in the file, of the numbers that a rank with these rows of the grid gave it.
std::string global_content(const unisono::SparseEntry& entry, unisono::Index side, unisono::Index users,
                           unisono::data::ExampleRange rows, unisono::Index column) {
  unisono::Index first = 0, row = rows.first;
  const unisono::data::CyclicDistribution deal{.things = users, .parts = side};
  while (entry.row >= first + deal.size(row)) first += deal.size(row++);
  return fmt::format("({}, {}) {}", (entry.row - first) * side + row, entry.column * side + column, entry.value);
}

}  // namespace

TEST_CASE("things are dealt like cards", "[strata]") {
  const unisono::data::CyclicDistribution deal{.things = 11, .parts = 4};
  CHECK(deal.size(0) == 3);
  CHECK(deal.size(2) == 3);
  CHECK(deal.size(3) == 2);
  CHECK(deal.largest() == 3);
  CHECK(unisono::data::CyclicDistribution{.things = 2, .parts = 4}.size(3) == 0);
}

TEST_CASE("a stratum's blocks share neither users nor items, and an epoch has every rating once", "[strata]") {
  const unisono::test::TempDir folder;
  const std::int64_t n = 20000;  // ⌊√(20000 / 512)⌋ = 6 blocks a side
  unisono::test::Contents contents;
  {
    unisono::data::hdf5::File file(folder / "a.h5", unisono::data::hdf5::File::Mode::create);
    contents = unisono::test::write_ratings_group(file, "train", n);
  }
  const auto set = unisono::data::open_dataset(strata(folder / "a.h5", "global"), 1);
  REQUIRE(set->info().grid == 6);
  const auto source = set->train({});
  REQUIRE(source->steps_per_epoch() == 6);
  CHECK(source->examples_per_epoch() == n);
  for (int epoch = 0; epoch < 2; ++epoch) {
    unisono::test::Contents seen;
    std::int64_t before = 0;
    for (int step = 0; step < 6; ++step) {
      const unisono::data::Batch batch = source->next();
      const auto entries = std::get<unisono::data::SparseEntries>(*batch.set);
      CHECK(batch.epoch == epoch);
      CHECK(batch.epoch_examples_before == before);
      CHECK(batch.last_of_epoch == (step == 5));
      CHECK(batch.size == batch.global_size);
      REQUIRE(batch.ranges.size() == 6);
      before += batch.size;
      for (int row = 0; row < 6; ++row) {
        const unisono::data::ExampleRange& block = batch.ranges[static_cast<std::size_t>(row)];
        for (std::int64_t i = block.first; i < block.last; ++i) {
          const unisono::SparseEntry& entry = entries[static_cast<std::size_t>(i)];
          CHECK(entry.row % 6 == static_cast<std::uint32_t>(row));
          CHECK(entry.column % 6 == static_cast<std::uint32_t>((row + step) % 6));
          seen.push_back(unisono::test::content(*batch.set, i));
        }
      }
    }
    CHECK(unisono::test::sorted(seen) == unisono::test::sorted(contents));
  }
}

TEST_CASE("ranks hold the ratings of their users, in the order of the whole", "[strata]") {
  const unisono::test::TempDir folder;
  unisono::test::Contents contents, tested;
  {
    unisono::data::hdf5::File file(folder / "a.h5", unisono::data::hdf5::File::Mode::create);
    contents = unisono::test::write_ratings_group(file, "train", 20000);
    tested = unisono::test::write_ratings_group(file, "test", 3000);
  }
  for (const double fraction : {0.0, 0.25}) {
    const auto whole = unisono::data::open_dataset(strata(folder / "a.h5", "global", fraction), 1);
    const unisono::Index side = whole->info().grid;
    for (const int ranks : {1, 2, 3, 5}) {
      unisono::test::Contents trained, all_tested, validated;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto set = open_part(strata(folder / "a.h5", "strata", fraction), rank, ranks);
        CHECK(set->info().train == whole->info().train);
        CHECK(set->info().mean_value == whole->info().mean_value);
        const unisono::data::ExampleRange rows{side * rank / ranks, side * (rank + 1) / ranks};
        const auto source = set->train({.rank = rank, .size = ranks});
        const auto reference = whole->train({.rank = rank, .size = ranks});
        CHECK(source->examples_per_epoch() == whole->info().train);
        const auto collect = [&](const unisono::data::Batch& batch, unisono::Index step, unisono::test::Contents& to) {
          REQUIRE(batch.ranges.size() == static_cast<std::size_t>(rows.size()));
          for (unisono::Index row = rows.first; row < rows.last; ++row) {
            const unisono::data::ExampleRange& block = batch.ranges[static_cast<std::size_t>(row - rows.first)];
            for (std::int64_t i = block.first; i < block.last; ++i) {
              to.push_back(
                  global_content(std::get<unisono::data::SparseEntries>(*batch.set)[static_cast<std::size_t>(i)], side,
                                 70, rows, (row + step) % side));
            }
          }
        };
        for (unisono::Index step = 0; step < side; ++step) {
          const unisono::data::Batch batch = source->next(), same = reference->next();
          unisono::test::Contents own, expected;
          collect(batch, step, own);
          for (const unisono::data::ExampleRange& range : same.ranges) {
            for (std::int64_t i = range.first; i < range.last; ++i)
              expected.push_back(unisono::test::content(*same.set, i));
          }
          CHECK(own == expected);
          CHECK(batch.global_size == same.global_size);
          trained.insert(trained.end(), own.begin(), own.end());
        }
        const auto evaluated = [&](unisono::data::Split split, unisono::test::Contents& to) {
          const auto evaluation = set->evaluate(split, rank, ranks, 100);
          for (unisono::Index step = 0; step < side; ++step) collect(*evaluation->next(), step, to);
          CHECK_FALSE(evaluation->next());
        };
        evaluated(unisono::data::Split::test, all_tested);
        if (fraction > 0) evaluated(unisono::data::Split::validation, validated);
      }
      CHECK(unisono::test::sorted(all_tested) == unisono::test::sorted(tested));
      trained.insert(trained.end(), validated.begin(), validated.end());
      CHECK(unisono::test::sorted(trained) == unisono::test::sorted(contents));
    }
  }
}

TEST_CASE("a source in strata goes on anywhere", "[strata]") {
  const unisono::test::TempDir folder;
  {
    unisono::data::hdf5::File file(folder / "a.h5", unisono::data::hdf5::File::Mode::create);
    unisono::test::write_ratings_group(file, "train", 20000);
  }
  const auto set = unisono::data::open_dataset(strata(folder / "a.h5", "global"), 1);
  const auto source = set->train({}), later = set->train({});
  for (int step = 0; step < 10; ++step) source->next();
  later->seek({.epoch = 1, .step = 4});
  const unisono::data::Batch batch = source->next(), same = later->next();
  CHECK(std::equal(batch.ranges.begin(), batch.ranges.end(), same.ranges.begin(), same.ranges.end()));
  CHECK(same.epoch == 1);
}

TEST_CASE("only ratings come in strata", "[strata]") {
  const unisono::test::TempDir folder;
  {
    unisono::data::hdf5::File file(folder / "text.h5", unisono::data::hdf5::File::Mode::create);
    unisono::test::write_text_group(file, "train", 10);
  }
  CHECK_THROWS_AS(unisono::data::open_dataset(strata(folder / "text.h5", "global"), 1), unisono::ConfigError);
}
