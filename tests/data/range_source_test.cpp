#include "sparse/range_source.hpp"

#include <catch2/catch.hpp>
#include <set>

#include "sparse_sets.hpp"

using namespace unisono::data;

namespace {

/// Entries that are their own numbers, in chunks of these sizes.
struct Chunks {
  explicit Chunks(const std::vector<std::int64_t>& sizes) {
    for (const std::int64_t size : sizes) {
      split.chunks.push_back({split.examples, split.examples + size});
      split.chunk_examples.push_back(size);
      split.examples += size;
    }
    split.set = unisono::data::SparseEntries();
  }
  unisono::data::LoadedSplit split;
};

/// Sentences of so many words, each a chunk.
struct LoadedSentences {
  explicit LoadedSentences(const std::vector<std::int64_t>& words) {
    for (const std::int64_t n : words) {
      const auto i = static_cast<std::int64_t>(split.chunks.size());
      split.chunks.push_back({i, i + 1});
      split.chunk_examples.push_back(n);
      split.examples += n;
    }
    split.set = unisono::Text();
  }
  unisono::data::LoadedSplit split;
};

std::vector<std::int64_t> units(const unisono::data::Batch& batch) {
  std::vector<std::int64_t> all;
  for (const unisono::data::ExampleRange& range : batch.ranges) {
    for (std::int64_t i = range.first; i < range.last; ++i) all.push_back(i);
  }
  return all;
}

std::vector<std::vector<std::int64_t>> take(unisono::data::BatchSource& source, std::int64_t steps) {
  std::vector<std::vector<std::int64_t>> taken;
  for (std::int64_t i = 0; i < steps; ++i) taken.push_back(units(source.next()));
  return taken;
}

using PlaceSteps = std::vector<std::vector<std::int64_t>>;

}  // namespace

TEST_CASE("without shuffling, steps cut the memory in pieces of the batch size", "[ranges]") {
  const Chunks chunks({3, 4, 1, 2});
  unisono::data::RangeSource source(chunks.split, {.batch_size = 4}, false);
  CHECK(source.steps_per_epoch() == 3);
  CHECK(source.examples_per_epoch() == 10);
  CHECK(take(source, 4) == PlaceSteps{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9}, {0, 1, 2, 3}});
  unisono::data::RangeSource large(chunks.split, {.batch_size = 99}, false);
  CHECK(large.steps_per_epoch() == 1);
  CHECK(take(large, 1) == PlaceSteps{{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}});
}

TEST_CASE("a batch says where it stands", "[ranges]") {
  const Chunks chunks({3, 4, 1, 2});
  unisono::data::RangeSource source(chunks.split, {.rank = 1, .size = 3, .batch_size = 4}, false);
  source.next();
  const unisono::data::Batch second = source.next();
  CHECK(second.size == 1);  // places 1·4/3 to 2·4/3 of 4
  CHECK(second.rank_step_size == 1);
  CHECK(second.global_size == 4);
  CHECK(second.micro_batch_size == 4);
  CHECK(second.epoch == 0);
  CHECK(second.epoch_examples_before == 4);
  CHECK(second.last_of_step);
  CHECK_FALSE(second.last_of_epoch);
  CHECK(second.set == &chunks.split.set);
  const unisono::data::Batch third = source.next();
  CHECK(third.global_size == 2);
  CHECK(third.epoch_examples_before == 8);
  CHECK(third.last_of_epoch);
  CHECK(source.next().epoch == 1);
}

TEST_CASE("chunks change their order, not what is in them", "[ranges]") {
  const Chunks chunks({3, 4, 1, 2, 5, 3});
  const auto epoch = [&](std::uint64_t seed, std::int64_t number) {
    unisono::data::RangeSource source(chunks.split, {.batch_size = 100, .seed = seed}, true);
    source.seek({number, 0});
    const unisono::data::Batch batch = source.next();
    CHECK(batch.ranges.size() == 6);
    std::set<std::int64_t> firsts;
    for (const unisono::data::ExampleRange& range : batch.ranges) {
      CHECK(std::find(chunks.split.chunks.begin(), chunks.split.chunks.end(), range) != chunks.split.chunks.end());
      firsts.insert(range.first);
    }
    CHECK(firsts.size() == 6);
    return units(batch);
  };
  CHECK(epoch(1, 0) == epoch(1, 0));
  std::set<std::vector<std::int64_t>> orders;
  for (std::int64_t number = 0; number < 5; ++number) orders.insert(epoch(1, number));
  orders.insert(epoch(2, 0));
  CHECK(orders.size() >= 5);  // of 720 orders six, of which two may be the same
}

