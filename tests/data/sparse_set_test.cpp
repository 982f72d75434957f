#include "set/form.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <numeric>
#include <set>

#include "sparse_sets.hpp"

using namespace unisono::data;
using namespace unisono::test;
using Catch::Contains;
using unisono::data::hdf5::File;

namespace {

struct SmallSet {
  unisono::test::Contents train, validation, test;
};

SmallSet write_small(const unisono::test::Kind& kind, const std::string& path, std::int64_t train,
                     std::int64_t validation = 0, std::int64_t test = 0) {
  File file(path, File::Mode::create);
  SmallSet set;
  set.train = kind.write(file, "train", train);
  if (validation > 0) set.validation = kind.write(file, "validation", validation);
  if (test > 0) set.test = kind.write(file, "test", test);
  return set;
}

bool counts_words(const unisono::test::Kind& kind) { return kind.kind == unisono::data::SetKind::text; }

std::int64_t words_of(const unisono::test::Contents& sentences) {
  std::int64_t words = 0;
  for (const std::string& one : sentences) words += 1 + std::count(one.begin(), one.end(), ' ');
  return words;
}

std::int64_t examples_counted(const unisono::test::Kind& kind, const unisono::test::Contents& contents) {
  return counts_words(kind) ? words_of(contents) : static_cast<std::int64_t>(contents.size());
}

}  // namespace

TEST_CASE("every split is in memory as it is in the file", "[sparse]") {
  for (const unisono::test::Kind& kind : unisono::test::kinds()) {
    CAPTURE(kind.name);
    const unisono::test::TempDir folder;
    const SmallSet small = write_small(kind, folder / "a.h5", 101, 23, 5);
    for (const bool trained : {false, true}) {
      const unisono::data::DataSettings settings =
          unisono::test::settings_for(folder / "a.h5", trained);  // shuffle means nothing where it is trained
      const auto set = trained ? unisono::test::open_trained(settings, 1) : unisono::data::open_dataset(settings, 1);
      CHECK((unisono::test::evaluated(*set, unisono::data::Split::train) == small.train));
      CHECK((unisono::test::evaluated(*set, unisono::data::Split::validation) == small.validation));
      CHECK((unisono::test::evaluated(*set, unisono::data::Split::test) == small.test));
      const unisono::test::Contents parts =
          unisono::test::joined({unisono::test::evaluated(*set, unisono::data::Split::train, 0, 3),
                                 unisono::test::evaluated(*set, unisono::data::Split::train, 1, 3),
                                 unisono::test::evaluated(*set, unisono::data::Split::train, 2, 3)});
      CHECK((parts == small.train));
      CHECK(set->info().kind == kind.kind);
      CHECK(set->info().train == examples_counted(kind, small.train));
      CHECK(set->info().validation == examples_counted(kind, small.validation));
      CHECK(set->info().test == examples_counted(kind, small.test));
      CHECK(set->info().resident);
    }
    const auto set = unisono::data::open_dataset(unisono::test::settings_for(folder / "a.h5", false), 1);
    const auto source = set->train({.batch_size = 1000});
    CHECK(source->steps_per_epoch() == 1);
    CHECK(unisono::test::take_contents(*source, 1).front() == small.train);
  }
}

