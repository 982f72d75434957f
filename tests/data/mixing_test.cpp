#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <numbers>
#include <set>

#include "augment/augmentation.hpp"
#include "dense/plan.hpp"
#include "sets.hpp"
#include "stream/streaming_feed.hpp"
#include "unisono/base/random.hpp"
#include "wide_rows.hpp"

namespace unisono::data {
namespace {

using test::TempDir;

constexpr std::uint64_t kSeed = 5;

/// The share of numbers of Beta(α, α) below x, where it has a closed form.
double share_below(double alpha, double x) {
  if (alpha == 0.5) return 2 / std::numbers::pi * std::asin(std::sqrt(x));
  if (alpha == 1) return x;
  if (alpha == 2) return x * x * (3 - 2 * x);
  return x * x * x * (10 - 15 * x + 6 * x * x);  // of 3
}

/// What a batch has of an example.
struct Mixed {
  std::vector<float> features, targets;
  std::int32_t label = -1, other = -1;  // there are none
  float share = 0, weight = 1;
  bool operator==(const Mixed&) const = default;
};

/// The values of an example, of a long one the first.
std::vector<float> row_of(View values, std::size_t i, std::size_t rows) {
  constexpr std::size_t kMost = 64;
  const View row = values.subspan(i * (values.size() / rows), std::min(values.size() / rows, kMost));
  return {row.begin(), row.end()};
}

/// The examples of steps in the order of their places, or by their rows where there are several ranks.
using Steps = std::vector<std::vector<std::pair<std::uint64_t, Mixed>>>;

/// \param first of `steps` steps that are taken
Steps take(Dataset& set, const SourceOptions& options, const DataCursor& first, std::int64_t steps) {
  const auto source = set.train(options);
  source->seek(first);
  Steps taken(static_cast<std::size_t>(steps));
  for (auto& step : taken) {
    for (bool last = false; !last;) {
      const Batch batch = source->next();
      last = batch.last_of_step;
      const std::size_t rows = batch.examples.size();
      for (std::size_t i = 0; i < rows; ++i) {
        Mixed one{.features = row_of(batch.features, i, rows), .targets = row_of(batch.targets, i, rows)};
        if (!batch.labels.empty()) one.label = batch.labels[i];
        if (!batch.other_labels.empty()) {
          one.other = batch.other_labels[i];
          one.share = batch.other_shares[i];
        }
        if (!batch.weights.empty()) one.weight = batch.weights[i];
        step.emplace_back(batch.examples[i], one);
      }
    }
  }
  return taken;
}

/// What all ranks take, by the examples' rows.
std::vector<std::map<std::uint64_t, Mixed>> take_all(Dataset& set, SourceOptions options, const DataCursor& first,
                                                     std::int64_t steps) {
  std::vector<std::map<std::uint64_t, Mixed>> all(static_cast<std::size_t>(steps));
  for (options.rank = 0; options.rank < options.size; ++options.rank) {
    const Steps own = take(set, options, first, steps);
    for (std::size_t step = 0; step < own.size(); ++step) {
      for (const auto& [row, one] : own[step]) CHECK(all[step].emplace(row, one).second);
    }
  }
  return all;
}

/// Two examples mixed by the formulas of the papers, in double.
Mixed mixed_by_hand(const Mixing& mixing, const FeatureShape& shape, const Mixed& own, const Mixed& other) {
  const double share = static_cast<double>(mixing.share);
  const auto blend = [&](const std::vector<float>& x, const std::vector<float>& y) {
    std::vector<float> mixed;
    for (std::size_t i = 0; i < x.size(); ++i) {
      mixed.push_back(static_cast<float>(share * static_cast<double>(x[i]) + (1 - share) * static_cast<double>(y[i])));
    }
    return mixed;
  };
  Mixed mixed{.features = blend(own.features, other.features), .targets = blend(own.targets, other.targets)};
  if (mixing.patch) {
    mixed.features = own.features;
    for (Index i = 0; i < shape.size(); ++i) {
      const Index y = i / shape.width % shape.height - mixing.patch->top, x = i % shape.width - mixing.patch->left;
      const bool inside = y >= 0 && y < mixing.patch->height && x >= 0 && x < mixing.patch->width;
      if (inside) mixed.features[static_cast<std::size_t>(i)] = other.features[static_cast<std::size_t>(i)];
    }
  }
  const double of_own = share * static_cast<double>(own.weight), rest = (1 - share) * static_cast<double>(other.weight);
  const bool own_first = share >= 0.5;
  mixed.weight = static_cast<float>(of_own + rest);
  mixed.label = own_first ? own.label : other.label;
  mixed.other = own_first ? other.label : own.label;
  if (own.label >= 0) mixed.share = static_cast<float>((own_first ? rest : of_own) / (of_own + rest));
  return mixed;
}

/// A few roundings.
void check_near(const std::vector<float>& values, const std::vector<float>& expected) {
  REQUIRE(values.size() == expected.size());
  double largest = 0, size = 1;
  for (std::size_t i = 0; i < values.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(values[i]) - static_cast<double>(expected[i])));
    size = std::max(size, std::abs(static_cast<double>(expected[i])));
  }
  CHECK(largest <= 4 * 0x1p-24 * size);
}

