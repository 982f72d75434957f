// Sets of tokens: windows of a text, and who gets which.
#include <fmt/format.h>
#include <catch2/catch.hpp>

#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "expect.hpp"
#include "order/schedule.hpp"
#include "sets.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/data/import.hpp"

using namespace unisono;
using namespace unisono::data;
using namespace unisono::test;
using Catch::Matchers::Contains;

namespace {

constexpr std::int64_t kVocabulary = 251;

/// Token i of a text is i · 7 mod V, so that a token says where it stands, modulo V.
std::int64_t token_at(std::int64_t place) { return place * 7 % kVocabulary; }

struct TextSet {
  std::int64_t train = 100, validation = 0, test = 0;
  std::uint64_t chunk_rows = 0;
  std::int64_t vocabulary = kVocabulary;
};

template <typename T>
void write_token_group(hdf5::File& file, const std::string& group, std::int64_t count, std::uint64_t chunk_rows) {
  std::vector<T> tokens;
  for (std::int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<T>(token_at(i)));
  file.create<T>(group + "/tokens", {tokens.size()}, chunk_rows, 0);
  file.write_rows(group + "/tokens", 0, tokens.size(), tokens.data());
}

template <typename T = std::uint16_t>
std::string write_tokens(const std::string& path, const TextSet& set) {
  hdf5::File file(path, hdf5::File::Mode::create);
  write_token_group<T>(file, "train", set.train, set.chunk_rows);
  if (set.validation > 0) write_token_group<T>(file, "validation", set.validation, set.chunk_rows);
  if (set.test > 0) write_token_group<T>(file, "test", set.test, set.chunk_rows);
  file.write_attribute("", "vocabulary", set.vocabulary);
  return path;
}

DataSettings settings_for_tokens(const std::string& path, std::int64_t context, Reader reader = Reader::automatic) {
  DataSettings settings;
  settings.path = path;
  settings.context = context;
  settings.reader = reader;
  return settings;
}

/// Checks that labels are the tokens after each. \return where the batch's windows begin in the text (below V)
std::vector<std::int64_t> begins_of(const Batch& batch, std::int64_t context) {
  EXPECT(batch.rows == context);
  EXPECT(std::ssize(batch.tokens) == batch.size * context);
  EXPECT(batch.labels.size() == batch.tokens.size());
  EXPECT(std::ssize(batch.examples) == batch.size);
  std::vector<std::int64_t> begins;
  for (Index b = 0; b < batch.size; ++b) {
    const auto first = static_cast<std::size_t>(b * context);
    std::int64_t begin = 0;
    while (token_at(begin) != batch.tokens[first]) ++begin;
    for (std::int64_t t = 0; t < context; ++t) {
      EXPECT(batch.tokens[first + static_cast<std::size_t>(t)] == token_at(begin + t));
      EXPECT(batch.labels[first + static_cast<std::size_t>(t)] == token_at(begin + t + 1));
    }
    begins.push_back(begin);
  }
  return begins;
}

std::vector<std::int64_t> begins_of_epoch(BatchSource& source, std::int64_t context) {
  std::vector<std::int64_t> begins;
  for (std::int64_t step = 0; step < source.steps_per_epoch(); ++step) {
    for (bool last = false; !last;) {
      const Batch batch = source.next();
      const auto some = begins_of(batch, context);
      begins.insert(begins.end(), some.begin(), some.end());
      last = batch.last_of_step;
    }
  }
  return begins;
}

}  // namespace

TEST_CASE("an epoch takes each window once, at an offset of its own", "[tokens]") {
  const TempDir folder;
  write_tokens(folder / "t.h5", {.train = 103});
  const auto set = open_dataset(settings_for_tokens(folder / "t.h5", 8), 1);
  CHECK(set->info().kind == SetKind::tokens);
  CHECK(set->info().rows == kVocabulary);
  CHECK(set->info().context == 8);
  CHECK(set->info().train == (103 - 8) / 8);
  CHECK(set->info().tokens == std::array<std::int64_t, 3>{103, 0, 0});
  const auto source = set->train({.batch_size = 3, .seed = 5});
  CHECK(source->examples_per_epoch() == 11);
  CHECK(source->steps_per_epoch() == 4);
  std::set<std::int64_t> offsets;
  std::set<std::vector<std::int64_t>> orders;
  for (int epoch = 0; epoch < 24; ++epoch) {
    auto begins = begins_of_epoch(*source, 8);
    orders.insert(begins);
    std::ranges::sort(begins);
    REQUIRE(begins.size() == 11);
    offsets.insert(begins[0]);
    CHECK(begins[0] < 8);
    for (std::size_t i = 0; i < begins.size(); ++i) CHECK(begins[i] == begins[0] + static_cast<std::int64_t>(8 * i));
  }
  CHECK(offsets.size() > 4);
  CHECK(orders.size() == 24);
}