TEST_CASE("an epoch of a shuffled set has every example once, in another order each time", "[sparse]") {
  for (const unisono::test::Kind& kind : unisono::test::kinds()) {
    CAPTURE(kind.name);
    const unisono::test::TempDir folder;
    // Of ratings, few blocks would have few orders.
    const SmallSet small =
        write_small(kind, folder / "a.h5", kind.kind == unisono::data::SetKind::ratings ? 12000 : 3000);
    const auto set = unisono::data::open_dataset(unisono::test::settings_for(folder / "a.h5"), 1);
    const auto again = unisono::data::open_dataset(unisono::test::settings_for(folder / "a.h5"), 1),
               other = unisono::data::open_dataset(unisono::test::settings_for(folder / "a.h5"), 2);
    const unisono::data::SourceOptions options{.batch_size = 64, .seed = 1};
    const auto source = set->train(options);
    const std::int64_t steps = source->steps_per_epoch();
    std::vector<unisono::test::Contents> epochs;
    for (int epoch = 0; epoch < 3; ++epoch) {
      const auto taken = unisono::test::take_contents(*source, steps);
      epochs.push_back(unisono::test::joined(taken));
      CHECK((unisono::test::sorted(epochs.back()) == unisono::test::sorted(small.train)));
      for (std::int64_t step = 0; step + 1 < steps && !counts_words(kind); ++step) {
        CHECK(taken[static_cast<std::size_t>(step)].size() == 64);
      }
    }
    CHECK((epochs[0] != epochs[1]));
    CHECK((epochs[1] != epochs[2]));
    CHECK((epochs[0] != small.train));
    const auto same = again->train(options), differs = other->train({.batch_size = 64, .seed = 2});
    CHECK((unisono::test::joined(unisono::test::take_contents(*same, steps)) == epochs[0]));
    CHECK((unisono::test::joined(unisono::test::take_contents(*differs, steps)) != epochs[0]));
    same->seek({2, 0});
    CHECK((unisono::test::joined(unisono::test::take_contents(*same, steps)) == epochs[2]));
  }
}

TEST_CASE("ranks together see what one rank sees", "[sparse]") {
  for (const unisono::test::Kind& kind : unisono::test::kinds()) {
    CAPTURE(kind.name);
    const unisono::test::TempDir folder;
    write_small(kind, folder / "a.h5", 700);
    const auto set = unisono::data::open_dataset(unisono::test::settings_for(folder / "a.h5"), 1);
    const auto whole = set->train({.batch_size = 50});
    std::vector<std::unique_ptr<unisono::data::BatchSource>> ranks;
    for (int rank = 0; rank < 3; ++rank) ranks.push_back(set->train({.rank = rank, .size = 3, .batch_size = 50}));
    for (std::int64_t step = 0; step < 2 * whole->steps_per_epoch(); ++step) {
      std::vector<unisono::test::Contents> parts;
      for (const auto& rank : ranks) parts.push_back(unisono::test::contents_of(rank->next()));
      CHECK((unisono::test::joined(parts) == unisono::test::contents_of(whole->next())));
    }
  }
}

TEST_CASE("the ranks of a node hold one copy, or one each, of what one rank alone would hold", "[sparse]") {
  for (const unisono::test::Kind& kind : unisono::test::kinds()) {
    const unisono::test::TempDir folder;
    write_small(kind, folder / "a.h5", 900, 0, 31);
    const bool fraction = kind.kind == unisono::data::SetKind::sparse || kind.kind == unisono::data::SetKind::ratings;
    const unisono::data::DataSettings settings = unisono::test::settings_for(folder / "a.h5", true, fraction ? 0.2 : 0);
    const auto alone = unisono::data::open_dataset(settings, 1);
    const unisono::test::Contents train = unisono::test::evaluated(*alone, unisono::data::Split::train),
                                  test = unisono::test::evaluated(*alone, unisono::data::Split::test);
    for (const bool window : {true, false}) {
      for (const int size : {2, 3}) {
        CAPTURE(kind.name, window, size);
        unisono::test::ThreadRanks ranks(size);
        std::vector<unisono::test::Contents> trains(static_cast<std::size_t>(size)), tests = trains,
                                                                                     validations = trains;
        std::vector<unisono::data::DatasetInfo> infos(static_cast<std::size_t>(size));
        ranks.run([&](int rank) {
          const auto at = static_cast<std::size_t>(rank);
          const unisono::data::NodeShare share = ranks.share(rank, window);
          const auto set = unisono::data::open_dataset(settings, 1, share);
          trains[at] = unisono::test::evaluated(*set, unisono::data::Split::train);
          tests[at] = unisono::test::evaluated(*set, unisono::data::Split::test);
          if (fraction) validations[at] = unisono::test::evaluated(*set, unisono::data::Split::validation);
          infos[at] = set->info();
          share.barrier();
        });
        for (std::size_t rank = 0; rank < trains.size(); ++rank) {
          CHECK((trains[rank] == train));
          CHECK((tests[rank] == test));
          if (fraction)
            CHECK((validations[rank] == unisono::test::evaluated(*alone, unisono::data::Split::validation)));
          CHECK(infos[rank].identity == alone->info().identity);
          CHECK(infos[rank].mean_value == alone->info().mean_value);
          CHECK(infos[rank].bytes_per_node == alone->info().bytes_per_node * (window ? 1 : size));
        }
      }
    }
  }
}