void check_near(const Mixed& one, const Mixed& expected) {
  check_near(one.features, expected.features);
  check_near(one.targets, expected.targets);
  CHECK(one.label == expected.label);
  CHECK(one.other == expected.other);
  check_near({one.share, one.weight}, {expected.share, expected.weight});
}

DataSettings settings_of(const std::string& path, double mixup, double cutmix) {
  DataSettings settings;
  settings.path = path;
  settings.normalization = NormalizationKind::channel;
  settings.augmentation.mixup = mixup;
  settings.augmentation.cutmix = cutmix;
  return settings;
}

/// Images that are moved at random, too.
DataSettings images(const std::string& path, double mixup, double cutmix) {
  DataSettings settings = settings_of(path, mixup, cutmix);
  settings.augmentation.shift = 1;
  settings.augmentation.horizontal_flip = true;
  return settings;
}

std::string write_images(const std::string& path) {
  return test::write_set<std::uint8_t>(path, {.train = 45, .shape = {2, 5, 6}, .classes = 4});
}

/// Checks what rank `options.rank` takes in an epoch against the formulas. \param settings of a resident set
void check_by_hand(const DataSettings& settings, const SourceOptions& options) {
  DataSettings without = settings;
  without.augmentation.mixup = without.augmentation.cutmix = 0;
  const auto set = open_dataset(settings, 1), plain = open_dataset(without, 1);
  const FeatureShape& shape = set->info().features;
  const std::int64_t steps = set->train(options)->steps_per_epoch(), epoch = 1;
  const Steps mixed = take(*set, options, {epoch, 0}, steps), unmixed = take(*plain, options, {epoch, 0}, steps);
  for (std::int64_t step = 0; step < steps; ++step) {
    const auto& all = unmixed[static_cast<std::size_t>(step)];
    MicroBatch at;
    at.epoch = epoch;
    at.step = step;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto partner =
          partner_of(static_cast<std::int64_t>(i), {0, static_cast<std::int64_t>(all.size())}, at, kSeed);
      const auto& [row, one] = mixed[static_cast<std::size_t>(step)][i];
      CAPTURE(step, i, partner);
      REQUIRE(row == all[i].first);
      const Mixing mixing = draw_mixing(settings.augmentation, shape, kSeed, epoch, row);
      check_near(one, mixed_by_hand(mixing, shape, all[i].second, all[static_cast<std::size_t>(partner)].second));
    }
  }
}

