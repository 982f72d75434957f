#include <array>
#include <catch2/catch.hpp>
#include <thread>

#include "order/schedule.hpp"
#include "sparse/split.hpp"
#include "sparse_sets.hpp"
#include "unisono/data/import.hpp"

using namespace unisono;
using namespace unisono::test;
using Catch::Contains;
using data::Fold;
using data::Split;
using RowNumbers = std::vector<std::int64_t>;

namespace {

/// Every k-th of n rows is for validation, beginning with `first`.
Fold every(std::int64_t k, std::int64_t n, std::int64_t first = 0) {
  Fold fold;
  for (std::int64_t row = 0; row < n; ++row) (row % k == first ? fold.validation : fold.train).push_back(row);
  return fold;
}

Contents chosen(const Contents& all, const RowNumbers& rows) {
  Contents contents;
  for (const std::int64_t row : rows) contents.push_back(all[static_cast<std::size_t>(row)]);
  return contents;
}

std::vector<std::uint64_t> examples_in(data::Dataset& set, Split split) {
  std::vector<std::uint64_t> all;
  const auto source = set.evaluate(split, 0, 1, 4);
  while (const auto batch = source->next()) all.insert(all.end(), batch->examples.begin(), batch->examples.end());
  return all;
}

/// The rows of an epoch of training, ascending.
RowNumbers rows_of_epoch(data::Dataset& set) {
  const auto source = set.train({.batch_size = 4, .seed = 3});
  RowNumbers rows;
  for (const auto& step : take_steps(*source, source->steps_per_epoch()))
    rows.insert(rows.end(), step.begin(), step.end());
  std::sort(rows.begin(), rows.end());
  return rows;
}

/// Lines of a table of a number that may be missing, a category and a class.
std::vector<std::string> table_lines(int rows) {
  std::vector<std::string> lines;
  for (int i = 0; i < rows; ++i) {
    const std::string number = i % 7 == 3 ? "" : std::to_string(i * i % 37);
    lines.push_back(number + "," + std::string(1, i == 10 ? 'z' : static_cast<char>('a' + i % 3)) + "," +
                    std::to_string(i % 2) + "\n");
  }
  return lines;
}

std::string import_lines(const TempDir& folder, const std::string& name, const std::vector<std::string>& lines,
                         const RowNumbers& rows, data::CsvOptions options) {
  std::string text = "x,w,y\n";
  for (const std::int64_t row : rows) text += lines[static_cast<std::size_t>(row)];
  write_file(folder / (name + ".csv"), text);
  options.label = "y";
  options.missing = data::Missing::mean;
  import_csv(folder / (name + ".csv"), options, {.path = folder / (name + ".h5")});
  return folder / (name + ".h5");
}

}  // namespace

TEST_CASE("a fold of a table is normalised as a file with its training rows alone would be", "[folds]") {
  const TempDir folder;
  const auto write = [&](const std::string& name, const RowNumbers& rows) {
    data::hdf5::File file(folder / name, data::hdf5::File::Mode::create);
    std::vector<float> features;
    std::vector<std::int64_t> labels;
    for (const std::int64_t row : rows) {
      for (int i = 0; i < 3; ++i) features.push_back(static_cast<float>((row * row + 7 * i) % 23));
      labels.push_back(row % 4);
    }
    file.create<float>("train/features", {rows.size(), 3}, 0, 0);
    file.write_rows("train/features", 0, rows.size(), features.data());
    file.write("train/labels", labels);
    file.write_attribute("", "classes", std::int64_t{4});
    return folder / name;
  };
  const Fold fold = every(5, 101, 2);
  RowNumbers all(101);
  std::iota(all.begin(), all.end(), 0);
  auto settings = settings_for(write("all.h5", all));
  settings.normalization = data::NormalizationKind::feature;
  const auto whole = data::open_dataset(settings, 1);
  settings.path = write("train.h5", fold.train);
  const auto alone = data::open_dataset(settings, 1);

  const auto view = whole->fold_view(fold);
  CHECK(view->info().train == 81);
  CHECK(view->info().validation == 20);
  CHECK(view->info().identity != whole->info().identity);
  // The same sums of the same numbers in the same order.
  CHECK(view->preprocessing().normalization.mean == alone->preprocessing().normalization.mean);
  CHECK(view->preprocessing().normalization.scale == alone->preprocessing().normalization.scale);
  CHECK(view->preprocessing().normalization.mean != whole->preprocessing().normalization.mean);
  CHECK(features_of(*view, Split::train) == features_of(*alone, Split::train));
  CHECK(view->class_counts() == alone->class_counts());
  const auto validated = examples_in(*view, Split::validation);
  CHECK(RowNumbers(validated.begin(), validated.end()) == fold.validation);
  CHECK(rows_of_epoch(*view) == fold.train);
  CHECK(view->fold_view(every(3, 101))->info().train == 67);  // a view of a view is one of the whole
}

