#include "sparse/set.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <numeric>
#include <set>

#include "sparse_sets.hpp"

using namespace unisono;
using namespace unisono::data;
using namespace unisono::test;
using Catch::Contains;
using hdf5::File;

namespace {

struct SmallSet {
  Contents train, validation, test;
};

SmallSet write_small(const Kind& kind, const std::string& path, std::int64_t train, std::int64_t validation = 0,
                     std::int64_t test = 0) {
  File file(path, File::Mode::create);
  SmallSet set;
  set.train = kind.write(file, "train", train);
  if (validation > 0) set.validation = kind.write(file, "validation", validation);
  if (test > 0) set.test = kind.write(file, "test", test);
  return set;
}

bool counts_words(const Kind& kind) { return kind.kind == SetKind::text; }

std::int64_t words_of(const Contents& sentences) {
  std::int64_t words = 0;
  for (const std::string& one : sentences) words += 1 + std::count(one.begin(), one.end(), ' ');
  return words;
}

std::int64_t examples_of(const Kind& kind, const Contents& contents) {
  return counts_words(kind) ? words_of(contents) : static_cast<std::int64_t>(contents.size());
}

}  // namespace

TEST_CASE("every split is in memory as it is in the file", "[sparse]") {
  for (const Kind& kind : kinds()) {
    CAPTURE(kind.name);
    const TempDir folder;
    const SmallSet small = write_small(kind, folder / "a.h5", 101, 23, 5);
    for (const bool trained : {false, true}) {
      const DataSettings settings =
          settings_for(folder / "a.h5", trained);  // shuffle means nothing where it is trained
      const auto set = trained ? open_trained(settings, 1) : open_dataset(settings, 1);
      CHECK((evaluated(*set, Split::train) == small.train));
      CHECK((evaluated(*set, Split::validation) == small.validation));
      CHECK((evaluated(*set, Split::test) == small.test));
      const Contents parts = joined({evaluated(*set, Split::train, 0, 3), evaluated(*set, Split::train, 1, 3),
                                     evaluated(*set, Split::train, 2, 3)});
      CHECK((parts == small.train));
      CHECK(set->info().kind == kind.kind);
      CHECK(set->info().train == examples_of(kind, small.train));
      CHECK(set->info().validation == examples_of(kind, small.validation));
      CHECK(set->info().test == examples_of(kind, small.test));
      CHECK(set->info().resident);
    }
    const auto set = open_dataset(settings_for(folder / "a.h5", false), 1);
    const auto source = set->train({.batch_size = 1000});
    CHECK(source->steps_per_epoch() == 1);
    CHECK(take_contents(*source, 1).front() == small.train);
  }
}

TEST_CASE("an epoch of a shuffled set has every example once, in another order each time", "[sparse]") {
  for (const Kind& kind : kinds()) {
    CAPTURE(kind.name);
    const TempDir folder;
    // Of ratings, few blocks would have few orders.
    const SmallSet small = write_small(kind, folder / "a.h5", kind.kind == SetKind::ratings ? 12000 : 3000);
    const auto set = open_dataset(settings_for(folder / "a.h5"), 1);
    const auto again = open_dataset(settings_for(folder / "a.h5"), 1),
               other = open_dataset(settings_for(folder / "a.h5"), 2);
    const SourceOptions options{.batch_size = 64, .seed = 1};
    const auto source = set->train(options);
    const std::int64_t steps = source->steps_per_epoch();
    std::vector<Contents> epochs;
    for (int epoch = 0; epoch < 3; ++epoch) {
      const auto taken = take_contents(*source, steps);
      epochs.push_back(joined(taken));
      CHECK((sorted(epochs.back()) == sorted(small.train)));
      for (std::int64_t step = 0; step + 1 < steps && !counts_words(kind); ++step) {
        CHECK(taken[static_cast<std::size_t>(step)].size() == 64);
      }
    }
    CHECK((epochs[0] != epochs[1]));
    CHECK((epochs[1] != epochs[2]));
    CHECK((epochs[0] != small.train));
    const auto same = again->train(options), differs = other->train({.batch_size = 64, .seed = 2});
    CHECK((joined(take_contents(*same, steps)) == epochs[0]));
    CHECK((joined(take_contents(*differs, steps)) != epochs[0]));
    same->seek({2, 0});
    CHECK((joined(take_contents(*same, steps)) == epochs[2]));
  }
}

