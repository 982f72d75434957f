#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <numeric>
#include <set>

#include "order/schedule.hpp"
#include "unisono/base/errors.hpp"

using namespace unisono::data;

namespace {

std::vector<std::uint64_t> all_of(const unisono::data::KeyedPermutation& order) {
  std::vector<std::uint64_t> values;
  for (std::uint64_t i = 0; i < order.size(); ++i) values.push_back(order(i));
  return values;
}

unisono::data::KeyedPermutation keyed(std::uint64_t n, std::uint64_t seed) {
  return {n, unisono::RandomStream(seed, unisono::Purpose::test)};
}

std::vector<std::int64_t> rows_of(const unisono::data::FileRows& runs) {
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < runs.size(); ++i) rows.push_back(runs.row(i));
  return rows;
}

}  // namespace

TEST_CASE("a keyed permutation holds every number once", "[order]") {
  for (const std::uint64_t n : {1, 2, 3, 4, 5, 10, 16, 17, 100, 1000, 65536, 65537}) {
    for (const std::uint64_t seed : {1, 2}) {
      auto values = all_of(keyed(n, seed));
      std::sort(values.begin(), values.end());
      std::vector<std::uint64_t> expected(n);
      std::iota(expected.begin(), expected.end(), 0);
      CHECK(values == expected);
    }
  }
  const auto huge = keyed(std::uint64_t{1} << 40, 1);
  CHECK(huge(123456789) < huge.size());
  CHECK(huge(0) != huge(1));
}

TEST_CASE("a keyed permutation is as uniform as random ones are", "[order]") {
  // Where 20 numbers go to, over 4000 keys: χ² of the 20 × 20 table has 19 · 19 degrees of freedom: mean 361, deviation
  // √722 = 27; 5 deviations are allowed.
  constexpr int n = 20, keys = 4000;
  std::vector<int> table(n * n, 0);
  std::map<std::pair<std::uint64_t, std::uint64_t>, int> neighbours;
  for (int key = 0; key < keys; ++key) {
    const auto values = all_of(keyed(n, static_cast<std::uint64_t>(key)));
    for (std::size_t i = 0; i < n; ++i) ++table[i * n + values[i]];
    ++neighbours[{values[0], values[1]}];
  }
  double chi2 = 0;
  const double expected = static_cast<double>(keys) / n;
  for (const int count : table) chi2 += (count - expected) * (count - expected) / expected;
  CHECK(chi2 < 361 + 5 * 27);
  CHECK(chi2 > 361 - 5 * 27);
  // The first two are any of the 380 pairs: χ² with 379 degrees of freedom, deviation √758 = 27.5.
  double pairs = 0;
  const double each = keys / 380.0;
  for (const auto& [pair, count] : neighbours) pairs += (count - each) * (count - each) / each;
  pairs += each * static_cast<double>(380 - neighbours.size());
  CHECK(std::abs(pairs - 379) < 5 * 27.5);
}

TEST_CASE("parts are contiguous, as equal as whole numbers allow, and do not overflow", "[order]") {
  for (const std::int64_t n : {0, 1, 7, 64, 100}) {
    for (const std::int64_t parts : {1, 2, 3, 5, 64, 200}) {
      std::int64_t end = 0;
      for (std::int64_t i = 0; i < parts; ++i) {
        const unisono::data::Range part = unisono::data::part_of(n, i, parts);
        CHECK(part.first == end);
        CHECK(part.first == i * n / parts);
        CHECK((part.size() == n / parts || part.size() == n / parts + 1));
        end = part.last;
      }
      CHECK(end == n);
    }
  }
  const std::int64_t large = std::int64_t{1} << 60;
  CHECK(unisono::data::part_of(large, 1000, 1024).first == large / 1024 * 1000);
}

TEST_CASE("row runs count positions across gaps", "[order]") {
  unisono::data::FileRows runs;
  runs.append(0, 2);
  runs.append(2, 1);  // joins the first
  runs.append(5, 3);
  runs.append(9, 0);
  CHECK(runs.size() == 6);
  CHECK(rows_of(runs) == std::vector<std::int64_t>{0, 1, 2, 5, 6, 7});
  const auto cut = runs.runs({2, 5});
  REQUIRE(cut.size() == 2);
  CHECK((cut[0].first_row == 2 && cut[0].rows == 1 && cut[0].first_position == 2));
  CHECK((cut[1].first_row == 5 && cut[1].rows == 2 && cut[1].first_position == 3));
  CHECK(runs.span({1, 4}) == unisono::data::Range{1, 6});
  CHECK(runs.span({3, 3}) == unisono::data::Range{0, 0});
}