TEST_CASE("windows that begin anywhere", "[tokens]") {
  const TempDir folder;
  DataSettings settings = settings_for_tokens(write_tokens(folder / "t.h5", {.train = 103}), 8);
  settings.windows = WindowPlaces::random;
  const auto set = open_dataset(settings, 1);
  const auto source = set->train({.batch_size = 3, .seed = 5});
  CHECK(source->examples_per_epoch() == 11);
  std::map<std::int64_t, int> taken;
  for (int epoch = 0; epoch < 400; ++epoch) {
    for (const std::int64_t begin : begins_of_epoch(*source, 8)) ++taken[begin];
  }
  // 4,400 windows at 95 places, 46.3 each: chi-squared is 94 ± 13.7.
  CHECK(taken.begin()->first == 0);
  CHECK(taken.rbegin()->first == 103 - 8 - 1);
  double chi_squared = 0;
  for (const auto& [begin, times] : taken) chi_squared += std::pow(times - 4400.0 / 95, 2) / (4400.0 / 95);
  CHECK(taken.size() == 95);
  CHECK(chi_squared < 94 + 5 * 13.7);
  settings.reader = Reader::streaming;
  const auto streamed = open_dataset(settings, 1);
  CHECK(begins_of_epoch(*streamed->train({.batch_size = 4, .seed = 6}), 8) ==
        begins_of_epoch(*set->train({.batch_size = 4, .seed = 6}), 8));
}

TEST_CASE("without shuffling, windows come in the order of the text", "[tokens]") {
  const TempDir folder;
  DataSettings settings = settings_for_tokens(write_tokens(folder / "t.h5", {.train = 60}), 5);
  settings.shuffle = false;
  const auto set = open_dataset(settings, 1);
  const auto source = set->train({.batch_size = 4});
  for (int epoch = 0; epoch < 2; ++epoch) {
    CHECK(begins_of_epoch(*source, 5) == std::vector<std::int64_t>{0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50});
  }
}

TEST_CASE("ranks, lanes and micro-batches share the steps of one rank", "[tokens]") {
  const TempDir folder;
  write_tokens(folder / "t.h5", {.train = 240});
  const auto set = open_dataset(settings_for_tokens(folder / "t.h5", 6), 1);
  const auto alone = take_steps(*set->train({.batch_size = 7, .seed = 9}), 12);
  for (const int ranks : {2, 3, 4}) {
    std::vector<std::vector<std::uint64_t>> together(12);
    for (int rank = 0; rank < ranks; ++rank) {
      const auto source = set->train({.rank = rank, .size = ranks, .batch_size = 7, .micro_batches = 2, .seed = 9});
      const auto own = take_steps(*source, 12);
      for (std::size_t step = 0; step < own.size(); ++step)
        together[step].insert(together[step].end(), own[step].begin(), own[step].end());
    }
    for (std::size_t step = 0; step < together.size(); ++step) {
      auto expected = alone[step];
      std::ranges::sort(expected);
      std::ranges::sort(together[step]);
      CHECK(together[step] == expected);
    }
  }
  for (int lane = 0; lane < 3; ++lane) {
    const auto own = take_steps(*set->train({.batch_size = 7, .seed = 9, .lane = lane, .lanes = 3}), 4);
    for (std::size_t i = 0; i < own.size(); ++i) CHECK(own[i] == alone[3 * i + static_cast<std::size_t>(lane)]);
  }
}