TEST_CASE("a recipe is fitted on a fold's training rows, and encodes them as a file of their own", "[folds]") {
  const TempDir folder;
  const auto lines = table_lines(40);
  RowNumbers all(40);
  std::iota(all.begin(), all.end(), 0);
  write_file(folder / "t.csv", "x,w,y\n5,a,0\n,b,1\n");
  const data::CsvOptions options{
      .scale = data::Scaling::standard, .unknown = data::Unknown::other, .test_file = folder / "t.csv"};
  const auto whole = data::open_dataset(settings_for(import_lines(folder, "all", lines, all, options)), 1);
  // Row 10 has a level of its own: without it, there is one feature less.
  const Fold fold = every(5, 40);
  const auto alone = data::open_dataset(settings_for(import_lines(folder, "train", lines, fold.train, options)), 1);
  const auto view = whole->fold_view(fold);
  CHECK(whole->info().features.size() == 5);
  CHECK(view->info().features.size() == 4);
  CHECK(view->preprocessing().encoded_names() == alone->preprocessing().encoded_names());
  CHECK(*view->preprocessing().columns[0].fill == *alone->preprocessing().columns[0].fill);
  CHECK(*view->preprocessing().columns[0].fill != *whole->preprocessing().columns[0].fill);
  CHECK(features_of(*view, Split::train) == features_of(*alone, Split::train));
  CHECK(features_of(*view, Split::test) == features_of(*alone, Split::test));
  const auto validation = features_of(*view, Split::validation);
  REQUIRE(validation.size() == 4 * 8);
  CHECK((validation[2 * 4 + 1] == 0 && validation[2 * 4 + 2] == 0 && validation[2 * 4 + 3] == 0));  // row 10: unknown

  const data::CsvOptions strict{};
  const auto refusing = data::open_dataset(settings_for(import_lines(folder, "strict", lines, all, strict)), 1);
  CHECK_THAT(message_of<DataError>([&] { refusing->fold_view(fold); }), Contains("example 10: column 'w': 'z'"));
}

TEST_CASE("a fold of sparse rows or ratings has its own examples, validated in the order of the file", "[folds]") {
  for (const Kind& kind : kinds()) {
    if (kind.kind != data::SetKind::sparse && kind.kind != data::SetKind::ratings) continue;
    for (const bool shuffle : {true, false}) {
      CAPTURE(kind.name, shuffle);
      const TempDir folder;
      Contents train, test;
      {
        data::hdf5::File file(folder / "a.h5", data::hdf5::File::Mode::create);
        train = kind.write(file, "train", 1009);
        test = kind.write(file, "test", 11);
      }
      const auto whole = data::open_dataset(settings_for(folder / "a.h5", shuffle), 1);
      Fold fold = every(7, 1009, 3);
      fold.train.erase(fold.train.begin(), fold.train.begin() + 50);  // rows of neither part
      const auto view = whole->fold_view(fold);
      CHECK(view->info().train == std::ssize(fold.train));
      CHECK(sorted(evaluated(*view, Split::train)) == sorted(chosen(train, fold.train)));
      CHECK(evaluated(*view, Split::validation) == chosen(train, fold.validation));
      CHECK(joined({evaluated(*view, Split::validation, 0, 3, 5), evaluated(*view, Split::validation, 1, 3, 5),
                    evaluated(*view, Split::validation, 2, 3, 5)}) == chosen(train, fold.validation));
      CHECK(evaluated(*view, Split::test) == test);
      const auto source = view->train({.batch_size = 64, .seed = 3});
      for (int epoch = 0; epoch < 2; ++epoch) {
        CHECK(sorted(joined(take_contents(*source, source->steps_per_epoch()))) == sorted(chosen(train, fold.train)));
      }
      const auto occurrences = view->occurrences();
      const auto again = whole->fold_view(fold);
      CHECK(joined(take_contents(*again->train({.batch_size = 64, .seed = 3}), 13)) ==
            joined(take_contents(*view->train({.batch_size = 64, .seed = 3}), 13)));
      const std::int64_t counted = std::accumulate(occurrences.begin(), occurrences.end(), std::int64_t{0});
      if (kind.kind == data::SetKind::ratings) {
        CHECK(counted == 2 * view->info().train);
      } else {
        CHECK(static_cast<double>(counted) ==
              Approx(view->info().row_values * static_cast<double>(view->info().train)));
      }
    }
  }
}

