// Ratings in memory: a grid of blocks. See src/data/sparse/split.cpp.
#include <catch2/catch.hpp>
#include <set>
#include <tuple>

#include "sparse/split.hpp"
#include "sparse_sets.hpp"

using namespace unisono::data;
using namespace unisono::test;

namespace {

/// Ratings of which the first users and items have the most.
std::string write_uneven(const std::string& path, std::size_t n, std::uint32_t users, std::uint32_t items) {
  unisono::RandomStream random(3, unisono::Purpose::test);
  std::vector<std::uint32_t> user, item;
  std::vector<float> rating;
  const auto draw = [&](std::uint32_t lines) {
    const float x = random.uniform();
    return std::min(lines - 1, static_cast<std::uint32_t>(x * x * x * static_cast<float>(lines)));
  };
  for (std::size_t i = 0; i < n; ++i) {
    user.push_back(draw(users));
    item.push_back(draw(items));
    rating.push_back(static_cast<float>(i));
  }
  unisono::data::hdf5::File file(path, unisono::data::hdf5::File::Mode::create);
  file.write("train/users", user);
  file.write("train/items", item);
  file.write("train/ratings", rating);
  return path;
}

/// The users and items of one chunk.
struct Lines {
  std::set<std::uint32_t> users, items;
  std::int64_t ratings = 0;
};

template <typename T>
bool share(const std::set<T>& a, const std::set<T>& b) {
  return std::any_of(a.begin(), a.end(), [&](const T& one) { return b.count(one) > 0; });
}

}  // namespace

TEST_CASE("blocks of ratings share all users or none, all items or none", "[sparse][ratings]") {
  for (const double fraction : {0.0, 0.1}) {
    const unisono::test::TempDir folder;
    write_uneven(folder / "a.h5", 40000, 900, 300);
    const auto set = unisono::data::open_dataset(unisono::test::settings_for(folder / "a.h5", true, fraction), 1);
    const auto source = set->train({.batch_size = 40000});
    const unisono::data::Batch batch = source->next();
    const auto entries = std::get<unisono::data::SparseEntries>(*batch.set);
    std::vector<Lines> blocks;
    std::int64_t same_user = 0;
    for (const unisono::data::ExampleRange& range : batch.ranges) {
      Lines& lines = blocks.emplace_back();
      lines.ratings = range.size();
      for (std::int64_t i = range.first; i < range.last; ++i) {
        const unisono::SparseEntry& entry = entries[static_cast<std::size_t>(i)];
        lines.users.insert(entry.row);
        lines.items.insert(entry.column);
        if (i == range.first) continue;
        same_user += entries[static_cast<std::size_t>(i) - 1].row == entry.row ? 1 : 0;
      }
    }
    // Neighbours of random order in blocks of some 110 users of very different numbers of ratings.
    CHECK(same_user < 40000 / 4);
    // 40,000 ratings make at most ⌊√(40000 / 512)⌋ = 8 blocks a side, 36,000 as many.
    CHECK(blocks.size() <= 64);
    CHECK(blocks.size() >= 32);
    std::set<std::pair<std::uint32_t, std::uint32_t>> bands;
    for (const Lines& lines : blocks) bands.insert({*lines.users.begin(), *lines.users.rbegin()});
    for (std::size_t a = 0; a < blocks.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        // Bands of users overlap only where they are the same row of the grid; nothing may be in two blocks.
        CHECK_FALSE((share(blocks[a].users, blocks[b].users) && share(blocks[a].items, blocks[b].items)));
      }
    }
    const auto largest = std::max_element(blocks.begin(), blocks.end(),
                                          [](const Lines& a, const Lines& b) { return a.ratings < b.ratings; });
    CHECK(largest->ratings < 4 * 40000 / 64);
  }
}

TEST_CASE("a user of more than a block's ratings is one block's, and nothing is lost", "[sparse][ratings]") {
  const unisono::test::TempDir folder;
  {
    std::vector<std::uint32_t> user(6000, 2), item(6000);
    std::vector<float> rating(6000);
    for (std::size_t i = 0; i < 6000; ++i) {
      if (i % 10 == 0) user[i] = static_cast<std::uint32_t>(i % 50);
      item[i] = static_cast<std::uint32_t>(i % 7);
      rating[i] = static_cast<float>(i);
    }
    unisono::data::hdf5::File file(folder / "a.h5", unisono::data::hdf5::File::Mode::create);
    file.write("train/users", user);
    file.write("train/items", item);
    file.write("train/ratings", rating);
  }
  const auto set = unisono::data::open_dataset(unisono::test::settings_for(folder / "a.h5"), 1);
  CHECK(set->info().train == 6000);
  const auto source = set->train({.batch_size = 512});
  const unisono::test::Contents all =
      unisono::test::sorted(unisono::test::joined(unisono::test::take_contents(*source, source->steps_per_epoch())));
  CHECK((all == unisono::test::sorted(unisono::test::evaluated(
                    *unisono::data::open_dataset(unisono::test::settings_for(folder / "a.h5", false), 1),
                    unisono::data::Split::train))));
  CHECK((std::set<std::string>(all.begin(), all.end()).size() == 6000));
}

TEST_CASE("how many examples are held back", "[sparse]") {
  CHECK(unisono::data::held_out_examples(1000, 0) == 0);
  CHECK(unisono::data::held_out_examples(1000, 0.1) == 100);
  CHECK(unisono::data::held_out_examples(1000, 0.0001) == 1);
  CHECK(unisono::data::held_out_examples(1000, 0.9999) == 999);
  CHECK(unisono::data::held_out_examples(2, 0.5) == 1);
  CHECK(unisono::data::held_out_examples(1, 0.5) == 0);
}

TEST_CASE("units are cut into chunks, the last one of what is left", "[sparse]") {
  unisono::data::LoadedSplit split;
  unisono::data::cut_evenly({10, 20}, 4, split);
  CHECK(split.chunks == std::vector<unisono::data::ExampleRange>{{10, 14}, {14, 18}, {18, 20}});
  CHECK(split.chunk_examples == std::vector<std::int64_t>{4, 4, 2});
  CHECK(split.examples == 10);
  unisono::data::cut_evenly({20, 20}, 4, split);
  CHECK(split.chunks.size() == 3);
}