TEST_CASE("ranks together see what one rank sees", "[sparse]") {
  for (const Kind& kind : kinds()) {
    CAPTURE(kind.name);
    const TempDir folder;
    write_small(kind, folder / "a.h5", 700);
    const auto set = open_dataset(settings_for(folder / "a.h5"), 1);
    const auto whole = set->train({.batch_size = 50});
    std::vector<std::unique_ptr<BatchSource>> ranks;
    for (int rank = 0; rank < 3; ++rank) ranks.push_back(set->train({.rank = rank, .size = 3, .batch_size = 50}));
    for (std::int64_t step = 0; step < 2 * whole->steps_per_epoch(); ++step) {
      std::vector<Contents> parts;
      for (const auto& rank : ranks) parts.push_back(contents_of(rank->next()));
      CHECK((joined(parts) == contents_of(whole->next())));
    }
  }
}

TEST_CASE("the ranks of a node hold one copy, or one each, of what one rank alone would hold", "[sparse]") {
  for (const Kind& kind : kinds()) {
    const TempDir folder;
    write_small(kind, folder / "a.h5", 900, 0, 31);
    const bool fraction = kind.kind == SetKind::sparse || kind.kind == SetKind::ratings;
    const DataSettings settings = settings_for(folder / "a.h5", true, fraction ? 0.2 : 0);
    const auto alone = open_dataset(settings, 1);
    const Contents train = evaluated(*alone, Split::train), test = evaluated(*alone, Split::test);
    for (const bool window : {true, false}) {
      for (const int size : {2, 3}) {
        CAPTURE(kind.name, window, size);
        ThreadRanks ranks(size);
        std::vector<Contents> trains(static_cast<std::size_t>(size)), tests = trains, validations = trains;
        std::vector<DatasetInfo> infos(static_cast<std::size_t>(size));
        ranks.run([&](int rank) {
          const auto at = static_cast<std::size_t>(rank);
          const NodeShare share = ranks.share(rank, window);
          const auto set = open_dataset(settings, 1, share);
          trains[at] = evaluated(*set, Split::train);
          tests[at] = evaluated(*set, Split::test);
          if (fraction) validations[at] = evaluated(*set, Split::validation);
          infos[at] = set->info();
          share.barrier();
        });
        for (std::size_t rank = 0; rank < trains.size(); ++rank) {
          CHECK((trains[rank] == train));
          CHECK((tests[rank] == test));
          if (fraction) CHECK((validations[rank] == evaluated(*alone, Split::validation)));
          CHECK(infos[rank].identity == alone->info().identity);
          CHECK(infos[rank].mean_value == alone->info().mean_value);
          CHECK(infos[rank].bytes_per_node == alone->info().bytes_per_node * (window ? 1 : size));
        }
      }
    }
  }
}

TEST_CASE("an error of one rank's part is an error of all ranks", "[sparse]") {
  const TempDir folder;
  {
    File file(folder / "a.h5", File::Mode::create);
    file.write<std::uint64_t>("train/features/indptr", {0, 1, 2, 3, 4});
    file.write<std::uint32_t>("train/features/indices", {0, 1, 2, 3});
    file.write<float>("train/features/data", {1, 2, 3, std::numeric_limits<float>::quiet_NaN()});
    file.write_attribute("train/features", "columns", std::int64_t{4});
  }
  ThreadRanks ranks(2);
  std::vector<std::string> messages(2);
  ranks.run([&](int rank) {
    try {
      open_dataset(settings_for(folder / "a.h5"), 1, ranks.share(rank));
    } catch (const Error& error) {
      messages[static_cast<std::size_t>(rank)] = error.what();
    }
  });
  CHECK_THAT(messages[0], Contains("/train/features/data: value 3 is not finite"));
  CHECK_THAT(messages[1], Contains("/train/features/data: value 3 is not finite"));
}