TEST_CASE("a validation split takes each row once, a fraction for validation, by the seed", "[order]") {
  for (const std::int64_t unit : {1, 7}) {
    const auto split = unisono::data::split_validation(100, unit, 0.3, 5);
    std::set<std::int64_t> seen;
    for (const unisono::data::FileRows* part : {&split.train, &split.validation}) {
      const auto rows = rows_of(*part);
      CHECK(std::is_sorted(rows.begin(), rows.end()));
      seen.insert(rows.begin(), rows.end());
    }
    CHECK(seen.size() == 100);
    CHECK(split.validation.size() == unisono::data::validation_units(100 / unit, 0.3) * unit);
    CHECK(rows_of(split.validation) == rows_of(unisono::data::split_validation(100, unit, 0.3, 5).validation));
    CHECK(rows_of(split.validation) != rows_of(unisono::data::split_validation(100, unit, 0.3, 6).validation));
  }
  CHECK(unisono::data::split_validation(2, 1, 0.001, 1).validation.size() == 1);
  CHECK(unisono::data::split_validation(2, 1, 0.999, 1).train.size() == 1);
}

TEST_CASE("a stratified split takes the same fraction of each class", "[order]") {
  // 60, 30, 9 and 1 rows: a fifth of them are 12, 6, 1.8 and 0.2; of 20 in all, the largest remainder gets the rest.
  std::vector<std::int32_t> strata;
  for (int row = 0; row < 100; ++row) strata.push_back(row % 10 < 6 ? 0 : row % 10 < 9 ? 1 : row == 99 ? 3 : 2);
  const auto split = unisono::data::split_stratified(strata, 0.2, 7);
  std::array<int, 4> validating{}, training{};
  for (const std::int64_t row : rows_of(split.validation))
    ++validating[static_cast<std::size_t>(strata[static_cast<std::size_t>(row)])];
  for (const std::int64_t row : rows_of(split.train))
    ++training[static_cast<std::size_t>(strata[static_cast<std::size_t>(row)])];
  CHECK(validating == std::array{12, 6, 2, 0});
  CHECK(training == std::array{48, 24, 7, 1});
  CHECK(rows_of(split.validation) == rows_of(unisono::data::split_stratified(strata, 0.2, 7).validation));
  CHECK(rows_of(split.validation) != rows_of(unisono::data::split_stratified(strata, 0.2, 8).validation));
  // Classes of one row each: some validate all the same.
  CHECK(unisono::data::split_stratified(std::vector<std::int32_t>{0, 1, 2, 3}, 0.25, 1).validation.size() == 1);
}

TEST_CASE("the micro-batches of a step are cut as the contract says", "[order]") {
  // 10 examples, 4 a step, 2 micro-batches, rank 1 of 3: micro-batches [0, 2), [2, 4); slices [0, 0) [0, 1) [1, 2).
  unisono::data::Schedule schedule(10, {.rank = 1, .size = 3, .batch_size = 4, .micro_batches = 2}, false);
  CHECK(schedule.steps_per_epoch() == 3);
  unisono::data::MicroBatch batch = schedule.current();
  CHECK(batch.step_places == unisono::data::Range{0, 4});
  CHECK(batch.places == unisono::data::Range{0, 1});
  CHECK(batch.micro_batch_size == 2);
  CHECK(batch.global_size == 4);
  CHECK(batch.rank_step_size == 2);
  CHECK_FALSE(batch.last_of_step);
  schedule.advance();
  batch = schedule.current();
  CHECK(batch.places == unisono::data::Range{2, 3});
  CHECK(batch.last_of_step);
  CHECK_FALSE(batch.last_of_epoch);
  schedule.seek({0, 2});  // the last step has 2 examples
  batch = schedule.current();
  CHECK(batch.step_places == unisono::data::Range{8, 10});
  CHECK(batch.places == unisono::data::Range{0, 0});  // [0, 1) is cut into [0, 0) [0, 0) [0, 1)
  CHECK(batch.micro_batch_size == 1);
  schedule.advance();
  CHECK(schedule.current().last_of_epoch);
  schedule.advance();
  CHECK(schedule.current().epoch == 1);
  CHECK(schedule.current().step == 0);
}