TEST_CASE("shares of mixtures have the distribution Beta(α, α)", "[mixing]") {
  constexpr int kCount = 200000;
  for (const double alpha : {0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 20.0}) {
    CAPTURE(alpha);
    RandomStream random(3, Purpose::test);
    std::vector<double> shares;
    double mean = 0, variance = 0, fourth = 0;
    for (int i = 0; i < kCount; ++i) {
      const double u = static_cast<double>(random.uniform()), v = static_cast<double>(random.uniform());
      const double share = symmetric_beta(alpha, u, v);
      REQUIRE((share >= 0 && share <= 1));
      shares.push_back(share);
      const double far = share - 0.5;
      mean += far / kCount;
      variance += far * far / kCount;
      fourth += far * far * far * far / kCount;
    }
    const double expected = 1 / (4 * (2 * alpha + 1)), kurtosis = 3 / (16 * (2 * alpha + 1) * (2 * alpha + 3));
    const double sixth = 15 / (64 * (2 * alpha + 1) * (2 * alpha + 3) * (2 * alpha + 5));
    const double eighth = sixth * 7 / (4 * (2 * alpha + 7)), root = std::sqrt(double{kCount});
    // Five standard deviations of the means.
    CHECK(std::abs(mean) < 5 * std::sqrt(expected) / root);
    CHECK(std::abs(variance - expected) < 5 * std::sqrt(kurtosis - expected * expected) / root);
    CHECK(std::abs(fourth - kurtosis) < 5 * std::sqrt(eighth - kurtosis * kurtosis) / root);
    if (alpha < 0.5 || alpha > 3) continue;
    for (const double x : {0.01, 0.1, 0.25, 0.5, 0.6, 0.9, 0.995}) {
      const auto below =
          static_cast<double>(std::count_if(shares.begin(), shares.end(), [&](double share) { return share < x; }));
      const double share = share_below(alpha, x);
      CHECK(std::abs(below / kCount - share) < 5 * std::sqrt(share * (1 - share)) / root);
    }
  }
  CHECK(symmetric_beta(1, 0, 0.3) == 0.5);
  for (const double alpha : {1e-9, 1e-3, 1000.0}) {
    for (const double u : {0.0, 0x1p-24, 0.5, 1 - 0x1p-24}) {
      for (const double v : {0.0, 0.25, 0.5, 0.75}) {
        const double share = symmetric_beta(alpha, u, v);
        CHECK((share >= 0 && share <= 1));
      }
    }
  }
}

TEST_CASE("cutmix cuts rectangles inside the image, whose area is the partner's share", "[mixing]") {
  const FeatureShape shape{3, 20, 30};
  AugmentationSettings settings;
  settings.cutmix = 1;
  double area = 0;
  int at_edges = 0;
  constexpr int kCount = 20000;
  for (std::uint64_t example = 0; example < kCount; ++example) {
    const Mixing mixing = draw_mixing(settings, shape, kSeed, 2, example);
    REQUIRE(mixing.patch);
    const Patch& patch = *mixing.patch;
    REQUIRE((patch.top >= 0 && patch.left >= 0 && patch.top + patch.height <= 20 && patch.left + patch.width <= 30));
    CHECK(mixing.share == static_cast<float>(1 - static_cast<double>(patch.height * patch.width) / 600));
    area += static_cast<double>(patch.height * patch.width) / 600 / kCount;
    at_edges += patch.top == 0 || patch.left == 0 ? 1 : 0;
  }
  // Sides of √s around anywhere: the mean over a side is √s − s/4, and ∫ (√s − s/4)² ds = ½ − ⅕ + 1/48.
  CHECK(area == Approx(0.5 - 0.2 + 1.0 / 48).margin(0.01));
  CHECK(at_edges > kCount / 4);
}

TEST_CASE("with mixup and cutmix each example gets one of the two", "[mixing]") {
  AugmentationSettings both, mixup, cutmix;
  both.mixup = mixup.mixup = 0.4;
  both.cutmix = cutmix.cutmix = 1;
  const FeatureShape shape{1, 8, 8};
  int cuts = 0;
  for (std::uint64_t example = 0; example < 4000; ++example) {
    const Mixing drawn = draw_mixing(both, shape, kSeed, 0, example);
    CHECK(drawn.share == draw_mixing(drawn.patch ? cutmix : mixup, shape, kSeed, 0, example).share);
    cuts += drawn.patch ? 1 : 0;
  }
  CHECK(std::abs(cuts - 2000) < 5 * 32);
}

TEST_CASE("each place is the partner of exactly one other place of its group", "[mixing]") {
  std::set<std::int64_t> turns;
  for (const Range group : {Range{0, 2}, {0, 7}, {6, 9}, {100, 164}}) {
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
      for (std::int64_t step = 0; step < 10; ++step) {
        MicroBatch batch;
        batch.epoch = epoch;
        batch.step = step;
        std::set<std::int64_t> partners;
        for (std::int64_t place = group.first; place < group.last; ++place) {
          const std::int64_t partner = partner_of(place, group, batch, kSeed);
          CHECK((partner >= group.first && partner < group.last && partner != place));
          partners.insert(partner);
        }
        CHECK(std::ssize(partners) == group.size());
        if (group.size() == 64) turns.insert(partner_of(100, group, batch, kSeed));
      }
    }
  }
  CHECK(turns.size() > 15);  // of 30 steps
  CHECK(partner_of(4, {4, 5}, {}, kSeed) == 4);
}