TEST_CASE("fixed parts have windows of their own", "[tokens]") {
  const TempDir folder;
  DataSettings settings = settings_for_tokens(write_tokens(folder / "t.h5", {.train = 120}), 4);
  settings.partition = Partition::fixed;
  const auto set = open_dataset(settings, 1);
  std::vector<std::uint64_t> all;
  for (int rank = 0; rank < 3; ++rank) {
    const auto source = set->train({.rank = rank, .size = 3, .batch_size = 6, .seed = 2});
    for (const auto& step : take_steps(*source, source->steps_per_epoch())) {
      for (const std::uint64_t window : step) {
        CHECK(window >= static_cast<std::uint64_t>(part_of(set->info().train, rank, 3).first));
        CHECK(window < static_cast<std::uint64_t>(part_of(set->info().train, rank, 3).last));
        all.push_back(window);
      }
    }
  }
  std::ranges::sort(all);
  CHECK(std::ssize(all) == set->info().train);
  CHECK(std::ranges::adjacent_find(all) == all.end());
}

TEST_CASE("a source goes on from any step", "[tokens]") {
  const TempDir folder;
  write_tokens(folder / "t.h5", {.train = 100});
  const auto set = open_dataset(settings_for_tokens(folder / "t.h5", 6), 1);
  const auto source = set->train({.batch_size = 4, .seed = 3});
  std::vector<std::vector<std::int64_t>> steps;
  for (int step = 0; step < 9; ++step) steps.push_back(begins_of(source->next(), 6));
  const std::int64_t per_epoch = source->steps_per_epoch();
  for (const std::int64_t step : {7, 0, 4}) {
    source->seek({.epoch = step / per_epoch, .step = step % per_epoch});
    CHECK(begins_of(source->next(), 6) == steps[static_cast<std::size_t>(step)]);
  }
}

TEST_CASE("an evaluation predicts each token but the first once", "[tokens]") {
  const TempDir folder;
  for (const std::int64_t tokens : {2, 8, 9, 10, 47, 48, 49}) {
    write_tokens(folder / "t.h5", {.train = 100, .validation = tokens});
    const auto set = open_dataset(settings_for_tokens(folder / "t.h5", 8), 1);
    CHECK(set->info().validation == (tokens - 1 + 7) / 8);
    for (const int ranks : {1, 2, 3, 4}) {
      std::vector<std::int64_t> predicted;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto source = set->evaluate(Split::validation, rank, ranks, 2);
        std::int64_t window = source->first();
        while (const auto batch = source->next()) {
          CHECK(batch->rows == 8);
          for (std::size_t i = 0; i < batch->tokens.size(); ++i) {
            const std::int64_t place = window * 8 + static_cast<std::int64_t>(i);
            if (batch->labels[i] < 0) {
              CHECK(batch->tokens[i] == 0);
              continue;
            }
            CHECK(batch->tokens[i] == token_at(place));
            CHECK(batch->labels[i] == token_at(place + 1));
            predicted.push_back(place + 1);
          }
          window += batch->size;
        }
        CHECK(window == source->last());
      }
      std::vector<std::int64_t> expected(static_cast<std::size_t>(tokens - 1));
      std::iota(expected.begin(), expected.end(), 1);
      CHECK(predicted == expected);
    }
  }
}

TEST_CASE("windows that overlap predict each token once, from as many as there are", "[tokens]") {
  const TempDir folder;
  constexpr std::int64_t kContext = 10;
  for (const std::int64_t tokens : {2, 10, 11, 12, 47}) {
    for (const std::int64_t stride : {1, 3, 9, 10}) {
      INFO(tokens << " tokens, stride " << stride);
      write_tokens(folder / "t.h5", {.test = tokens});
      DataSettings settings = settings_for_tokens(folder / "t.h5", kContext);
      settings.stride = stride;
      const auto set = open_dataset(settings, 1);
      std::vector<std::int64_t> predicted;  // places in the text
      std::int64_t windows = 0;
      for (int rank = 0; rank < 2; ++rank) {
        const auto source = set->evaluate(Split::test, rank, 2, 3);
        while (const auto batch = source->next()) {
          for (Index b = 0; b < batch->size; ++b, ++windows) {
            const auto first = static_cast<std::size_t>(b * kContext);
            for (std::int64_t t = 0; t < kContext; ++t) {
              const std::int32_t label = batch->labels[first + static_cast<std::size_t>(t)];
              const std::int64_t place = windows * stride + t + 1;
              if (label < 0) continue;
              CHECK(label == token_at(place));
              CHECK((windows == 0 || t >= kContext - stride));
              predicted.push_back(place);
            }
          }
        }
      }
      CHECK(windows == set->info().test);
      std::vector<std::int64_t> expected(static_cast<std::size_t>(tokens) - 1);
      std::iota(expected.begin(), expected.end(), 1);
      CHECK(predicted == expected);
    }
  }
}