TEST_CASE("a fold of many sparse rows is visited where they lie in memory", "[folds]") {
  const TempDir folder;
  Contents all;
  {
    data::hdf5::File file(folder / "a.h5", data::hdf5::File::Mode::create);
    all = write_rows_group(file, "train", 300, true);
  }
  const data::hdf5::File file(folder / "a.h5", data::hdf5::File::Mode::read);
  const auto schema = data::read_sparse_schema(file, false);
  const auto loader = data::load_rows(schema, *schema.group(Split::train), {.shuffle = true, .seed = 4});
  const data::NodeShare alone;
  data::NodeMemory memory(alone, loader->bytes());
  memory.take_own();
  loader->read(file, memory.data(), memory);
  const data::LoadedSplit whole = loader->split(false);
  const Fold fold = every(5, 300);
  const data::FoldedRows copied(whole, fold, true), in_place(whole, fold, false);
  const auto contents = [](const data::LoadedSplit& split) {
    Contents found;
    for (const auto& chunk : split.chunks) {
      for (std::int64_t i = chunk.first; i < chunk.last; ++i) found.push_back(content(split.set, i));
    }
    return found;
  };
  CHECK(contents(in_place.training()) == contents(copied.training()));
  CHECK(contents(in_place.validation()) == chosen(all, fold.validation));
  CHECK(in_place.training().examples == 240);
}

TEST_CASE("the arrangement of sparse rows has a seed of its own", "[folds]") {
  const TempDir folder;
  {
    data::hdf5::File file(folder / "a.h5", data::hdf5::File::Mode::create);
    write_rows_group(file, "train", 200, true);
  }
  auto settings = settings_for(folder / "a.h5");
  const auto order = [&](std::uint64_t seed) { return evaluated(*data::open_dataset(settings, seed), Split::train); };
  const Contents first = order(1);
  CHECK(order(2) != first);
  settings.arrangement_seed = 1;
  CHECK(order(2) == first);
  CHECK(order(1) == first);
}

