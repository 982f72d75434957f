#include "validation/splitters.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <functional>
#include <numeric>

#include "unisono/base/errors.hpp"

using namespace unisono;
using namespace unisono::jobs;
using Catch::Contains;
using Rows = std::vector<std::int64_t>;

// The references are scikit-learn 1.9.1's, on the same examples.

namespace {

std::vector<std::int32_t> labels_of(int rows, const std::function<int(int)>& label) {
  std::vector<std::int32_t> labels;
  for (int i = 0; i < rows; ++i) labels.push_back(label(i));
  return labels;
}

/// 29 examples of 12, 13 and 4 of three classes.
std::vector<std::int32_t> three_classes() {
  return labels_of(29, [](int i) { return (i * i * 7 + i / 3) % 11 % 3; });
}

/// 41 examples of nine groups.
Rows nine_groups() {
  Rows groups;
  for (int i = 0; i < 41; ++i) groups.push_back((i * i * 5 + i / 2) % 13 % 9);
  return groups;
}

/// The fold by which each row is validated.
Rows fold_of_rows(const Folds& folds) {
  Rows found(static_cast<std::size_t>(folds.rows()), -1);
  for (std::int64_t i = 0; i < folds.size(); ++i) {
    for (const std::int64_t row : folds.validation(i)) found[static_cast<std::size_t>(row)] = i;
  }
  return found;
}

using Counts = std::vector<std::int64_t>;

Counts counts_of(const Rows& rows, std::span<const std::int32_t> labels, std::size_t classes) {
  Counts counts(classes);
  for (const std::int64_t row : rows) ++counts[static_cast<std::size_t>(labels[static_cast<std::size_t>(row)])];
  return counts;
}

std::vector<Counts> validated(const Folds& folds, std::span<const std::int32_t> labels, std::size_t classes) {
  std::vector<Counts> counts;
  for (std::int64_t i = 0; i < folds.size(); ++i) counts.push_back(counts_of(folds.validation(i), labels, classes));
  return counts;
}

/// Whether the rows of each fold ascend, and none is in both parts. \return how often each row is validated
Counts times_validated(const Folds& folds, bool all_used = true) {
  Counts times(static_cast<std::size_t>(folds.rows()));
  for (std::int64_t i = 0; i < folds.size(); ++i) {
    const data::Fold fold = folds.fold(i);
    CHECK(std::is_sorted(fold.train.begin(), fold.train.end()));
    CHECK(std::is_sorted(fold.validation.begin(), fold.validation.end()));
    CHECK(folds.training_size(i) == std::ssize(fold.train));
    Rows both;
    std::set_union(fold.train.begin(), fold.train.end(), fold.validation.begin(), fold.validation.end(),
                   std::back_inserter(both));
    CHECK(both.size() == fold.train.size() + fold.validation.size());
    if (all_used) CHECK(std::ssize(both) == folds.rows());
    for (const std::int64_t row : fold.validation) ++times[static_cast<std::size_t>(row)];
  }
  return times;
}

constexpr std::uint64_t kSplitSeed = 5;

std::string refusal(const settings::CrossValidationSettings& settings, const FoldInput& input) {
  try {
    make_folds(settings, input);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("k-fold without shuffling has scikit-learn's rows", "[splitters]") {
  CHECK(fold_of_rows(k_fold(29, 4, nullptr)) ==
        Rows{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3});
  CHECK(fold_of_rows(stratified_k_fold(three_classes(), 4, nullptr)) ==
        Rows{0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 2, 2, 1, 1, 2, 2, 2, 0, 2, 3, 3, 3, 3, 3, 1, 3, 2, 3});
}

TEST_CASE("stratified folds have scikit-learn's counts of each class", "[splitters]") {
  CHECK(validated(stratified_k_fold(three_classes(), 4, &kSplitSeed), three_classes(), 3) ==
        std::vector<Counts>{{3, 4, 1}, {3, 3, 1}, {3, 3, 1}, {3, 3, 1}});
  const auto seven = labels_of(997, [](int i) { return (i * i * 31 + i * 17) % 101 % 7; });
  CHECK(validated(stratified_k_fold(seven, 10, &kSplitSeed), seven, 7) ==
        std::vector<Counts>{{18, 16, 9, 14, 10, 15, 18},
                            {18, 16, 10, 13, 10, 15, 18},
                            {18, 16, 10, 13, 10, 15, 18},
                            {18, 15, 10, 14, 10, 15, 18},
                            {18, 15, 10, 14, 10, 15, 18},
                            {18, 16, 10, 14, 10, 15, 17},
                            {18, 16, 10, 14, 10, 15, 17},
                            {17, 16, 10, 14, 9, 15, 18},
                            {17, 16, 10, 14, 9, 15, 18},
                            {17, 16, 10, 14, 10, 14, 18}});
  const auto four = labels_of(100, [](int i) { return (i * i * 31 + i * 17) % 101 % 4; });
  CHECK(validated(stratified_k_fold(four, 5, &kSplitSeed), four, 4) ==
        std::vector<Counts>{{5, 6, 5, 4}, {5, 6, 6, 3}, {4, 7, 6, 3}, {4, 6, 6, 4}, {4, 6, 6, 4}});
}

TEST_CASE("groups stay together, in folds of scikit-learn's sizes", "[splitters]") {
  const Rows groups = nine_groups();
  const Folds folds = group_k_fold(groups, 4);
  CHECK(fold_of_rows(folds) == Rows{0, 3, 3, 1, 3, 0, 0, 0, 1, 2, 2, 1, 2, 2, 1, 0, 0, 0, 3, 1, 3,
                                    3, 0, 3, 2, 3, 0, 3, 3, 1, 3, 0, 0, 0, 1, 2, 2, 1, 2, 2, 1});
  CHECK(times_validated(folds) == Counts(41, 1));
}

TEST_CASE("drawn folds have scikit-learn's counts, of each class too", "[splitters]") {
  const auto labels = three_classes();
  const std::vector<std::pair<double, std::pair<Counts, Counts>>> references = {{0.1, {{11, 12, 3}, {1, 1, 1}}},
                                                                                {0.25, {{9, 9, 3}, {3, 4, 1}}},
                                                                                {0.3, {{8, 9, 3}, {4, 4, 1}}},
                                                                                {0.37, {{7, 8, 3}, {5, 5, 1}}}};
  for (const auto& [fraction, counts] : references) {
    CAPTURE(fraction);
    const Folds folds = stratified_shuffle_split(labels, 3, fraction, kSplitSeed);
    const std::int64_t held_out = std::accumulate(counts.second.begin(), counts.second.end(), std::int64_t{0});
    for (std::int64_t i = 0; i < 3; ++i) {
      CHECK(counts_of(folds.fold(i).train, labels, 3) == counts.first);
      CHECK(counts_of(folds.validation(i), labels, 3) == counts.second);
    }
    CHECK(folds.validation(0) != folds.validation(1));
    const Folds plain = shuffle_split(29, 2, fraction, kSplitSeed);
    CHECK(std::ssize(plain.validation(0)) == held_out);
    CHECK(plain.validation(0) != plain.validation(1));
    times_validated(plain);
  }
}

TEST_CASE("a time series is validated by what comes next", "[splitters]") {
  const auto bounds = [](const Folds& folds) {
    std::vector<std::array<std::int64_t, 4>> found;
    for (std::int64_t i = 0; i < folds.size(); ++i) {
      const data::Fold fold = folds.fold(i);
      found.push_back({fold.train.front(), fold.train.back() + 1, fold.validation.front(), fold.validation.back() + 1});
    }
    return found;
  };
  CHECK(bounds(time_series(29, {}, 4, 0)) ==
        std::vector<std::array<std::int64_t, 4>>{{0, 9, 9, 14}, {0, 14, 14, 19}, {0, 19, 19, 24}, {0, 24, 24, 29}});
  const Folds gap = time_series(29, {}, 5, 2);
  CHECK(bounds(gap) == std::vector<std::array<std::int64_t, 4>>{
                           {0, 7, 9, 13}, {0, 11, 13, 17}, {0, 15, 17, 21}, {0, 19, 21, 25}, {0, 23, 25, 29}});
  times_validated(gap, false);
  const Rows backwards{6, 5, 4, 3, 2, 1};
  const Folds timed = time_series(6, backwards, 2, 0);
  CHECK(timed.fold(0).train == Rows{4, 5});
  CHECK(timed.fold(0).validation == Rows{2, 3});
  CHECK(timed.fold(1).validation == Rows{0, 1});
}

TEST_CASE("all choices of p examples, and folds that a column names", "[splitters]") {
  const Folds pairs = leave_p_out(4, 2, 6);
  REQUIRE(pairs.size() == 6);
  CHECK(pairs.validation(0) == Rows{0, 1});
  CHECK(pairs.validation(1) == Rows{0, 2});
  CHECK(pairs.validation(3) == Rows{1, 2});
  CHECK(pairs.validation(5) == Rows{2, 3});
  CHECK(leave_p_out(9, 3, 84).size() == 84);
  CHECK(times_validated(leave_p_out(9, 3, 84)) == Counts(9, 28));

  const Folds named = predefined(Rows{1, 0, -1, 2, 2, 0, 1, -1, 7});
  REQUIRE(named.size() == 4);
  CHECK(named.validation(0) == Rows{1, 5});
  CHECK(named.validation(3) == Rows{8});
  CHECK(named.fold(0).train == Rows{0, 2, 3, 4, 6, 7, 8});
}

TEST_CASE("each example is validated exactly once, or once in each repetition", "[splitters]") {
  const auto labels = three_classes();
  const Rows groups = nine_groups();
  settings::CrossValidationSettings settings;
  settings.folds = 4;
  settings.repeats = 3;
  const FoldInput input{.rows = 29, .labels = labels};
  for (const bool stratified : {false, true}) {
    settings.stratified = stratified;
    settings.method = settings::FoldMethod::k_fold;
    const Folds once = make_folds(settings, input);
    CHECK(times_validated(once) == Counts(29, 1));
    CHECK(validates_each_once(settings, once));
    CHECK(fold_of_rows(once) == fold_of_rows(make_folds(settings, input)));
    settings.split_seed = 9;
    CHECK(fold_of_rows(once) != fold_of_rows(make_folds(settings, input)));
    settings.split_seed = 1;
    settings.method = settings::FoldMethod::repeated_k_fold;
    const Folds repeated = make_folds(settings, input);
    CHECK(repeated.size() == 12);
    CHECK(times_validated(repeated) == Counts(29, 3));
    CHECK_FALSE(validates_each_once(settings, repeated));
    CHECK(repeated.validation(0) == once.validation(0));
    CHECK(repeated.validation(4) != once.validation(0));
  }
  settings.method = settings::FoldMethod::leave_one_out;
  CHECK(times_validated(make_folds(settings, input)) == Counts(29, 1));
}

TEST_CASE("the overlap of folds is that of their mean sizes", "[splitters]") {
  settings::CrossValidationSettings settings;
  const FoldInput input{.rows = 7};
  settings.method = settings::FoldMethod::repeated_k_fold;
  settings.stratified = false;
  settings.folds = 3;
  settings.repeats = 2;
  const Folds folds = make_folds(settings, input);           // of 3, 2 and 2 examples
  CHECK(overlap_of(settings, folds) == Approx(7.0 / 14.0));  // the first fold alone: 3 / 4
  settings.method = settings::FoldMethod::k_fold;
  CHECK(overlap_of(settings, make_folds(settings, input)) == 0);
}

TEST_CASE("divisions that cannot be are refused", "[splitters]") {
  const auto labels = three_classes();
  const Rows groups = nine_groups();
  const FoldInput input{.rows = 29, .labels = labels};
  settings::CrossValidationSettings settings;
  CHECK_THAT(refusal(settings, input), Contains("folds = 5, but a class has only 4 training examples"));
  settings.stratified = false;
  settings.folds = 30;
  CHECK_THAT(refusal(settings, input), Contains("only 29 training examples"));
  settings.folds = 1;
  CHECK_THAT(refusal(settings, input), Contains("nothing to train on"));
  settings.method = settings::FoldMethod::leave_p_out;
  settings.p = 10;
  CHECK_THAT(refusal(settings, input), Contains("p = 10 of 29") && Contains("most_fits = 10000"));
  settings.p = 29;
  CHECK_THAT(refusal(settings, input), Contains("p = 29"));
  settings.method = settings::FoldMethod::leave_one_out;
  settings.most_fits = 28;
  CHECK_THAT(refusal(settings, input), Contains("29 fits"));
  settings.method = settings::FoldMethod::group_k_fold;
  settings.folds = 10;
  CHECK_THAT(refusal(settings, {.rows = 41, .column = groups}), Contains("only 9 groups"));
  settings.method = settings::FoldMethod::time_series;
  settings.folds = 29;
  CHECK_THAT(refusal(settings, input), Contains("at least 30"));
  settings.folds = 4;
  settings.gap = 9;
  CHECK_THAT(refusal(settings, input), Contains("gap below 9"));
  settings.method = settings::FoldMethod::predefined;
  const Rows same(29, 3), never(29, -1);
  CHECK_THAT(refusal(settings, {.rows = 29, .column = same}), Contains("one value only"));
  CHECK_THAT(refusal(settings, {.rows = 29, .column = never}), Contains("one value only"));
  settings.method = settings::FoldMethod::shuffle_split;
  settings.held_out_fraction = 0.99;
  CHECK_THAT(refusal(settings, input), Contains("leaves none"));
  settings.stratified = true;
  settings.held_out_fraction = 0.05;
  CHECK_THAT(refusal(settings, input), Contains("2 of 29") && Contains("3 classes"));
}

TEST_CASE("a method has its own keys alone", "[splitters]") {
  settings::CrossValidationSettings settings;
  const auto parse = [&](const std::string& text) {
    parse_config({.path = "c.toml", .text = text, .overrides = {}},
                 [&](ConfigVisitor& visitor) { settings.describe(visitor); });
  };
  parse("method = \"leave_p_out\"\np = 3\nmost_fits = 50\nsolver = \"exact\"\n");
  CHECK(settings.method == settings::FoldMethod::leave_p_out);
  CHECK((settings.p == 3 && settings.most_fits == 50 && settings.solver == settings::FoldSolver::exact));
  CHECK_THROWS_WITH(parse("method = \"leave_one_out\"\nfolds = 3\n"), Contains("folds"));
  CHECK_THROWS_WITH(parse("method = \"k_fold\"\nfolds = 1\n"), Contains("folds"));
  CHECK_THROWS_WITH(parse("method = \"kfold\"\n"), Contains("k_fold"));
}