TEST_CASE("an error of one rank's part is an error of all ranks", "[sparse]") {
  const unisono::test::TempDir folder;
  {
    File file(folder / "a.h5", File::Mode::create);
    file.write<std::uint64_t>("train/features/indptr", {0, 1, 2, 3, 4});
    file.write<std::uint32_t>("train/features/indices", {0, 1, 2, 3});
    file.write<float>("train/features/data", {1, 2, 3, std::numeric_limits<float>::quiet_NaN()});
    file.write_attribute("train/features", "columns", std::int64_t{4});
  }
  unisono::test::ThreadRanks ranks(2);
  std::vector<std::string> messages(2);
  ranks.run([&](int rank) {
    try {
      unisono::data::open_dataset(unisono::test::settings_for(folder / "a.h5"), 1, ranks.share(rank));
    } catch (const unisono::Error& error) {
      messages[static_cast<std::size_t>(rank)] = error.what();
    }
  });
  CHECK_THAT(messages[0], Contains("/train/features/data: value 3 is not finite"));
  CHECK_THAT(messages[1], Contains("/train/features/data: value 3 is not finite"));
}

TEST_CASE("a fraction of the training examples validates instead, and the same ones for a trained model", "[sparse]") {
  for (const unisono::test::Kind& kind : unisono::test::kinds()) {
    if (kind.kind != unisono::data::SetKind::sparse && kind.kind != unisono::data::SetKind::ratings) continue;
    CAPTURE(kind.name);
    const unisono::test::TempDir folder;
    const SmallSet small = write_small(kind, folder / "a.h5", 1000);
    const unisono::data::DataSettings settings = unisono::test::settings_for(folder / "a.h5", true, 0.15);
    const auto set = unisono::data::open_dataset(settings, 1);
    CHECK(set->info().train == 850);
    CHECK(set->info().validation == 150);
    CHECK(set->info().targets[1].target_size == set->info().targets[0].target_size);
    const unisono::test::Contents held_out = unisono::test::evaluated(*set, unisono::data::Split::validation),
                                  kept = unisono::test::evaluated(*set, unisono::data::Split::train);
    CHECK(held_out.size() == 150);
    CHECK((unisono::test::sorted(unisono::test::joined({held_out, kept})) == unisono::test::sorted(small.train)));
    const auto source = set->train({.batch_size = 32});
    CHECK(source->examples_per_epoch() == 850);
    CHECK((unisono::test::sorted(unisono::test::joined(
               unisono::test::take_contents(*source, source->steps_per_epoch()))) == unisono::test::sorted(kept)));

    const auto trained = unisono::test::open_trained(settings, 1);
    CHECK((unisono::test::sorted(unisono::test::evaluated(*trained, unisono::data::Split::validation)) ==
           unisono::test::sorted(held_out)));
    // The seed of the order has no part in it.
    CHECK((unisono::test::sorted(
               unisono::test::evaluated(*unisono::data::open_dataset(settings, 2), unisono::data::Split::validation)) ==
           unisono::test::sorted(held_out)));
    unisono::data::DataSettings other = settings;
    other.split_seed = 2;
    CHECK((unisono::test::sorted(
               unisono::test::evaluated(*unisono::data::open_dataset(other, 1), unisono::data::Split::validation)) !=
           unisono::test::sorted(held_out)));

    // What keeps its order keeps it in both parts.
    const auto in_order = [&](const unisono::test::Contents& some) {
      std::map<std::string, std::size_t> places;
      for (std::size_t i = 0; i < small.train.size(); ++i) places[small.train[i]] = i;
      return std::is_sorted(some.begin(), some.end(),
                            [&](const std::string& a, const std::string& b) { return places[a] < places[b]; });
    };
    const auto unshuffled = unisono::data::open_dataset(unisono::test::settings_for(folder / "a.h5", false, 0.15), 1);
    for (unisono::data::Dataset* one : {unshuffled.get(), trained.get()}) {
      CHECK((unisono::test::sorted(unisono::test::evaluated(*one, unisono::data::Split::validation)) ==
             unisono::test::sorted(held_out)));
      CHECK(in_order(unisono::test::evaluated(*one, unisono::data::Split::train)));
      CHECK(in_order(unisono::test::evaluated(*one, unisono::data::Split::validation)));
    }
  }
}