TEST_CASE("a step has no more micro-batches than examples", "[order]") {
  unisono::data::Schedule schedule(5, {.batch_size = 4, .micro_batches = 3}, false);
  schedule.seek({0, 1});
  CHECK(schedule.current().micro_batch_size == 1);
  CHECK(schedule.current().last_of_step);
}

namespace {

using unisono::data::MicroBatch;
using unisono::data::MicroBatchSharing;
using unisono::data::SourceOptions;

/// The micro-batches of each rank in the first epoch, by step.
std::vector<std::vector<MicroBatch>> micro_batches_of_epoch(int rank, int ranks, SourceOptions options,
                                                            std::int64_t examples) {
  options.rank = rank;
  options.size = ranks;
  unisono::data::Schedule schedule(examples, options, false);
  std::vector<std::vector<MicroBatch>> steps(static_cast<std::size_t>(schedule.steps_per_epoch()));
  for (; schedule.current().epoch == 0; schedule.advance()) {
    steps[static_cast<std::size_t>(schedule.current().step)].push_back(schedule.current());
    CHECK(steps[static_cast<std::size_t>(schedule.current().step)].back().places.size() <= schedule.largest_slice());
  }
  return steps;
}

}  // namespace

TEST_CASE("an epoch's last step is left out where that is asked for", "[order]") {
  for (const std::int64_t examples : {8, 9, 11, 12}) {
    const unisono::data::Schedule schedule(examples, {.batch_size = 4, .drop_last = true}, false);
    CHECK(schedule.steps_per_epoch() == examples / 4);
    CHECK(schedule.last_batch() == 4);
  }
  // Of parts with orders of their own, of 5 and 6 examples, both have two steps of 2.
  CHECK(unisono::data::Schedule(11, {.size = 2, .batch_size = 4, .drop_last = true}, true).steps_per_epoch() == 2);
  CHECK_THROWS_WITH(unisono::data::Schedule(3, {.batch_size = 4, .drop_last = true}, false),
                    Catch::Contains("train.last_batch = \"drop\" leaves no step of 3 training examples"));
}

TEST_CASE("a last step of too few examples is joined to the step before, and no other is", "[order]") {
  const auto steps_of = [](std::int64_t examples, const SourceOptions& options) {
    std::vector<std::int64_t> sizes;
    for (const auto& step : micro_batches_of_epoch(0, 1, options, examples)) {
      sizes.push_back(0);
      for (const MicroBatch& batch : step) sizes.back() += batch.places.size();
      CHECK(step.back().last_of_epoch ==
            (std::ssize(sizes) == std::ssize(micro_batches_of_epoch(0, 1, options, examples))));
    }
    return sizes;
  };
  using Sizes = std::vector<std::int64_t>;
  const SourceOptions two{.batch_size = 4, .least = {.together = 2}};
  CHECK(steps_of(9, two) == Sizes{4, 5});
  CHECK(steps_of(10, two) == Sizes{4, 4, 2});
  CHECK(steps_of(8, two) == Sizes{4, 4});
  CHECK(steps_of(5, two) == Sizes{5});
  CHECK(steps_of(9, {.batch_size = 4}) == Sizes{4, 4, 1});
  CHECK(steps_of(9, {.batch_size = 4, .drop_last = true, .least = {.together = 2}}) == Sizes{4, 4});
  // Two micro-batches of 2; of a last step of 3 one has a single example.
  CHECK(steps_of(11, {.batch_size = 4, .micro_batches = 2, .least = {.together = 2}}) == Sizes{4, 7});
  // Ranks of 4 and 4 examples; of a last step of 3 one has a single example, which matters where it is compared with
  // those of its rank.
  const SourceOptions ranks{.batch_size = 8, .least = {.together = 2}}, local{.batch_size = 8, .least = {.of_rank = 2}};
  CHECK(micro_batches_of_epoch(0, 2, ranks, 19).size() == 3);
  CHECK(micro_batches_of_epoch(0, 2, local, 19).size() == 2);
  CHECK(micro_batches_of_epoch(1, 2, local, 19)[1].front().places == unisono::data::Range{5, 11});
}