TEST_CASE("parts of the training windows are all of them, without an offset", "[tokens]") {
  const TempDir folder;
  write_tokens(folder / "t.h5", {.train = 77});
  const auto set = open_dataset(settings_for_tokens(folder / "t.h5", 7), 1);
  std::vector<std::int64_t> begins;
  for (int part = 0; part < 3; ++part) {
    const auto source = set->training_part(part, 3, 2, {});
    while (const auto batch = source->next()) {
      const auto some = begins_of(*batch, 7);
      begins.insert(begins.end(), some.begin(), some.end());
    }
  }
  CHECK(begins == std::vector<std::int64_t>{0, 7, 14, 21, 28, 35, 42, 49, 56, 63});
  CHECK_THROWS_AS(set->training_part(0, 1, 2, {1, 2}), ConfigError);
}

TEST_CASE("a file that is read during training gives what memory gives", "[tokens]") {
  const TempDir folder;
  write_tokens(folder / "2.h5", {.train = 5000, .validation = 300});
  write_tokens<std::uint32_t>(folder / "4.h5", {.train = 5000, .validation = 300});
  write_tokens<std::uint8_t>(folder / "1.h5", {.train = 5000, .validation = 300});
  const auto resident = open_dataset(settings_for_tokens(folder / "2.h5", 50, Reader::resident), 1);
  CHECK(resident->info().resident);
  CHECK(resident->info().bytes_per_node >= 2 * 5300);
  for (const char* name : {"1.h5", "2.h5", "4.h5"}) {
    const auto mapped = open_dataset(settings_for_tokens(folder / name, 50, Reader::streaming), 1);
    CHECK(!mapped->info().resident);
    const auto a = resident->train({.batch_size = 16, .seed = 4}), b = mapped->train({.batch_size = 16, .seed = 4});
    for (int step = 0; step < 15; ++step) CHECK(begins_of(a->next(), 50) == begins_of(b->next(), 50));
    const auto c = resident->evaluate(Split::validation, 0, 1, 4), d = mapped->evaluate(Split::validation, 0, 1, 4);
    while (const auto batch = c->next()) CHECK(std::ranges::equal(batch->tokens, d->next()->tokens));
  }
}

TEST_CASE("the ranks of a node hold the tokens once", "[tokens]") {
  const TempDir folder;
  write_tokens(folder / "t.h5", {.train = 1000});
  const auto alone = open_dataset(settings_for_tokens(folder / "t.h5", 10), 1);
  const auto expected = begins_of_epoch(*alone->train({.batch_size = 8, .seed = 1}), 10);
  for (const bool window : {true, false}) {
    ThreadRanks ranks(3);
    ranks.run([&](int rank) {
      const NodeShare share = ranks.share(rank, window);
      const auto set = open_dataset(settings_for_tokens(folder / "t.h5", 10, Reader::resident), 1, share);
      const auto found = begins_of_epoch(*set->train({.batch_size = 8, .seed = 1}), 10);
      if (found != expected) throw std::logic_error("other tokens");
    });
  }
}

TEST_CASE("a view gives the same windows", "[tokens]") {
  const TempDir folder;
  write_tokens(folder / "t.h5", {.train = 400});
  const auto set = open_dataset(settings_for_tokens(folder / "t.h5", 10), 1);
  const auto view = set->view();
  REQUIRE(view != nullptr);
  CHECK(begins_of_epoch(*view->train({.batch_size = 8}), 10) == begins_of_epoch(*set->train({.batch_size = 8}), 10));
  CHECK_THAT(message_of<ConfigError>([&] { set->fold_view({.train = {0}, .validation = {1}}); }),
             Contains("cannot be divided into folds"));
}