TEST_CASE("mixed batches are what the formulas say", "[mixing]") {
  const TempDir folder;
  const std::string path = write_images(folder / "a.h5");
  const std::vector<float> weights{1, 0.5F, 2, 4};
  for (const auto& [mixup, cutmix] : {std::pair{0.4, 0.0}, {0.0, 1.0}, {1.0, 1.0}}) {
    CAPTURE(mixup, cutmix);
    const SourceOptions options{.batch_size = 12, .seed = kSeed, .class_weights = weights};  // the last step has 9
    check_by_hand(images(path, mixup, cutmix), options);
    check_by_hand(images(path, mixup, cutmix), {.batch_size = 11, .seed = kSeed});  // the last step has one
  }
  // Ranks with parts of their own mix their own examples.
  DataSettings fixed = images(path, 1, 1);
  fixed.partition = Partition::fixed;
  for (int rank = 0; rank < 2; ++rank) {
    check_by_hand(fixed, {.rank = rank, .size = 2, .batch_size = 13, .seed = kSeed});
  }
}

TEST_CASE("targets are mixed as features are, and so are those of autoencoders", "[mixing]") {
  const TempDir folder;
  const std::string path = test::write_set(folder / "a.h5", {.train = 40, .shape = {7}, .classes = 0});
  {
    hdf5::File file(path, hdf5::File::Mode::update);
    std::vector<float> targets;
    for (int i = 0; i < 80; ++i) targets.push_back(static_cast<float>(i * i % 17));
    file.create<float>("train/targets", {40, 2});
    file.write_rows("train/targets", 0, 40, targets.data());
  }
  DataSettings settings = settings_of(path, 0.7, 0);
  check_by_hand(settings, {.batch_size = 9, .seed = kSeed});
  settings.targets = Targets::features;
  check_by_hand(settings, {.batch_size = 9, .seed = kSeed});
}

TEST_CASE("mixtures are the same on any number of ranks, with micro-batches, and resumed", "[mixing]") {
  const TempDir folder;
  const std::string path = write_images(folder / "a.h5");
  const auto set = open_dataset(images(path, 0.4, 1), 1);
  const SourceOptions serial{.batch_size = 12, .seed = kSeed};
  const auto expected = take_all(*set, serial, {0, 0}, 8);
  CHECK(expected[0].size() == 12);
  for (const int ranks : {1, 2, 3}) {
    for (const Index micro_batches : {1, 2, 5}) {
      for (const auto sharing : {MicroBatchSharing::sliced, MicroBatchSharing::whole, MicroBatchSharing::own}) {
        CAPTURE(ranks, micro_batches, static_cast<int>(sharing));
        SourceOptions options = serial;
        options.size = ranks;
        options.micro_batches = micro_batches;
        options.sharing = sharing;
        CHECK(take_all(*set, options, {0, 0}, 8) == expected);
        CHECK(take_all(*set, options, {1, 2}, 2) == std::vector(expected.begin() + 6, expected.end()));
      }
    }
  }
}

TEST_CASE("a rank that needs no inputs gets the labels and shares of mixtures", "[mixing]") {
  const TempDir folder;
  const auto set = open_dataset(images(write_images(folder / "a.h5"), 0.4, 1), 1);
  SourceOptions options{.batch_size = 12, .seed = kSeed};
  auto expected = take_all(*set, options, {0, 0}, 4);
  for (auto& step : expected) {
    for (auto& [row, one] : step) one.features.clear();
  }
  options.delivery.inputs = false;
  CHECK(take_all(*set, options, {0, 0}, 4) == expected);
}