TEST_CASE("a fraction of the training examples validates instead, and the same ones for a trained model", "[sparse]") {
  for (const Kind& kind : kinds()) {
    if (kind.kind != SetKind::sparse && kind.kind != SetKind::ratings) continue;
    CAPTURE(kind.name);
    const TempDir folder;
    const SmallSet small = write_small(kind, folder / "a.h5", 1000);
    const DataSettings settings = settings_for(folder / "a.h5", true, 0.15);
    const auto set = open_dataset(settings, 1);
    CHECK(set->info().train == 850);
    CHECK(set->info().validation == 150);
    CHECK(set->info().answers[1].target_size == set->info().answers[0].target_size);
    const Contents held_out = evaluated(*set, Split::validation), kept = evaluated(*set, Split::train);
    CHECK(held_out.size() == 150);
    CHECK((sorted(joined({held_out, kept})) == sorted(small.train)));
    const auto source = set->train({.batch_size = 32});
    CHECK(source->examples_per_epoch() == 850);
    CHECK((sorted(joined(take_contents(*source, source->steps_per_epoch()))) == sorted(kept)));

    const auto trained = open_trained(settings, 1);
    CHECK((sorted(evaluated(*trained, Split::validation)) == sorted(held_out)));
    // The seed of the order has no part in it.
    CHECK((sorted(evaluated(*open_dataset(settings, 2), Split::validation)) == sorted(held_out)));
    DataSettings other = settings;
    other.split_seed = 2;
    CHECK((sorted(evaluated(*open_dataset(other, 1), Split::validation)) != sorted(held_out)));

    // What keeps its order keeps it in both parts.
    const auto in_order = [&](const Contents& some) {
      std::map<std::string, std::size_t> places;
      for (std::size_t i = 0; i < small.train.size(); ++i) places[small.train[i]] = i;
      return std::is_sorted(some.begin(), some.end(),
                            [&](const std::string& a, const std::string& b) { return places[a] < places[b]; });
    };
    const auto unshuffled = open_dataset(settings_for(folder / "a.h5", false, 0.15), 1);
    for (Dataset* one : {unshuffled.get(), trained.get()}) {
      CHECK((sorted(evaluated(*one, Split::validation)) == sorted(held_out)));
      CHECK(in_order(evaluated(*one, Split::train)));
      CHECK(in_order(evaluated(*one, Split::validation)));
    }
  }
}

TEST_CASE("what a trained model is applied to may have a group of its own where a fraction validated", "[sparse]") {
  const TempDir folder;
  const SmallSet small = write_small(kinds()[0], folder / "a.h5", 20, 7);
  const auto set = open_trained(settings_for(folder / "a.h5", true, 0.5), 1);
  CHECK((evaluated(*set, Split::validation) == small.validation));
  CHECK(set->info().train == 20);
}

TEST_CASE("a set without a training group serves a trained model", "[sparse]") {
  for (const Kind& kind : kinds()) {
    CAPTURE(kind.name);
    const TempDir folder;
    Contents test;
    {
      File file(folder / "a.h5", File::Mode::create);
      test = kind.write(file, "test", 12);
    }
    const auto set = open_trained(settings_for(folder / "a.h5"), 1);
    CHECK((evaluated(*set, Split::test) == test));
    CHECK_THAT(message_of<DataError>([&] { set->train({}); }), Contains("has no group 'train'"));
    CHECK_THAT(message_of<DataError>([&] { open_dataset(settings_for(folder / "a.h5"), 1); }),
               Contains("has no group 'train' to train on"));
  }
}

TEST_CASE("what a set says of itself, opened or not", "[sparse]") {
  for (const Kind& kind : kinds()) {
    CAPTURE(kind.name);
    const TempDir folder;
    write_small(kind, folder / "a.h5", 200, 0, 10);
    const auto set = open_dataset(settings_for(folder / "a.h5"), 1);
    const DatasetInfo &opened = set->info(), inspected = inspect_dataset(settings_for(folder / "a.h5"));
    CHECK(inspected.kind == opened.kind);
    CHECK(inspected.train == opened.train);
    CHECK(inspected.test == opened.test);
    CHECK(inspected.rows == opened.rows);
    CHECK(inspected.columns == opened.columns);
    CHECK(inspected.features == opened.features);
    CHECK(inspected.target_size == opened.target_size);
    CHECK(inspected.identity == opened.identity);
    CHECK(inspected.bytes_per_node == opened.bytes_per_node);
    CHECK(set->preprocessing().normalization.mean.empty());
    CHECK(set->class_names().empty());
  }
}

