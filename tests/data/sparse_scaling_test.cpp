// Columns of sparse rows are divided by their standard deviations over the training rows.
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "order/schedule.hpp"
#include "sparse_sets.hpp"
#include "unisono/data/import.hpp"

using namespace unisono;
using namespace unisono::test;
using Catch::Contains;
using data::NormalizationKind;
using data::Split;
using data::hdf5::File;

namespace {

using Row = std::map<std::uint32_t, float>;

/// \param ones whether the values are left out of the file, which are all 1 then
void write_rows_as(File& file, const std::string& group, const std::vector<Row>& rows, bool ones = false,
                   std::int64_t columns = 5) {
  std::vector<std::uint64_t> indptr{0};
  std::vector<std::uint32_t> indices;
  std::vector<float> values, targets;
  for (const Row& row : rows) {
    for (const auto& [column, value] : row) {
      indices.push_back(column);
      values.push_back(value);
    }
    indptr.push_back(indices.size());
    targets.push_back(static_cast<float>(targets.size()));
  }
  file.write(group + "/features/indptr", indptr);
  file.write(group + "/features/indices", indices);
  if (!ones) file.write(group + "/features/data", values);
  file.write_attribute(group + "/features", "columns", columns);
  file.write(group + "/targets", targets);
}

/// Rows of 0 to 3 of 11 columns, whose values differ a thousandfold.
std::vector<Row> many_rows(std::size_t n) {
  RandomStream random(7, Purpose::test);
  std::vector<Row> rows(n);
  for (Row& row : rows) {
    for (std::uint64_t k = random.below(4); k > 0; --k) {
      const auto column = static_cast<std::uint32_t>(random.below(11));
      row[column] = static_cast<float>(random.below(1000)) * (column % 2 == 0 ? 1000.0F : 0.25F) - 100;
    }
  }
  return rows;
}

data::DataSettings scaled(const std::string& path, double validation_fraction = 0) {
  data::DataSettings settings = settings_for(path, true, validation_fraction);
  settings.normalization = NormalizationKind::feature;
  return settings;
}

const std::vector<float>& factors_of(const data::Dataset& set) { return set.preprocessing().normalization.scale; }

/// The rows of a split by their targets.
std::map<float, Row> rows_in(data::Dataset& set, Split split) {
  std::map<float, Row> rows;
  const auto source = set.evaluate(split, 0, 1, 4);
  while (const auto batch = source->next()) {
    const auto& [matrix, targets, weights] = std::get<data::LabelledRows>(*batch->set);
    for (const data::ExampleRange& range : batch->ranges) {
      for (auto i = static_cast<std::size_t>(range.first); i < static_cast<std::size_t>(range.last); ++i) {
        Row& row = rows[targets[i]];
        for (auto k = matrix.offsets[i]; k < matrix.offsets[i + 1]; ++k) {
          row[matrix.columns[k]] = matrix.values.empty() ? 1 : matrix.values[k];
        }
      }
    }
  }
  return rows;
}

/// The deviations by the formula √(E[x²] − E[x]²), over these rows.
std::vector<double> deviations_over(const std::vector<Row>& rows, const std::vector<std::int64_t>& chosen) {
  std::vector<double> sums(11), squares(11), deviations;
  for (const std::int64_t i : chosen) {
    for (const auto& [column, value] : rows[static_cast<std::size_t>(i)]) {
      sums[column] += double{value};
      squares[column] += double{value} * double{value};
    }
  }
  const auto n = static_cast<double>(chosen.size());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    deviations.push_back(std::sqrt(squares[i] / n - sums[i] / n * (sums[i] / n)));
  }
  return deviations;
}

}  // namespace