TEST_CASE("the ranks' parts of a step are one rank's step, cut", "[ranges]") {
  const Chunks chunks({3, 4, 1, 2, 5, 3, 9, 1});
  for (const int ranks : {2, 3, 5}) {
    unisono::data::RangeSource whole(chunks.split, {.batch_size = 6, .seed = 4}, true);
    std::vector<std::unique_ptr<unisono::data::RangeSource>> parts;
    for (int rank = 0; rank < ranks; ++rank) {
      parts.push_back(std::make_unique<unisono::data::RangeSource>(
          chunks.split, unisono::data::SourceOptions{.rank = rank, .size = ranks, .batch_size = 6, .seed = 4}, true));
    }
    for (std::int64_t step = 0; step < 2 * whole.steps_per_epoch(); ++step) {
      const unisono::data::Batch all = whole.next();
      std::vector<std::int64_t> together;
      for (const auto& part : parts) {
        const unisono::data::Batch batch = part->next();
        CHECK(batch.global_size == all.size);
        CHECK(batch.size == static_cast<unisono::Index>(units(batch).size()));
        const auto own = units(batch);
        together.insert(together.end(), own.begin(), own.end());
      }
      CHECK(together == units(all));
    }
  }
}

TEST_CASE("a source goes on from any step as if it had come there", "[ranges]") {
  const Chunks chunks({3, 4, 1, 2, 5, 3});
  unisono::data::RangeSource through(chunks.split, {.batch_size = 4, .seed = 4}, true);
  const PlaceSteps all = take(through, 15);  // five steps an epoch
  for (std::int64_t step = 0; step < 12; ++step) {
    unisono::data::RangeSource source(chunks.split, {.batch_size = 4, .seed = 4}, true);
    take(source, step % 3);
    source.seek({step / 5, step % 5});
    CHECK(take(source, 3) == PlaceSteps(all.begin() + step, all.begin() + step + 3));
    source.seek({0, step});  // beyond the epoch's end
    CHECK(take(source, 1).front() == all[static_cast<std::size_t>(step)]);
  }
}

TEST_CASE("lanes share a source's steps", "[ranges]") {
  const Chunks chunks({3, 4, 1, 2, 5, 3});
  unisono::data::RangeSource whole(chunks.split, {.batch_size = 4, .seed = 4}, true);
  const PlaceSteps all = take(whole, 20);
  for (const int lanes : {2, 3, 7}) {
    for (int lane = 0; lane < lanes; ++lane) {
      unisono::data::RangeSource one(chunks.split, {.batch_size = 4, .seed = 4, .lane = lane, .lanes = lanes}, true);
      for (int step = lane; step < 20; step += lanes) CHECK(units(one.next()) == all[static_cast<std::size_t>(step)]);
      one.seek({1, 3});
      for (int step = 8 + lane; step < 20; step += lanes)
        CHECK(units(one.next()) == all[static_cast<std::size_t>(step)]);
    }
  }
}

TEST_CASE("a text's sentences are not cut, and go where their first word goes", "[ranges]") {
  const LoadedSentences text({5, 1, 0, 3, 8, 1});  // 18 words: places 0–4, 5, –, 6–8, 9–16, 17
  unisono::data::RangeSource source(text.split, {.batch_size = 6}, false);
  REQUIRE(source.steps_per_epoch() == 3);  // places 0–5, 6–11, 12–17
  CHECK(take(source, 3) == PlaceSteps{{0, 1}, {3, 4}, {5}});
  source.seek({0, 0});
  CHECK(source.next().size == 6);
  const unisono::data::Batch second = source.next();
  CHECK(second.size == 11);
  CHECK(second.global_size == 11);

  // Two ranks: a step's places are cut in halves.
  unisono::data::RangeSource left(text.split, {.rank = 0, .size = 2, .batch_size = 6}, false);
  unisono::data::RangeSource right(text.split, {.rank = 1, .size = 2, .batch_size = 6}, false);
  CHECK(take(left, 3) == PlaceSteps{{0}, {3}, {}});
  CHECK(take(right, 3) == PlaceSteps{{1}, {4}, {5}});
}

TEST_CASE("a text of few long sentences has at most as many steps, and each word comes once", "[ranges]") {
  const LoadedSentences text({500, 300, 1});
  unisono::data::RangeSource source(text.split, {.batch_size = 10, .seed = 3}, true);
  CHECK(source.steps_per_epoch() == 3);
  std::multiset<std::int64_t> seen;
  unisono::Index words = 0;
  for (int step = 0; step < 3; ++step) {
    const unisono::data::Batch batch = source.next();
    words += batch.size;
    for (const std::int64_t i : units(batch)) seen.insert(i);
  }
  CHECK(seen == std::multiset<std::int64_t>{0, 1, 2});
  CHECK(words == 801);
}

TEST_CASE("an evaluation gives each rank its part, in order", "[ranges]") {
  Chunks chunks({3, 4, 1, 2});
  for (unisono::data::ExampleRange& chunk : chunks.split.chunks)
    chunk = {chunk.first + 100, chunk.last + 100};  // behind others
  for (const int ranks : {1, 2, 3, 13}) {
    std::int64_t next = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      unisono::data::RangeEvaluation source(chunks.split, rank, ranks, 3);
      CHECK(source.first() == next);
      while (const auto batch = source.next()) {
        CHECK(batch->size <= 3);
        for (const std::int64_t i : units(*batch)) CHECK(i == 100 + next++);
      }
      CHECK(source.last() == next);
    }
    CHECK(next == 10);
  }
}

TEST_CASE("an evaluation of nothing ends at once", "[ranges]") {
  const Chunks none({});
  unisono::data::RangeEvaluation source(none.split, 0, 1, 3);
  CHECK_FALSE(source.next());
  CHECK(source.last() == 0);
}
