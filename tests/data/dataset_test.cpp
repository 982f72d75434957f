#include "unisono/data/dataset.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "sets.hpp"

using namespace unisono::data;
using unisono::test::CountingSet;
using unisono::test::TempDir;
using unisono::test::ThreadRanks;
using unisono::test::write_set;

namespace {

std::unique_ptr<unisono::data::Dataset> open(const std::string& path, unisono::data::DataSettings settings = {}) {
  settings.path = path;
  return unisono::data::open_dataset(settings, 1);
}

/// For each step of an epoch, all ranks' examples: micro-batch after micro-batch, and in each rank after rank.
std::vector<std::vector<std::uint64_t>> examples_of_epoch(unisono::data::Dataset& set, int ranks,
                                                          unisono::Index batch_size, unisono::Index accumulate = 1) {
  std::vector<std::unique_ptr<unisono::data::BatchSource>> sources;
  for (int rank = 0; rank < ranks; ++rank) {
    sources.push_back(
        set.train({.rank = rank, .size = ranks, .batch_size = batch_size, .micro_batches = accumulate, .seed = 7}));
  }
  std::vector<std::vector<std::uint64_t>> steps;
  for (bool ends = false; !ends;) {
    std::vector<std::uint64_t> step;
    for (bool last = false; !last;) {
      unisono::Index sum = 0, said = 0;
      for (auto& source : sources) {
        const unisono::data::Batch batch = source->next();
        REQUIRE(batch.size == static_cast<unisono::Index>(batch.examples.size()));
        step.insert(step.end(), batch.examples.begin(), batch.examples.end());
        sum += batch.size;
        said = batch.micro_batch_size;
        last = batch.last_of_step;
        ends = batch.last_of_epoch;
      }
      REQUIRE(sum == said);
      REQUIRE(sum > 0);
    }
    steps.push_back(step);
  }
  REQUIRE(static_cast<std::int64_t>(steps.size()) == sources[0]->steps_per_epoch());
  return steps;
}

std::vector<std::uint64_t> sorted_union(const std::vector<std::vector<std::uint64_t>>& steps) {
  std::vector<std::uint64_t> all;
  for (const auto& step : steps) all.insert(all.end(), step.begin(), step.end());
  std::sort(all.begin(), all.end());
  return all;
}

std::vector<std::uint64_t> zero_to(std::size_t n) {
  std::vector<std::uint64_t> numbers(n);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

}  // namespace

TEST_CASE("P ranks' slices are the batches of one rank, in order", "[dataset]") {
  const TempDir folder;
  const auto set = open(unisono::test::write_set(folder / "a.h5", {.train = 23}));
  for (const unisono::Index batch : {1, 4, 7, 23, 40}) {
    const auto serial = examples_of_epoch(*set, 1, batch);
    CHECK(sorted_union(serial) == zero_to(23));
    for (const int ranks : {2, 3, 4, 5}) {
      CHECK(examples_of_epoch(*set, ranks, batch) == serial);
      for (const unisono::Index accumulate : {2, 3, 8})
        CHECK(examples_of_epoch(*set, ranks, batch, accumulate) == serial);
    }
  }
}

TEST_CASE("an epoch's order is another than the last one's, and the seed's own", "[dataset]") {
  const TempDir folder;
  const auto set = open(unisono::test::write_set(folder / "a.h5", {.train = 100}));
  const auto source = set->train({.batch_size = 100, .seed = 1});
  const auto epochs = unisono::test::take_steps(*source, 2);
  CHECK(epochs[0] != epochs[1]);
  CHECK(sorted_union({epochs[1]}) == zero_to(100));
  const auto other = set->train({.batch_size = 100, .seed = 2});
  CHECK(unisono::test::take_steps(*other, 1)[0] != epochs[0]);
  const auto same = set->train({.batch_size = 10, .seed = 1});  // the order does not depend on the batch
  const auto again = unisono::test::take_steps(*same, 10);
  std::vector<std::uint64_t> joined;
  for (const auto& step : again) joined.insert(joined.end(), step.begin(), step.end());
  CHECK(joined == epochs[0]);
}

TEST_CASE("without shuffling the order is the file's", "[dataset]") {
  const TempDir folder;
  unisono::data::DataSettings settings;
  settings.shuffle = false;
  const auto set = open(unisono::test::write_set(folder / "a.h5", {.train = 9}), settings);
  CHECK(unisono::test::take_steps(*set->train({.batch_size = 9}), 2) ==
        std::vector<std::vector<std::uint64_t>>{zero_to(9), zero_to(9)});
}

TEST_CASE("a source that is sent to a cursor goes on as one that came there", "[dataset]") {
  const TempDir folder;
  unisono::data::DataSettings settings;
  settings.partition = GENERATE(unisono::data::Partition::global, unisono::data::Partition::fixed);
  const auto set = open(unisono::test::write_set(folder / "a.h5", {.train = 50}), settings);
  const unisono::data::SourceOptions options{.rank = 1, .size = 3, .batch_size = 8, .micro_batches = 2, .seed = 3};
  const auto through = set->train(options);
  const auto all = unisono::test::take_steps(*through, 3 * through->steps_per_epoch());
  const auto sent = set->train(options);
  for (const std::int64_t step : {0, 3, 9, 5, 15}) {
    sent->seek({step / sent->steps_per_epoch(), step % sent->steps_per_epoch()});
    const auto rest = unisono::test::take_steps(*sent, 4);
    for (std::size_t i = 0; i < 4; ++i) CHECK(rest[i] == all[static_cast<std::size_t>(step) + i]);
  }
}

TEST_CASE("fixed parts: a rank sees its own examples alone, each once an epoch, in as many steps as the others",
          "[dataset]") {
  const TempDir folder;
  unisono::data::DataSettings settings;
  settings.partition = unisono::data::Partition::fixed;
  const auto set = open(unisono::test::write_set(folder / "a.h5", {.train = 23}), settings);
  for (const int ranks : {1, 2, 3, 4, 5}) {
    for (const unisono::Index batch : {5, 8, 23}) {
      CHECK(sorted_union(examples_of_epoch(*set, ranks, batch)) == zero_to(23));
      for (int rank = 0; rank < ranks; ++rank) {
        const auto source = set->train({.rank = rank, .size = ranks, .batch_size = batch, .seed = 1});
        const auto first = sorted_union(unisono::test::take_steps(*source, source->steps_per_epoch()));
        const auto second = sorted_union(unisono::test::take_steps(*source, source->steps_per_epoch()));
        CHECK(first == second);
        CHECK(first.front() == static_cast<std::uint64_t>(23 * rank / ranks));
        CHECK(first.size() == static_cast<std::size_t>(23 * (rank + 1) / ranks - 23 * rank / ranks));
      }
    }
  }
  CHECK_THAT(
      unisono::test::message_of<unisono::ConfigError>([&] { set->train({.rank = 0, .size = 4, .batch_size = 3}); }),
      Catch::Contains("train.batch_size = 3") && Catch::Contains("at least 4"));
}

TEST_CASE("an evaluation counts every example exactly once, in the set's order, on any number of ranks", "[dataset]") {
  const TempDir folder;
  unisono::data::DataSettings settings;
  settings.partition = GENERATE(unisono::data::Partition::global, unisono::data::Partition::fixed);
  settings.reader = GENERATE(unisono::data::Reader::resident, unisono::data::Reader::streaming);
  const auto set = open(unisono::test::write_set(folder / "a.h5", {.train = 3, .test = 17}), settings);
  for (const int ranks : {1, 2, 3, 20}) {
    std::vector<std::uint64_t> seen;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto source = set->evaluate(unisono::data::Split::test, rank, ranks, 4);
      CHECK(source->first() == static_cast<std::int64_t>(seen.size()));
      while (const auto batch = source->next()) {
        CHECK(batch->size <= 4);
        for (unisono::Index i = 0; i < batch->size; ++i) {
          const auto example = batch->examples[static_cast<std::size_t>(i)];
          CHECK(batch->features[static_cast<std::size_t>(3 * i)] == static_cast<float>(3 * example));
          CHECK(batch->labels[static_cast<std::size_t>(i)] == static_cast<int>(example % 2));
          seen.push_back(example);
        }
      }
      CHECK(source->last() == static_cast<std::int64_t>(seen.size()));
    }
    CHECK(seen == zero_to(17));
  }
}