TEST_CASE("the last share of the training tokens is for validation", "[tokens]") {
  const TempDir folder;
  DataSettings settings = settings_for_tokens(write_tokens(folder / "t.h5", {.train = 101}), 10);
  settings.validation_fraction = 0.2;
  const auto set = open_dataset(settings, 1);
  CHECK(set->info().tokens == std::array<std::int64_t, 3>{80, 21, 0});
  CHECK(set->info().validation == 2);
  const auto source = set->evaluate(Split::validation, 0, 1, 2);
  CHECK(source->next()->tokens[0] == token_at(80));
  const auto inspected = inspect_dataset(settings);
  CHECK(inspected.identity == set->info().identity);
  CHECK(inspected.validation == 2);
}

TEST_CASE("what does not fit a set of tokens is refused by name", "[tokens]") {
  const TempDir folder;
  const std::string path = write_tokens(folder / "t.h5", {.train = 30, .validation = 9});
  const auto refusal = [&](const std::function<void(DataSettings&)>& change) {
    DataSettings settings = settings_for_tokens(path, 4);
    change(settings);
    return message_of<ConfigError>([&] { open_dataset(settings, 1); });
  };
  CHECK_THAT(refusal([](DataSettings& s) { s.context = 0; }), Contains("data.context"));
  CHECK_THAT(refusal([](DataSettings& s) { s.targets = Targets::features; }), Contains("data.targets"));
  CHECK_THAT(refusal([](DataSettings& s) { s.normalization = NormalizationKind::global; }),
             Contains("data.normalization"));
  CHECK_THAT(refusal([](DataSettings& s) { s.augmentation.shift = 1; }), Contains("data.augmentation"));
  CHECK_THAT(refusal([](DataSettings& s) { s.split_by = SplitBy::groups; }), Contains("data.split_by"));
  CHECK_THAT(refusal([](DataSettings& s) { s.split_by = SplitBy::rows; }), Contains("data.split_by = \"rows\""));
  CHECK_THAT(refusal([](DataSettings& s) { s.validation_fraction = 0.1; }), Contains("data.validation_fraction"));
  CHECK_THAT(refusal([](DataSettings& s) { s.order = Order::strata; }), Contains("data.order"));
  CHECK_THAT(message_of<DataError>([&] { open_dataset(settings_for_tokens(path, 16), 1); }),
             Contains("30 tokens for training, but data.context = 16"));
  write_set(folder / "table.h5", {});
  CHECK_THAT(message_of<ConfigError>([&] { open_dataset(settings_for_tokens(folder / "table.h5", 4), 1); }),
             Contains("holds a table"));
  CHECK_THAT(message_of<ConfigError>([&] {
               DataSettings settings = settings_for_tokens(folder / "table.h5", 0);
               settings.windows = WindowPlaces::random;
               open_dataset(settings, 1);
             }),
             Contains("data.windows"));
  CHECK_THROWS_AS(open_dataset(settings_for_tokens(path, 4), 1)->train({.batch_size = 2, .class_weights = {1, 2}}),
                  ConfigError);
}

TEST_CASE("numbers that are no token's are found where they stand", "[tokens]") {
  const TempDir folder;
  std::int64_t first = 0;
  while (token_at(first) < 250) ++first;
  write_tokens(folder / "t.h5", {.train = first + 50, .vocabulary = 250});
  const std::string expected = fmt::format("/train/tokens: value {} is 250, but must lie in [0, 250)", first);
  CHECK_THAT(message_of<DataError>([&] { open_dataset(settings_for_tokens(folder / "t.h5", 5, Reader::resident), 1); }),
             Contains(expected));
  const auto read_all = [&] {
    const auto set = open_dataset(settings_for_tokens(folder / "t.h5", 5, Reader::streaming), 1);
    begins_of_epoch(*set->train({.batch_size = 1}), 5);
  };
  CHECK_THAT(message_of<DataError>(read_all), Contains(expected));
}