TEST_CASE("a column's factor makes its deviation over the training rows 1, zeros included", "[sparse][scaling]") {
  const TempDir folder;
  {
    File file(folder / "a.h5", File::Mode::create);
    // Column 0: 4, 4, 0, 0, deviation 2. 1: 8 once, √12. 2: always 7. 3: never. 4: −1, 1, and 0 stored or not, √½.
    write_rows_as(file, "train",
                  {{{0, 4}, {1, 8}, {2, 7}, {4, -1}}, {{0, 4}, {2, 7}, {4, 1}}, {{2, 7}, {4, 0}}, {{2, 7}}});
    write_rows_as(file, "test", {{{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}}});
  }
  const auto set = data::open_dataset(scaled(folder / "a.h5"), 1);
  const std::vector<float> factors = {0.5F, static_cast<float>(1 / std::sqrt(12.0)), 1, 1,
                                      static_cast<float>(std::sqrt(2.0))};
  CHECK(set->info().normalization == NormalizationKind::feature);
  CHECK(set->preprocessing().normalization.mean.empty());
  REQUIRE(factors_of(*set).size() == 5);
  for (std::size_t i = 0; i < 5; ++i) CHECK(factors_of(*set)[i] == Approx(factors[i]).epsilon(1e-7));
  const auto train = rows_in(*set, Split::train), test = rows_in(*set, Split::test);
  const std::vector<float>& own = factors_of(*set);
  CHECK(train.at(0) == Row{{0, 2}, {1, 8 * own[1]}, {2, 7}, {4, -own[4]}});
  CHECK(train.at(2) == Row{{2, 7}, {4, 0}});
  CHECK(test.at(0) == Row{{0, 0.5F}, {1, own[1]}, {2, 1}, {3, 1}, {4, own[4]}});

  // A trained model brings its factors.
  auto trained = set->preprocessing();
  trained.normalization.scale = {1, 2, 3, 4, 5};
  const auto applied = data::open_dataset(settings_for(folder / "a.h5"), 1, {}, &trained);
  CHECK(rows_in(*applied, Split::test).at(0) == Row{{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}});
  CHECK(rows_in(*applied, Split::train).at(3) == Row{{2, 21}});
  trained.normalization.scale = {1, 2, 3, 4};
  CHECK_THAT(message_of<DataError>([&] { data::open_dataset(settings_for(folder / "a.h5"), 1, {}, &trained); }),
             Contains("a.h5: has 5 columns, but the model was trained for 4"));
  trained.normalization = {};
  CHECK(rows_in(*data::open_dataset(scaled(folder / "a.h5"), 1, {}, &trained), Split::train).at(3) == Row{{2, 7}});
}

TEST_CASE("values of 1 that the file leaves out are scaled as stored ones", "[sparse][scaling]") {
  const TempDir folder;
  std::vector<Row> rows = many_rows(400);
  for (Row& row : rows) {
    for (auto& [column, value] : row) value = 1;
  }
  for (const bool ones : {true, false}) {
    File file(folder / (ones ? "ones.h5" : "stored.h5"), File::Mode::create);
    write_rows_as(file, "train", rows, ones, 11);
    write_rows_as(file, "test", {{{0, 1}, {5, 1}}, {{1, 1}}}, ones, 11);
  }
  const auto ones = data::open_dataset(scaled(folder / "ones.h5"), 1);
  const auto stored = data::open_dataset(scaled(folder / "stored.h5"), 1);
  CHECK(factors_of(*ones) == factors_of(*stored));
  CHECK(rows_in(*ones, Split::train) == rows_in(*stored, Split::train));
  CHECK(rows_in(*ones, Split::test) == rows_in(*stored, Split::test));
  // p of the rows have the column: its deviation is √(p(1 − p)).
  const auto counted = std::count_if(rows.begin(), rows.end(), [](const Row& row) { return row.count(3) > 0; });
  const double p = static_cast<double>(counted) / 400;
  CHECK(factors_of(*ones)[3] == Approx(1 / std::sqrt(p * (1 - p))).epsilon(1e-6));
  CHECK(ones->info().bytes_per_node == stored->info().bytes_per_node);
  CHECK(data::inspect_dataset(scaled(folder / "ones.h5")).bytes_per_node == ones->info().bytes_per_node);
  CHECK(data::inspect_dataset(settings_for(folder / "ones.h5")).bytes_per_node < ones->info().bytes_per_node);
}