TEST_CASE("threads make and train on views of their own at the same time", "[folds]") {
  const TempDir folder;
  const auto lines = table_lines(400);
  RowNumbers all(400);
  std::iota(all.begin(), all.end(), 0);
  const data::CsvOptions options{.scale = data::Scaling::standard, .unknown = data::Unknown::other};
  const auto whole = data::open_dataset(settings_for(import_lines(folder, "all", lines, all, options)), 1);
  std::array<std::vector<float>, 8> seen;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    threads.emplace_back([&, i] {
      const auto view = whole->fold_view(every(4, 400, static_cast<std::int64_t>(i % 4)));
      const auto source = view->train({.batch_size = 16, .seed = 1});
      for (int step = 0; step < 30; ++step) {
        const data::Batch batch = source->next();
        seen[i].insert(seen[i].end(), batch.features.begin(), batch.features.end());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (std::size_t i = 0; i < 4; ++i) CHECK(seen[i] == seen[i + 4]);
  CHECK(seen[0] != seen[1]);
}

TEST_CASE("ranks that share a set have the same views, without a message", "[folds]") {
  const TempDir folder;
  const auto lines = table_lines(60);
  RowNumbers all(60);
  std::iota(all.begin(), all.end(), 0);
  const data::CsvOptions options{.scale = data::Scaling::standard, .unknown = data::Unknown::other};
  const auto settings = settings_for(import_lines(folder, "all", lines, all, options));
  const auto alone = data::open_dataset(settings, 1);
  const auto expected = features_of(*alone->fold_view(every(4, 60)), Split::train);
  std::array<bool, 3> same{};
  ThreadRanks ranks(3);
  ranks.run([&](int rank) {
    const auto set = data::open_dataset(settings, 1, ranks.share(rank));
    if (rank == 1) return;  // makes no view
    const auto view = set->fold_view(every(4, 60));
    same[static_cast<std::size_t>(rank)] = features_of(*view, Split::train) == expected;
  });
  CHECK(same == std::array{true, false, true});
}

TEST_CASE("rows are found in many short runs as in few", "[folds]") {
  data::FileRows runs;
  RowNumbers expected;
  for (std::int64_t row = 0; row < 5000; ++row) {
    if (row * row % 7 < 3 || (row > 1000 && row < 1400)) expected.push_back(row);
  }
  for (const std::int64_t row : expected) runs.append(row, 1);
  const auto rows_of = [&] {
    RowNumbers rows;
    for (std::int64_t position = 0; position < runs.size(); ++position) rows.push_back(runs.row(position));
    return rows;
  };
  CHECK(rows_of() == expected);
  runs.index();
  CHECK(rows_of() == expected);
  runs.append(6000, 5);  // the index is dropped
  CHECK(runs.row(runs.size() - 1) == 6004);
}

TEST_CASE("a view of a fold's view is the same fold", "[folds]") {
  const TempDir folder;
  const auto lines = table_lines(60);
  RowNumbers all(60);
  std::iota(all.begin(), all.end(), 0);
  const auto table =
      data::open_dataset(settings_for(import_lines(folder, "all", lines, all, {.unknown = data::Unknown::other})), 1);
  const auto fold = table->fold_view(every(4, 60, 2));
  const auto expected = features_of(*fold, Split::train);
  const auto again = fold->view();
  CHECK(features_of(*again, Split::train) == expected);
  CHECK(again->info().identity == fold->info().identity);
  {
    data::hdf5::File file(folder / "a.h5", data::hdf5::File::Mode::create);
    write_rows_group(file, "train", 100, true);
  }
  const auto sparse = data::open_dataset(settings_for(folder / "a.h5"), 1);
  const auto rows = sparse->fold_view(every(4, 100));
  CHECK(evaluated(*rows->view(), Split::train) == evaluated(*rows, Split::train));
  CHECK(evaluated(*sparse->view(), Split::train) == evaluated(*sparse, Split::train));
}

TEST_CASE("what has no folds is refused", "[folds]") {
  const TempDir folder;
  const auto settings = settings_for(write_set(folder / "a.h5", {.train = 20}));
  const auto refusal = [](data::DataSettings with, const Fold& fold) {
    return message_of<Error>([&] { data::open_dataset(with, 1)->fold_view(fold); });
  };
  CHECK_THAT(refusal(settings, {.train = {0, 2, 2}, .validation = {}}), Contains("row 2 after row 2"));
  CHECK_THAT(refusal(settings, {.train = {0, 20}, .validation = {}}), Contains("[0, 20)"));
  CHECK_THAT(refusal(settings, {.train = {0, 3, 5}, .validation = {1, 3}}), Contains("row 3 for training and"));
  CHECK_THAT(refusal(settings, {.train = {}, .validation = {1}}), Contains("no training examples"));
  auto other = settings;
  other.reader = data::Reader::streaming;
  CHECK_THAT(refusal(other, every(2, 20)), Contains("reader = \"resident\""));
  other = settings;
  other.partition = data::Partition::fixed;
  CHECK_THAT(refusal(other, every(2, 20)), Contains("use \"global\""));
  other = settings;
  other.validation_fraction = 0.2;
  CHECK_THAT(refusal(other, every(2, 20)), Contains("validation_fraction = 0.2"));
  for (const Kind& kind : kinds()) {
    if (kind.kind != data::SetKind::text && kind.kind != data::SetKind::cooccurrences) continue;
    {
      data::hdf5::File file(folder / (kind.name + ".h5"), data::hdf5::File::Mode::create);
      kind.write(file, "train", 20);
    }
    CHECK_THAT(refusal(settings_for(folder / (kind.name + ".h5")), every(2, 20)), Contains("cannot be divided"));
  }
}