TEST_CASE("numbers that are no token's are found in what is evaluated before training begins", "[tokens]") {
  const TempDir folder;
  write_tokens(folder / "t.h5", {.train = 100, .validation = 100});
  {
    hdf5::File file(folder / "t.h5", hdf5::File::Mode::update);
    const std::uint16_t bad = kVocabulary;
    file.write_rows("validation/tokens", 99, 1, &bad);
  }
  DataSettings settings = settings_for_tokens(folder / "t.h5", 5, Reader::streaming);
  CHECK_THAT(message_of<DataError>([&] { open_dataset(settings, 1); }),
             Contains("/validation/tokens: value 99 is 251, but must lie in [0, 251)"));
}

TEST_CASE("places of documents that are wrong are refused", "[tokens]") {
  const TempDir folder;
  write_tokens(folder / "t.h5", {.train = 100});
  {
    hdf5::File file(folder / "t.h5", hdf5::File::Mode::update);
    file.write("train/documents", std::vector<std::uint64_t>{0, 70, 60, 100});
  }
  CHECK_THAT(message_of<DataError>([&] { open_dataset(settings_for_tokens(folder / "t.h5", 5), 1); }),
             Contains("/train/documents: value 2 is 60, less than the one before it"));
}

TEST_CASE("a set without tokens, or with numbers that cannot be mapped, is refused by name", "[tokens]") {
  const TempDir folder;
  {
    hdf5::File file(folder / "none.h5", hdf5::File::Mode::create);
    file.write("train/token", std::vector<std::uint16_t>(100));
    file.write_attribute("", "vocabulary", kVocabulary);
  }
  CHECK_THAT(message_of<DataError>([&] { open_dataset(settings_for_tokens(folder / "none.h5", 5), 1); }),
             Contains("/train has no dataset 'tokens'"));
  write_tokens<std::int64_t>(folder / "wide.h5", {.train = 100});
  CHECK(open_dataset(settings_for_tokens(folder / "wide.h5", 5), 1)->info().train == 19);
  const std::string refusal =
      message_of<DataError>([&] { open_dataset(settings_for_tokens(folder / "wide.h5", 5, Reader::streaming), 1); });
  CHECK_THAT(refusal, Contains("/train/tokens holds int64") && Contains("write it as uint16, uint32 or int32") &&
                          !Contains("compression"));
}

TEST_CASE("chunks cannot be read during training", "[tokens]") {
  const TempDir folder;
  write_tokens(folder / "t.h5", {.train = 100, .chunk_rows = 16});
  CHECK(open_dataset(settings_for_tokens(folder / "t.h5", 5), 1)->info().train == 19);
  CHECK_THAT(
      message_of<DataError>([&] { open_dataset(settings_for_tokens(folder / "t.h5", 5, Reader::streaming), 1); }),
      Contains("is stored in chunks"));
}

TEST_CASE("a model reads other texts with its own tokenizer only", "[tokens]") {
  const TempDir folder;
  write_file(folder / "a.txt", "to be or not to be, that is the question");
  write_file(folder / "b.txt", "the question to the not");
  TokensOptions options{.tokenizer = TokenizerKind::characters};
  import_tokens({folder / "a.txt"}, options, {.path = folder / "a.h5"});
  import_tokens({folder / "b.txt"}, options, {.path = folder / "b.h5"});
  const auto set = open_dataset(settings_for_tokens(folder / "a.h5", 4), 1);
  REQUIRE(set->preprocessing().tokenizer != nullptr);
  const auto open_with = [&](const std::string& path) {
    return open_dataset(settings_for_tokens(path, 4), 1, {}, &set->preprocessing());
  };
  CHECK_THAT(message_of<DataError>([&] { open_with(folder / "b.h5"); }), Contains("--tokenizer-from"));
  options = {.tokenizer_from = folder / "a.h5"};
  import_tokens({folder / "b.txt"}, options, {.path = folder / "c.h5"});
  const auto other = open_with(folder / "c.h5");
  CHECK(other->info().train == 6);  // 23 tokens, of which 22 are predicted
  CHECK(other->preprocessing().tokenizer == set->preprocessing().tokenizer);
  write_file(folder / "d.txt", "the question!");
  CHECK_THAT(message_of<DataError>([&] { import_tokens({folder / "d.txt"}, options, {.path = folder / "d.h5"}); }),
             Contains("d.txt") && Contains("'!' (U+0021) at byte 13"));
}