TEST_CASE("factors are fitted on training rows alone, with the same bits whatever lies where", "[sparse][scaling]") {
  const TempDir folder;
  const std::vector<Row> rows = many_rows(1000);
  {
    File file(folder / "a.h5", File::Mode::create);
    write_rows_as(file, "train", rows, false, 11);
  }
  const double fraction = GENERATE(0.0, 0.3);
  const auto set = data::open_dataset(scaled(folder / "a.h5", fraction), 1);
  std::vector<std::int64_t> training;
  for (const auto& [target, row] : rows_in(*set, Split::train)) training.push_back(static_cast<std::int64_t>(target));
  CHECK(training.size() == (fraction > 0 ? 700U : 1000U));
  const std::vector<double> deviations = deviations_over(rows, training);
  for (std::size_t i = 0; i < 11; ++i) CHECK(double{factors_of(*set)[i]} * deviations[i] == Approx(1).epsilon(1e-6));
  if (fraction > 0) {
    const auto held_out = rows_in(*set, Split::validation);
    const auto& [target, row] = *held_out.begin();
    for (const auto& [column, value] : row) {
      CHECK(value == rows[static_cast<std::size_t>(target)].at(column) * factors_of(*set)[column]);
    }
  }

  auto settings = scaled(folder / "a.h5", fraction);
  CHECK(factors_of(*data::open_dataset(settings, 2)) == factors_of(*set));
  settings.shuffle = false;
  CHECK(factors_of(*data::open_dataset(settings, 1)) == factors_of(*set));
  for (const bool window : {true, false}) {
    ThreadRanks ranks(3);
    std::array<bool, 3> same{};
    ranks.run([&](int rank) {
      const data::NodeShare share = ranks.share(rank, window);
      const auto shared = data::open_dataset(scaled(folder / "a.h5", fraction), 1, share);
      same[static_cast<std::size_t>(rank)] =
          factors_of(*shared) == factors_of(*set) && rows_in(*shared, Split::train) == rows_in(*set, Split::train);
      share.barrier();
    });
    CHECK(same == std::array{true, true, true});
  }
}

TEST_CASE("a fold is scaled by its own training rows, and so is the test group", "[sparse][scaling][folds]") {
  const TempDir folder;
  std::vector<Row> rows = many_rows(500);
  for (Row& row : rows) row.erase(9);
  rows[499][9] = 1e4F;  // a column of the validation rows alone
  for (Row& row : rows) row[10] = 3;
  rows[498][10] = 5;  // one that is constant among the training rows
  const std::vector<Row> tested = {{{0, 1}, {9, 1}, {10, 1}}, {{1, 2}}};
  data::Fold fold;
  for (std::int64_t row = 0; row < 400; ++row) fold.train.push_back(row);
  for (std::int64_t row = 400; row < 500; ++row) fold.validation.push_back(row);
  {
    File file(folder / "a.h5", File::Mode::create), alone(folder / "alone.h5", File::Mode::create);
    write_rows_as(file, "train", rows, false, 11);
    write_rows_as(file, "test", tested, false, 11);
    write_rows_as(alone, "train", {rows.begin(), rows.begin() + 400}, false, 11);
  }
  const auto whole = data::open_dataset(scaled(folder / "a.h5"), 1);
  const auto view = whole->fold_view(fold);
  const std::vector<float>& factors = factors_of(*view);
  const auto alone = data::open_dataset(scaled(folder / "alone.h5"), 1);
  // Values of the whole set are floats, and so are both factors: at most some roundings of 2⁻²⁴.
  for (std::size_t i = 0; i < 11; ++i) CHECK(factors[i] == Approx(factors_of(*alone)[i]).epsilon(4e-7));
  CHECK((factors[9] == 1 && factors[10] == 1));
  CHECK(factors_of(*whole)[9] != 1);
  const auto check = [&](Split split, const std::vector<Row>& raw, std::size_t first, std::size_t count) {
    const auto found = rows_in(*view, split);
    CHECK(found.size() == count);
    for (const auto& [target, row] : found) {
      const Row& stored = raw[static_cast<std::size_t>(target)];
      CHECK((row.size() == stored.size() && static_cast<std::size_t>(target) >= first));
      for (const auto& [column, value] : row) {
        CHECK(value == Approx(stored.at(column) * factors[column]).epsilon(3e-7));
      }
    }
  };
  check(Split::train, rows, 0, 400);
  check(Split::validation, rows, 400, 100);
  check(Split::test, tested, 0, 2);
  CHECK(factors_of(*view->view()) == factors);
  CHECK(rows_in(*view->view(), Split::test) == rows_in(*view, Split::test));
  CHECK(factors_of(*data::open_dataset(scaled(folder / "a.h5"), 2)->fold_view(fold)) == factors);
}