TEST_CASE("what a trained model is applied to may have a group of its own where a fraction validated", "[sparse]") {
  const unisono::test::TempDir folder;
  const SmallSet small = write_small(unisono::test::kinds()[0], folder / "a.h5", 20, 7);
  const auto set = unisono::test::open_trained(unisono::test::settings_for(folder / "a.h5", true, 0.5), 1);
  CHECK((unisono::test::evaluated(*set, unisono::data::Split::validation) == small.validation));
  CHECK(set->info().train == 20);
}

TEST_CASE("a set without a training group serves a trained model", "[sparse]") {
  for (const unisono::test::Kind& kind : unisono::test::kinds()) {
    CAPTURE(kind.name);
    const unisono::test::TempDir folder;
    unisono::test::Contents test;
    {
      File file(folder / "a.h5", File::Mode::create);
      test = kind.write(file, "test", 12);
    }
    const auto set = unisono::test::open_trained(unisono::test::settings_for(folder / "a.h5"), 1);
    CHECK((unisono::test::evaluated(*set, unisono::data::Split::test) == test));
    CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] { set->train({}); }),
               Contains("has no group 'train'"));
    CHECK_THAT(unisono::test::message_of<unisono::DataError>(
                   [&] { unisono::data::open_dataset(unisono::test::settings_for(folder / "a.h5"), 1); }),
               Contains("has no group 'train' to train on"));
  }
}