TEST_CASE("numbers of a set's rows and columns", "[sparse]") {
  const auto info = [](const Kind& kind) {
    const TempDir folder;
    write_small(kind, folder / "a.h5", 200);
    return open_dataset(settings_for(folder / "a.h5"), 1)->info();
  };
  const DatasetInfo rows = info(kinds()[0]), ratings = info(kinds()[2]), text = info(kinds()[3]),
                    counts = info(kinds()[4]);
  CHECK(rows.features == FeatureShape{.channels = 11});
  CHECK(rows.target_size == 1);
  CHECK(rows.classes == 0);
  CHECK(ratings.rows == 70);
  CHECK(ratings.columns == 40);
  CHECK(ratings.mean_value == 100.5);  // of 1 … 200
  CHECK(text.rows == 50);
  CHECK(counts.rows == 30);
  CHECK(counts.columns == 30);
}

TEST_CASE("ratings without a dictionary have as many users and items as their numbers tell", "[sparse]") {
  const TempDir folder;
  {
    File file(folder / "a.h5", File::Mode::create);
    file.write<std::uint32_t>("train/users", {3, 0});
    file.write<std::uint32_t>("train/items", {1, 2});
    file.write<float>("train/ratings", {4, 2});
    file.write<std::uint32_t>("test/users", {8});
    file.write<std::uint32_t>("test/items", {0});
    file.write<float>("test/ratings", {5});
  }
  const auto set = open_dataset(settings_for(folder / "a.h5"), 1);
  CHECK(set->info().rows == 9);
  CHECK(set->info().columns == 3);
  CHECK(set->info().mean_value == 3);
  CHECK(inspect_dataset(settings_for(folder / "a.h5")).rows == 9);
}

TEST_CASE("classes come from the file, the names, or the training labels", "[sparse]") {
  const auto classes = [](const std::function<void(File&)>& more) {
    const TempDir folder;
    {
      File file(folder / "a.h5", File::Mode::create);
      file.write<std::uint64_t>("train/features/indptr", {0, 1, 1, 2});
      file.write<std::uint32_t>("train/features/indices", {0, 1});
      file.write_attribute("train/features", "columns", std::int64_t{2});
      file.write<std::int64_t>("train/labels", {0, 2, 1});
      more(file);
    }
    const auto set = open_dataset(settings_for(folder / "a.h5", false), 1);
    CHECK((evaluated(*set, Split::train) == Contents{"0:1=0", ":=2", "1:1=1"}));
    CHECK(set->occurrences() == std::vector<std::int64_t>{1, 1});
    return set->info().classes;
  };
  CHECK(classes([](File&) {}) == 3);
  CHECK(classes([](File& file) { file.write_attribute("", "classes", std::int64_t{5}); }) == 5);
  CHECK(classes([](File& file) {
          file.write_attribute("", "class_names", std::vector<std::string>{"a", "b", "c", "d"});
        }) == 4);
}