TEST_CASE("the import says whether columns are scaled, and the config overrides it", "[sparse][scaling]") {
  const TempDir folder;
  write_file(folder / "a.svm", "0.5 1:4\n1.5 1:-4 3:1\n");
  for (const data::Scaling scale : {data::Scaling::none, data::Scaling::standard}) {
    data::import_libsvm({folder / "a.svm"}, {.scale = scale}, {.path = folder / "a.h5", .overwrite = true});
    const bool standard = scale == data::Scaling::standard;
    const auto set = data::open_dataset(settings_for(folder / "a.h5"), 1);
    CHECK(set->preprocessing().recipe.scaling == scale);
    CHECK(factors_of(*set) == (standard ? std::vector<float>{0.25F, 1, 2} : std::vector<float>{}));
    CHECK(set->info().normalization == (standard ? NormalizationKind::automatic : NormalizationKind::none));
    auto settings = settings_for(folder / "a.h5");
    settings.normalization = NormalizationKind::none;
    CHECK(factors_of(*data::open_dataset(settings, 1)).empty());
    settings.normalization = NormalizationKind::feature;
    CHECK(factors_of(*data::open_dataset(settings, 1)) == std::vector<float>{0.25F, 1, 2});
    // What checkpoints hold says it, too.
    const auto stored = data::preprocessing_from_json(data::to_json(set->preprocessing()), "here");
    CHECK((stored.recipe.scaling == scale && stored.recipe.base == 1));
  }
  CHECK_THAT(message_of<DataError>([] {
               data::recipe_from_json(R"({"format": "unisono recipe", "version": 1, "base": 1, "scaling": "min_max"})",
                                      "here");
             }),
             Contains("here: 'min_max' is not known"));
}

TEST_CASE("what would fill zeros, or checkpoints, is refused", "[sparse][scaling]") {
  const TempDir folder;
  {
    File file(folder / "a.h5", File::Mode::create), wide(folder / "wide.h5", File::Mode::create);
    write_rows_as(file, "train", {{{0, 4}}, {{1, 2}}});
    write_rows_as(wide, "train", {{{0, 4}}, {{1, 2}}}, false, (1 << 22) + 1);
  }
  const auto refusal = [&](data::DataSettings settings) {
    const std::string opened = message_of<ConfigError>([&] { data::open_dataset(settings, 1); });
    CHECK(message_of<ConfigError>([&] { data::inspect_dataset(settings); }) == opened);
    return opened;
  };
  data::DataSettings settings = settings_for(folder / "a.h5");
  for (const NormalizationKind kind : {NormalizationKind::global, NormalizationKind::channel}) {
    settings.normalization = kind;
    CHECK_THAT(refusal(settings), Contains("data.normalization: ") && Contains("a.h5 holds sparse rows") &&
                                      Contains("no longer be zeros; use \"feature\""));
  }
  CHECK_THAT(refusal(scaled(folder / "wide.h5")),
             Contains("data.normalization: ") && Contains("wide.h5 has 4,194,305 columns") && Contains("\"none\""));
  CHECK(refusal(settings_for(folder / "wide.h5")).empty());
}