TEST_CASE("a batch holds the features and labels of its examples", "[dataset]") {
  const TempDir folder;
  const auto set =
      open(unisono::test::write_set<std::uint8_t>(folder / "a.h5", {.train = 20, .shape = {2, 3}, .classes = 3}));
  CHECK(set->info().features == unisono::data::FeatureShape{1, 2, 3});
  CHECK(set->info().classes == 3);
  CHECK(set->info().train == 20);
  const auto source = set->train({.batch_size = 6, .seed = 1});
  for (int step = 0; step < 8; ++step) {
    const unisono::data::Batch batch = source->next();
    REQUIRE(batch.features.size() == static_cast<std::size_t>(6 * batch.size));
    REQUIRE(batch.labels.size() == static_cast<std::size_t>(batch.size));
    CHECK(reinterpret_cast<std::uintptr_t>(batch.features.data()) % unisono::kAlignmentBytes == 0);
    for (std::size_t i = 0; i < batch.examples.size(); ++i) {
      for (std::size_t f = 0; f < 6; ++f)
        CHECK(batch.features[6 * i + f] == static_cast<float>(6 * batch.examples[i] + f));
      CHECK(batch.labels[i] == static_cast<int>(batch.examples[i] % 3));
    }
  }
}

TEST_CASE("ranks of a node read one copy together, and see what one rank sees", "[dataset]") {
  const TempDir folder;
  unisono::data::DataSettings settings;
  settings.path = unisono::test::write_set(folder / "a.h5", {.train = 57, .test = 5, .chunk_rows = 4});
  settings.normalization = unisono::data::NormalizationKind::feature;
  const auto alone = unisono::data::open_dataset(settings, 1);
  const bool window = GENERATE(true, false);
  const int ranks = GENERATE(1, 2, 3);
  ThreadRanks threads(ranks);
  std::vector<int> equal(static_cast<std::size_t>(ranks), 0);
  threads.run([&](int rank) {
    const auto set = unisono::data::open_dataset(settings, 1, threads.share(rank, window));
    const auto mine = set->train({.batch_size = 57, .seed = 4}), other = alone->train({.batch_size = 57, .seed = 4});
    const unisono::data::Batch batch = mine->next(), expected = other->next();
    equal[static_cast<std::size_t>(rank)] =
        set->info().identity == alone->info().identity &&
        set->preprocessing().normalization.mean == alone->preprocessing().normalization.mean &&
        set->preprocessing().normalization.scale == alone->preprocessing().normalization.scale &&
        std::ranges::equal(batch.features, expected.features) && std::ranges::equal(batch.labels, expected.labels);
  });
  CHECK(equal == std::vector<int>(static_cast<std::size_t>(ranks), 1));
}

// Hidden: format_example.py runs it on the set that the page's example writes.
TEST_CASE("the set of the page on the format opens", "[.example]") {
  const char* path = std::getenv("UNISONO_EXAMPLE");
  REQUIRE(path != nullptr);
  const auto set = open(path);
  CHECK(set->info().train == 900);
  CHECK(set->info().test == 100);
  CHECK(set->info().features == unisono::data::FeatureShape{3, 32, 32});
  CHECK(set->info().classes == 10);
  const auto source = set->train({.batch_size = 900});
  const unisono::data::Batch batch = source->next();
  CHECK(*std::max_element(batch.features.begin(), batch.features.end()) == Approx(1));
}