TEST_CASE("occurrences count the training rows of each column, and the words", "[sparse]") {
  const TempDir folder;
  write_small(kinds()[1], folder / "rows.h5", 100, 0, 50);
  std::vector<std::int64_t> expected(11);
  for (std::int64_t row = 0; row < 100; ++row) {
    for (std::int64_t k = 0; k < row % 4; ++k) ++expected[static_cast<std::size_t>(row % 3 + 4 * k)];
  }
  CHECK(open_dataset(settings_for(folder / "rows.h5"), 1)->occurrences() == expected);
  const auto part = open_dataset(settings_for(folder / "rows.h5", true, 0.3), 1);
  std::vector<std::int64_t> seen(11);
  const auto source = part->evaluate(Split::train, 0, 1, 10);
  while (const auto batch = source->next()) {
    const SparseRows& rows = std::get<LabelledRows>(*batch->set).rows;
    for (auto i = rows.offsets[static_cast<std::size_t>(batch->ranges[0].first)];
         i < rows.offsets[static_cast<std::size_t>(batch->ranges[0].last)]; ++i) {
      ++seen[rows.columns[i]];
    }
  }
  CHECK(part->occurrences() == seen);

  write_small(kinds()[3], folder / "text.h5", 100);
  CHECK(open_dataset(settings_for(folder / "text.h5"), 1)->occurrences() == std::vector<std::int64_t>(50, 7));
  write_small(kinds()[2], folder / "ratings.h5", 100);
  // Of ratings: how often each user and each item is rated.
  const auto ratings = open_dataset(settings_for(folder / "ratings.h5"), 1);
  const auto counts = ratings->occurrences();
  REQUIRE(std::ssize(counts) == ratings->info().rows + ratings->info().columns);
  CHECK(std::accumulate(counts.begin(), counts.begin() + ratings->info().rows, std::int64_t{0}) == 100);
  CHECK(std::accumulate(counts.begin() + ratings->info().rows, counts.end(), std::int64_t{0}) == 100);
}

TEST_CASE("a set of other values is another set", "[sparse]") {
  const TempDir folder;
  const auto identity = [&](const Kind& kind, std::int64_t units, const std::string& changed) {
    write_small(kind, folder / "a.h5", units);
    if (!changed.empty()) {
      File file(folder / "a.h5", File::Mode::update);
      const float other = 3.25F;
      file.write_rows(changed, 5, 1, &other);
    }
    return open_dataset(settings_for(folder / "a.h5"), 1)->info().identity;
  };
  std::set<std::uint64_t> all;
  for (const Kind& kind : kinds()) {
    CHECK(identity(kind, 100, "") == identity(kind, 100, ""));
    all.insert(identity(kind, 100, ""));
    all.insert(identity(kind, 101, ""));
  }
  CHECK(all.size() == 2 * kinds().size());
  for (const auto& [number, dataset] : {std::pair(0, "train/features/data"), std::pair(0, "train/targets"),
                                        std::pair(2, "train/ratings"), std::pair(4, "train/counts")}) {
    CAPTURE(dataset);
    CHECK(identity(kinds()[static_cast<std::size_t>(number)], 100, "") !=
          identity(kinds()[static_cast<std::size_t>(number)], 100, dataset));
  }
}

TEST_CASE("settings that only tables have are refused", "[sparse]") {
  const auto message = [](const Kind& kind, const std::function<void(DataSettings&)>& change) {
    const TempDir folder;
    write_small(kind, folder / "a.h5", 50, 5);
    DataSettings settings = settings_for(folder / "a.h5");
    change(settings);
    const std::string opened = message_of<ConfigError>([&] { open_dataset(settings, 1); });
    CHECK(message_of<ConfigError>([&] { inspect_dataset(settings); }) == opened);
    return opened;
  };
  for (const Kind& kind : kinds()) {
    CHECK(message(kind, [](DataSettings&) {}).empty());
    CHECK(message(kind, [](DataSettings& settings) { settings.reader = "resident"; }).empty());
    CHECK_THAT(message(kind, [](DataSettings& settings) { settings.targets = "features"; }),
               Contains("data.targets: ") && Contains(std::string(name_of(kind.kind))) && Contains("remove it"));
    CHECK_THAT(message(kind, [](DataSettings& settings) { settings.normalization = "global"; }),
               Contains("data.normalization: "));
    CHECK_THAT(message(kind, [](DataSettings& settings) { settings.reader = "streaming"; }), Contains("data.reader: "));
    CHECK_THAT(message(kind, [](DataSettings& settings) { settings.partition = "fixed"; }),
               Contains("data.partition: "));
    CHECK_THAT(message(kind, [](DataSettings& settings) { settings.augmentation.shift = 1; }),
               Contains("data.augmentation: "));
    const bool fraction = kind.kind == SetKind::sparse || kind.kind == SetKind::ratings;
    CHECK_THAT(message(kind, [](DataSettings& settings) { settings.validation_fraction = 0.1; }),
               Contains("data.validation_fraction") &&
                   Contains(fraction ? "has a group 'validation'; remove one" : "which cannot be split here"));
  }
}
