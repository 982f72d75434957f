#include "unisono/data/dataset.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "sparse_sets.hpp"

using namespace unisono::data;
using namespace unisono::test;

namespace {

/// What each training example touches; users are even numbers, items odd ones.
std::vector<std::vector<std::int64_t>> touched(const std::string& path) {
  const auto set = unisono::data::open_dataset(unisono::test::settings_for(path, false), 1);
  const auto source = set->train({.batch_size = set->info().train});
  const unisono::data::Batch batch = source->next();
  std::vector<std::vector<std::int64_t>> all;
  for (const unisono::data::ExampleRange& range : batch.ranges) {
    for (std::int64_t i = range.first; i < range.last; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (const auto* entries = std::get_if<unisono::data::SparseEntries>(batch.set)) {
        all.push_back({2 * std::int64_t{(*entries)[at].row}, 2 * std::int64_t{(*entries)[at].column} + 1});
      } else {
        const unisono::SparseRows& rows = std::get<unisono::data::LabelledRows>(*batch.set).rows;
        all.emplace_back(rows.columns.begin() + static_cast<std::ptrdiff_t>(rows.offsets[at]),
                         rows.columns.begin() + static_cast<std::ptrdiff_t>(rows.offsets[at + 1]));
      }
    }
  }
  return all;
}

bool meet(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
  return std::find_first_of(a.begin(), a.end(), b.begin(), b.end()) != a.end();
}

/// By the definition, looking at every pair.
unisono::data::Sparsity by_pairs(const std::vector<std::vector<std::int64_t>>& examples) {
  const auto n = static_cast<double>(examples.size());
  unisono::data::Sparsity sparsity;
  for (const auto& one : examples) {
    sparsity.omega = std::max(sparsity.omega, static_cast<std::int64_t>(one.size()));
    double neighbours = 0;
    for (const auto& other : examples) neighbours += meet(one, other) ? 1 : 0;
    sparsity.rho = std::max(sparsity.rho, neighbours / n);
    sparsity.rho_at_random += neighbours / n / n;
    for (const std::int64_t vertex : one) {
      double degree = 0;
      for (const auto& other : examples) degree += std::count(other.begin(), other.end(), vertex) > 0 ? 1 : 0;
      sparsity.delta = std::max(sparsity.delta, degree / n);
    }
  }
  return sparsity;
}

/// A set's figures, which must be those of their definition.
unisono::data::Sparsity checked(const std::string& path) {
  const unisono::data::Sparsity expected = by_pairs(touched(path));
  unisono::data::DataSettings settings;
  settings.path = path;
  const auto sparsity = unisono::data::sparsity_of(settings);
  REQUIRE(sparsity);
  CHECK(sparsity->omega == expected.omega);
  CHECK(sparsity->delta == Approx(expected.delta));
  CHECK(sparsity->rho == Approx(expected.rho));
  CHECK(sparsity->rho_at_random == Approx(expected.rho_at_random));
  return *sparsity;
}

}  // namespace

TEST_CASE("the sparsity figures of rows are those of their definition", "[sparse]") {
  const unisono::test::TempDir folder;
  {
    unisono::data::hdf5::File file(folder / "a.h5", unisono::data::hdf5::File::Mode::create);
    unisono::test::write_rows_group(file, "train", 60, true);  // so few that all are watched
  }
  CHECK(checked(folder / "a.h5").omega == 3);
}

TEST_CASE("… and those of ratings, each pair being rated once", "[sparse]") {
  const unisono::test::TempDir folder;
  {
    std::vector<std::uint32_t> users, items;
    for (std::uint32_t user = 0; user < 20; ++user) {
      for (std::uint32_t item = 0; item < 15; ++item) {
        if ((user * 7 + item * 5) % 4 != 0 && item > user % 9) continue;
        users.push_back(user);
        items.push_back(item);
      }
    }
    unisono::data::hdf5::File file(folder / "a.h5", unisono::data::hdf5::File::Mode::create);
    file.write("train/users", users);
    file.write("train/items", items);
    file.write("train/ratings", std::vector<float>(users.size(), 1.0F));
  }
  CHECK(checked(folder / "a.h5").omega == 2);
}

TEST_CASE("sets without such figures", "[sparse]") {
  const unisono::test::TempDir folder;
  {
    unisono::data::hdf5::File file(folder / "text.h5", unisono::data::hdf5::File::Mode::create);
    unisono::test::write_text_group(file, "train", 10);
    unisono::data::hdf5::File empty(folder / "empty.h5", unisono::data::hdf5::File::Mode::create);
    empty.write("train/features/indptr", std::vector<std::uint64_t>(4));
    empty.write("train/features/indices", std::vector<std::uint32_t>{});
    empty.write_attribute("train/features", "columns", std::int64_t{11});
    empty.write("train/targets", std::vector<float>(3));
  }
  unisono::data::DataSettings settings;
  settings.path = folder / "text.h5";
  CHECK_FALSE(unisono::data::sparsity_of(settings));
  settings.path = folder / "empty.h5";
  CHECK(unisono::data::sparsity_of(settings)->omega == 0);
}