TEST_CASE("streamed mixtures are the same on any number of ranks, with micro-batches, and resumed", "[mixing][long]") {
  const TempDir folder;
  DataSettings settings = settings_of(write_wide_rows(folder / "a.h5", 150), 1, 0);
  settings.normalization = NormalizationKind::none;
  settings.reader = Reader::streaming;
  settings.window_bytes = GENERATE(2, 10) * kBlockOfWideRows;  // one lane, five
  const std::int64_t steps = 13;                               // of an epoch; the last has six examples
  const auto set = open_dataset(settings, 1);
  const SourceOptions serial{.batch_size = 12, .seed = kSeed};
  const auto first_of = [](std::vector<std::map<std::uint64_t, Mixed>> all) {
    for (auto& step : all) {
      for (auto& [row, one] : step) {
        CHECK(std::ranges::count(one.features, one.features[0]) == std::ssize(one.features));
        one.features.resize(1);
      }
    }
    return all;
  };
  const auto expected = first_of(take_all(*set, serial, {0, 0}, steps + 4));
  std::set<std::uint64_t> seen;
  for (std::size_t step = 0; step < expected.size(); ++step) {
    // Each example is the partner of one other example of the step.
    std::set<std::uint64_t> partners;
    for (const auto& [row, one] : expected[step]) {
      seen.insert(row);
      const auto epoch = static_cast<std::int64_t>(step) / steps;
      const double share =
          static_cast<double>(draw_mixing(settings.augmentation, set->info().features, kSeed, epoch, row).share);
      const double other = (static_cast<double>(one.features[0]) - share * static_cast<double>(row)) / (1 - share);
      if (share > 0.99) continue;  // too little of it to tell
      const auto partner = static_cast<std::uint64_t>(std::llround(other));
      CHECK(other == Approx(static_cast<double>(partner)).margin(0.01));
      CHECK(partner != row);
      CHECK(expected[step].contains(partner));
      CHECK(partners.insert(partner).second);
      CHECK(static_cast<std::uint64_t>(share >= 0.5 ? one.other : one.label) == partner % 7);
    }
    CHECK(partners.size() + 3 >= expected[step].size());
  }
  CHECK(seen.size() == 150);
  for (const int ranks : {1, 2, 3}) {
    for (const auto& [micro_batches, sharing] :
         {std::pair{1, MicroBatchSharing::sliced}, {3, MicroBatchSharing::sliced}, {3, MicroBatchSharing::whole}}) {
      SourceOptions options = serial;
      options.size = ranks;
      options.micro_batches = micro_batches;
      options.sharing = sharing;
      CAPTURE(ranks, micro_batches, static_cast<int>(sharing));
      CHECK(first_of(take_all(*set, options, {0, 0}, steps + 4)) == expected);
      CHECK(first_of(take_all(*set, options, {1, 1}, 3)) == std::vector(expected.begin() + steps + 1, expected.end()));
    }
  }
}

TEST_CASE("a rank that mixes streamed examples reads about two lanes more at either end", "[mixing]") {
  const TempDir folder;
  const std::int64_t examples = 640, blocks = 40;
  const hdf5::File file(write_wide_rows(folder / "a.h5", examples), hdf5::File::Mode::read);
  const SetSchema schema = read_schema(file, {});
  const GroupSchema& group = schema.any_group();
  LaneSettings settings;
  settings.blocks = blocks_of(FileRows(examples), {0, examples}, 16);
  settings.examples = examples;
  settings.batch = settings.last_batch = 20;
  settings.steps = 32;
  settings.shape = {20, 1};
  settings.mixes = true;
  const std::int64_t window = 40 * kBlockOfWideRows;
  for (const int ranks : {1, 4}) {
    for (int rank = 0; rank < ranks; ++rank) {
      Schedule schedule(examples, {.rank = rank, .size = ranks, .batch_size = 20}, false);
      StreamingFeed feed(file, group, settings, schedule, window);
      feed.seek({0, 0});
      GatheredExamples gathered;
      for (; schedule.current().epoch < 1; schedule.advance()) {
        feed.gather(schedule.current(), gathered);
        CHECK(gathered.partners.size() == static_cast<std::size_t>(20 / ranks));
      }
      // Five lanes of twenty and at most one more, two blocks each, and what is read ahead of the next epoch.
      const std::int64_t lanes = ranks == 1 ? 20 : 6;
      CHECK(feed.reader().bytes_read() <=
            (blocks * lanes / 20 + 2 * lanes) * (kBlockOfWideRows + 64) + window * lanes / 20);
    }
  }
}

TEST_CASE("settings of mixtures that make no sense are refused", "[mixing]") {
  const TempDir folder;
  const std::string path = test::write_set(folder / "a.h5", {});
  CHECK_THAT(test::message_of<ConfigError>([&] { open_dataset(settings_of(path, 0, 1), 1); }),
             Catch::Contains("data.augmentation.cutmix") && Catch::Contains("rows of 3 features; take mixup"));
  CHECK(open_dataset(settings_of(path, 1, 0), 1)->info().mixed);
  DataSettings with_both = settings_of(path, 1, 0);
  with_both.augmentation.horizontal_flip = true;
  CHECK_THAT(test::message_of<ConfigError>([&] { open_dataset(with_both, 1); }), Catch::Contains("moves images"));
}

}  // namespace
}  // namespace unisono::data