TEST_CASE("all ranks join the same last step, also those that have none of it", "[order]") {
  for (const MicroBatchSharing sharing :
       {MicroBatchSharing::sliced, MicroBatchSharing::whole, MicroBatchSharing::own}) {
    for (const std::int64_t left : {1, 2, 4, 6, 7}) {
      std::set<std::int64_t> steps;
      std::int64_t taken = 0;
      for (const int rank : {0, 1, 2}) {
        const SourceOptions options{.batch_size = 43,
                                    .micro_batches = sharing == MicroBatchSharing::whole ? 3 : 1,
                                    .sharing = sharing,
                                    .least = {.of_rank = 2}};
        const auto own = micro_batches_of_epoch(rank, 3, options, 43 * 5 + left);
        steps.insert(std::ssize(own));
        for (const MicroBatch& batch : own.back()) {
          taken += batch.places.size();
          CHECK(batch.places.size() != 1);
        }
      }
      CAPTURE(left);
      REQUIRE(steps.size() == 1);
      CHECK(taken == (*steps.begin() == 5 ? 43 + left : left));
    }
  }
}

TEST_CASE("parts with orders of their own join their last steps together", "[order]") {
  // Parts of 10 and 11 examples, steps of 5 and 5: the second has one example left.
  for (const int rank : {0, 1}) {
    SourceOptions options{.rank = rank, .size = 2, .batch_size = 10, .least = {.of_rank = 2}};
    unisono::data::Schedule schedule(21, options, true);
    CHECK(schedule.steps_per_epoch() == 2);
    CHECK(schedule.last_batch() == 5 + rank);
    options.least = {};
    CHECK(unisono::data::Schedule(21, options, true).steps_per_epoch() == 3);
  }
}

TEST_CASE("parts join their rests wherever these lie", "[order]") {
  const auto sizes = [](std::int64_t examples, SourceOptions options, int rank) {
    options.rank = rank;
    options.size = 2;
    unisono::data::Schedule schedule(examples, options, true);
    std::vector<std::int64_t> all;
    for (; schedule.current().epoch == 0; schedule.advance()) all.push_back(schedule.current().places.size());
    return all;
  };
  using Sizes = std::vector<std::int64_t>;
  const SourceOptions five{.batch_size = 5, .least = {.of_rank = 2}};  // 2 and 3 a rank, of 10 examples each
  CHECK(sizes(20, five, 0) == Sizes{2, 2, 2, 2, 2});
  CHECK(sizes(20, five, 1) == Sizes{3, 3, 4, 0, 0});
  const SourceOptions seven{.batch_size = 7, .least = {.of_rank = 2}};  // 3 and 4 a rank, of 13 examples each
  CHECK(sizes(26, seven, 0) == Sizes{3, 3, 3, 4});
  CHECK(sizes(26, seven, 1) == Sizes{4, 4, 5, 0});
  // Together with another rank's, a single example is enough.
  CHECK(sizes(20, {.batch_size = 5, .least = {.together = 2}}, 1) == Sizes{3, 3, 3, 1, 0});
}

TEST_CASE("what is said of too few examples helps", "[order]") {
  CHECK_THROWS_WITH(unisono::data::Schedule(1, {.batch_size = 64, .least = {.together = 2}}, false),
                    Catch::Contains("train on more examples"));
}

TEST_CASE("steps whose micro-batches have too few examples are refused", "[order]") {
  const auto make = [](SourceOptions options) { return unisono::data::Schedule(40, options, false); };
  CHECK_THROWS_WITH(make({.batch_size = 1, .least = {.together = 2}}),
                    Catch::Contains("a step of 1 example has one of them; raise train.batch_size"));
  CHECK_THROWS_WITH(make({.batch_size = 4, .micro_batches = 4, .least = {.together = 2}}),
                    Catch::Contains("take fewer ranks or micro-batches"));
  CHECK_THROWS_AS(make({.size = 4, .batch_size = 4, .least = {.of_rank = 2}}), unisono::ConfigError);
  CHECK_NOTHROW(make({.size = 4, .batch_size = 4, .least = {.together = 2}}));
  CHECK_NOTHROW(make({.size = 4, .batch_size = 8, .least = {.of_rank = 2}}));
}