TEST_CASE("what a set says of itself, opened or not", "[sparse]") {
  for (const unisono::test::Kind& kind : unisono::test::kinds()) {
    CAPTURE(kind.name);
    const unisono::test::TempDir folder;
    write_small(kind, folder / "a.h5", 200, 0, 10);
    const auto set = unisono::data::open_dataset(unisono::test::settings_for(folder / "a.h5"), 1);
    const unisono::data::DatasetInfo &opened = set->info(),
                                     inspected =
                                         unisono::data::inspect_dataset(unisono::test::settings_for(folder / "a.h5"));
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
  const auto info = [](const unisono::test::Kind& kind) {
    const unisono::test::TempDir folder;
    write_small(kind, folder / "a.h5", 200);
    return unisono::data::open_dataset(unisono::test::settings_for(folder / "a.h5"), 1)->info();
  };
  const unisono::data::DatasetInfo rows = info(unisono::test::kinds()[0]), ratings = info(unisono::test::kinds()[2]),
                                   text = info(unisono::test::kinds()[3]), counts = info(unisono::test::kinds()[4]);
  CHECK(rows.features == unisono::data::FeatureShape{.channels = 11});
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
  const unisono::test::TempDir folder;
  {
    File file(folder / "a.h5", File::Mode::create);
    file.write<std::uint32_t>("train/users", {3, 0});
    file.write<std::uint32_t>("train/items", {1, 2});
    file.write<float>("train/ratings", {4, 2});
    file.write<std::uint32_t>("test/users", {8});
    file.write<std::uint32_t>("test/items", {0});
    file.write<float>("test/ratings", {5});
  }
  const auto set = unisono::data::open_dataset(unisono::test::settings_for(folder / "a.h5"), 1);
  CHECK(set->info().rows == 9);
  CHECK(set->info().columns == 3);
  CHECK(set->info().mean_value == 3);
  CHECK(unisono::data::inspect_dataset(unisono::test::settings_for(folder / "a.h5")).rows == 9);
}

TEST_CASE("classes come from the file, the names, or the training labels", "[sparse]") {
  const auto classes = [](const std::function<void(File&)>& more) {
    const unisono::test::TempDir folder;
    {
      File file(folder / "a.h5", File::Mode::create);
      file.write<std::uint64_t>("train/features/indptr", {0, 1, 1, 2});
      file.write<std::uint32_t>("train/features/indices", {0, 1});
      file.write_attribute("train/features", "columns", std::int64_t{2});
      file.write<std::int64_t>("train/labels", {0, 2, 1});
      more(file);
    }
    const auto set = unisono::data::open_dataset(unisono::test::settings_for(folder / "a.h5", false), 1);
    CHECK((unisono::test::evaluated(*set, unisono::data::Split::train) ==
           unisono::test::Contents{"0:1=0", ":=2", "1:1=1"}));
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
  const unisono::test::TempDir folder;
  write_small(unisono::test::kinds()[1], folder / "rows.h5", 100, 0, 50);
  std::vector<std::int64_t> expected(11);
  for (std::int64_t row = 0; row < 100; ++row) {
    for (std::int64_t k = 0; k < row % 4; ++k) ++expected[static_cast<std::size_t>(row % 3 + 4 * k)];
  }
  CHECK(unisono::data::open_dataset(unisono::test::settings_for(folder / "rows.h5"), 1)->occurrences() == expected);
  const auto part = unisono::data::open_dataset(unisono::test::settings_for(folder / "rows.h5", true, 0.3), 1);
  std::vector<std::int64_t> seen(11);
  const auto source = part->evaluate(unisono::data::Split::train, 0, 1, 10);
  while (const auto batch = source->next()) {
    const unisono::SparseRows& rows = std::get<unisono::data::LabelledRows>(*batch->set).rows;
    for (auto i = rows.offsets[static_cast<std::size_t>(batch->ranges[0].first)];
         i < rows.offsets[static_cast<std::size_t>(batch->ranges[0].last)]; ++i) {
      ++seen[rows.columns[i]];
    }
  }
  CHECK(part->occurrences() == seen);

  write_small(unisono::test::kinds()[3], folder / "text.h5", 100);
  CHECK(unisono::data::open_dataset(unisono::test::settings_for(folder / "text.h5"), 1)->occurrences() ==
        std::vector<std::int64_t>(50, 7));
  write_small(unisono::test::kinds()[2], folder / "ratings.h5", 100);
  // Of ratings: how often each user and each item is rated.
  const auto ratings = unisono::data::open_dataset(unisono::test::settings_for(folder / "ratings.h5"), 1);
  const auto counts = ratings->occurrences();
  REQUIRE(std::ssize(counts) == ratings->info().rows + ratings->info().columns);
  CHECK(std::accumulate(counts.begin(), counts.begin() + ratings->info().rows, std::int64_t{0}) == 100);
  CHECK(std::accumulate(counts.begin() + ratings->info().rows, counts.end(), std::int64_t{0}) == 100);
}

TEST_CASE("a set of other values is another set", "[sparse]") {
  const unisono::test::TempDir folder;
  const auto identity = [&](const unisono::test::Kind& kind, std::int64_t units, const std::string& changed) {
    write_small(kind, folder / "a.h5", units);
    if (!changed.empty()) {
      File file(folder / "a.h5", File::Mode::update);
      const float other = 3.25F;
      file.write_rows(changed, 5, 1, &other);
    }
    return unisono::data::open_dataset(unisono::test::settings_for(folder / "a.h5"), 1)->info().identity;
  };
  std::set<std::uint64_t> all;
  for (const unisono::test::Kind& kind : unisono::test::kinds()) {
    CHECK(identity(kind, 100, "") == identity(kind, 100, ""));
    all.insert(identity(kind, 100, ""));
    all.insert(identity(kind, 101, ""));
  }
  CHECK(all.size() == 2 * unisono::test::kinds().size());
  for (const auto& [number, dataset] : {std::pair(0, "train/features/data"), std::pair(0, "train/targets"),
                                        std::pair(2, "train/ratings"), std::pair(4, "train/counts")}) {
    CAPTURE(dataset);
    CHECK(identity(unisono::test::kinds()[static_cast<std::size_t>(number)], 100, "") !=
          identity(unisono::test::kinds()[static_cast<std::size_t>(number)], 100, dataset));
  }
}

TEST_CASE("strata are refused where there are no ratings, with the name of what sets them", "[sparse]") {
  const unisono::test::TempDir folder;
  unisono::test::write_set(folder / "a.h5", {});
  unisono::data::DataSettings settings = unisono::test::settings_for(folder / "a.h5");
  settings.order = unisono::data::Order::strata;
  const auto message = [&] {
    return unisono::test::message_of<unisono::ConfigError>([&] { unisono::data::inspect_dataset(settings); });
  };
  CHECK_THAT(message(), Contains("data.order = \"strata\" needs ratings, but ") &&
                            Catch::Matchers::EndsWith("a.h5 holds a table; choose another order"));
  settings.strata_set_by = "kind = \"blocks\"";
  CHECK_THAT(message(), Contains("kind = \"blocks\" and data.order = \"strata\" need ratings, but ") &&
                            Catch::Matchers::EndsWith("a.h5 holds a table; choose another strategy and order"));
}

TEST_CASE("settings that only tables have are refused", "[sparse]") {
  const auto message = [](const unisono::test::Kind& kind,
                          const std::function<void(unisono::data::DataSettings&)>& change) {
    const unisono::test::TempDir folder;
    write_small(kind, folder / "a.h5", 50, 5);
    unisono::data::DataSettings settings = unisono::test::settings_for(folder / "a.h5");
    change(settings);
    const std::string opened =
        unisono::test::message_of<unisono::ConfigError>([&] { unisono::data::open_dataset(settings, 1); });
    CHECK(unisono::test::message_of<unisono::ConfigError>([&] { unisono::data::inspect_dataset(settings); }) == opened);
    return opened;
  };
  for (const unisono::test::Kind& kind : unisono::test::kinds()) {
    CHECK(message(kind, [](unisono::data::DataSettings&) {}).empty());
    CHECK(message(kind, [](unisono::data::DataSettings& settings) {
            settings.reader = unisono::data::Reader::resident;
          }).empty());
    CHECK_THAT(
        message(kind,
                [](unisono::data::DataSettings& settings) { settings.targets = unisono::data::Targets::features; }),
        Contains("data.targets: ") && Contains(std::string(unisono::data::name_of(kind.kind))) &&
            Contains("remove it"));
    CHECK_THAT(message(kind,
                       [](unisono::data::DataSettings& settings) {
                         settings.normalization = unisono::data::NormalizationKind::global;
                       }),
               Contains("data.normalization: "));
    CHECK_THAT(
        message(kind,
                [](unisono::data::DataSettings& settings) { settings.reader = unisono::data::Reader::streaming; }),
        Contains("data.reader: "));
    CHECK_THAT(
        message(kind,
                [](unisono::data::DataSettings& settings) { settings.partition = unisono::data::Partition::fixed; }),
        Contains("data.partition: "));
    CHECK_THAT(message(kind, [](unisono::data::DataSettings& settings) { settings.augmentation.shift = 1; }),
               Contains("data.augmentation: "));
    const bool fraction = kind.kind == unisono::data::SetKind::sparse || kind.kind == unisono::data::SetKind::ratings;
    CHECK_THAT(message(kind, [](unisono::data::DataSettings& settings) { settings.validation_fraction = 0.1; }),
               Contains("data.validation_fraction") &&
                   Contains(fraction ? "has a group 'validation'; remove one" : "which cannot be split here"));
  }
}