TEST_CASE("whole micro-batches: the ranks together have those of one rank, in their order", "[order]") {
  const std::int64_t examples = 45;  // the last step has 5 examples, so 5 micro-batches at most
  for (const unisono::Index micro_batches : {1, 4, 7, 20}) {
    const SourceOptions options{.batch_size = 20, .micro_batches = micro_batches, .sharing = MicroBatchSharing::whole};
    const auto serial = micro_batches_of_epoch(0, 1, options, examples);
    for (const int ranks : {1, 2, 3, 4, 7}) {
      CAPTURE(micro_batches, ranks);
      std::vector<std::vector<MicroBatch>> all(serial.size());
      for (int rank = 0; rank < ranks; ++rank) {
        const auto own = micro_batches_of_epoch(rank, ranks, options, examples);
        for (std::size_t step = 0; step < all.size(); ++step) {
          const std::vector<MicroBatch>& batches = own[step];
          REQUIRE(!batches.empty());  // one of no examples at least, for what ranks do together
          unisono::Index size = 0;
          for (const MicroBatch& batch : batches) {
            CHECK(batch.whole);
            CHECK(batch.count == serial[step].front().count);
            CHECK(batch.global_size == serial[step].front().global_size);
            CHECK(batch.last_of_step == (&batch == &batches.back()));
            size += batch.places.size();
            if (batch.places.size() > 0) all[step].push_back(batch);
          }
          for (const MicroBatch& batch : batches) CHECK(batch.rank_step_size == size);
        }
      }
      for (std::size_t step = 0; step < all.size(); ++step) {
        REQUIRE(all[step].size() == serial[step].size());
        for (std::size_t i = 0; i < all[step].size(); ++i) {
          CHECK(all[step][i].places == serial[step][i].places);
          CHECK(all[step][i].number == static_cast<unisono::Index>(i));
          CHECK(all[step][i].micro_batch_size == serial[step][i].micro_batch_size);
        }
      }
    }
  }
}

TEST_CASE("own micro-batches: a rank cuts its part of the step", "[order]") {
  // 20 examples a step over 3 ranks: parts of 6, 7, 7, each in 3; the last step of 2 examples leaves rank 0 none.
  const SourceOptions options{.batch_size = 20, .micro_batches = 3, .sharing = MicroBatchSharing::own};
  const auto second = micro_batches_of_epoch(1, 3, options, 22);
  REQUIRE(second[0].size() == 3);
  CHECK(second[0][0].places == unisono::data::Range{6, 8});
  CHECK(second[0][1].places == unisono::data::Range{8, 10});
  CHECK(second[0][2].places == unisono::data::Range{10, 13});
  CHECK(second[0][0].rank_step_size == 7);
  CHECK_FALSE(second[0][0].whole);
  const auto first = micro_batches_of_epoch(0, 3, options, 22);
  REQUIRE(first[1].size() == 1);
  CHECK(first[1][0].places.size() == 0);
  CHECK(first[1][0].last_of_step);
  CHECK(first[1][0].last_of_epoch);
}

TEST_CASE("fixed parts: every rank makes the steps of the slowest, with the sizes of all", "[order]") {
  // 100 examples and 10 a step over 3 ranks: parts of 33, 33, 34 and 3, 3, 4 a step: 11, 11 and 9 steps.
  std::vector<unisono::data::Schedule> ranks;
  for (int rank = 0; rank < 3; ++rank)
    ranks.emplace_back(100, unisono::data::SourceOptions{.rank = rank, .size = 3, .batch_size = 10}, true);
  CHECK(ranks[2].share() == unisono::data::Range{66, 100});
  for (int step = 0; step < 11; ++step) {
    unisono::Index sum = 0;
    for (auto& rank : ranks) {
      CHECK(rank.steps_per_epoch() == 11);
      sum += rank.current().places.size();
    }
    for (auto& rank : ranks) {
      CHECK(rank.current().global_size == sum);
      CHECK(rank.current().micro_batch_size == sum);
      rank.advance();
    }
    CHECK(sum == (step < 8 ? 10 : step == 8 ? 8 : 6));
  }
}
