#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <set>
#include <value_of.hpp>

#include "dense/plan.hpp"
#include "sets.hpp"
#include "stream/streaming_feed.hpp"
#include "wide_rows.hpp"

using namespace unisono::data;
using unisono::test::TempDir;

namespace {

/// Blocks of so many rows, the last one shorter.
unisono::data::LaneSettings lanes(std::int64_t examples, std::int64_t block_rows, std::int64_t batch,
                                  unisono::data::LaneShape shape) {
  unisono::data::LaneSettings settings;
  settings.blocks = unisono::data::blocks_of(unisono::data::FileRows(examples), {0, examples}, block_rows);
  settings.examples = examples;
  settings.batch = batch;
  settings.steps = (examples + batch - 1) / batch;
  settings.last_batch = examples - (settings.steps - 1) * batch;
  settings.shape = shape;
  settings.seed = 3;
  return settings;
}

/// The rows of the file that a rank takes in an epoch, and the cells that it needs for that.
struct Taken {
  std::vector<std::vector<std::int64_t>> steps;
  std::int64_t cell_rows = 0;
};

Taken take_epoch(const unisono::data::LaneSettings& settings, int rank, int size, unisono::Index accumulate = 1) {
  const unisono::data::LaneOrder order(settings, 2);
  unisono::data::Schedule schedule(
      settings.examples, {.rank = rank, .size = size, .batch_size = settings.batch, .micro_batches = accumulate},
      false);
  schedule.seek({2, 0});
  Taken taken;
  std::set<std::pair<std::int64_t, std::int64_t>> cells;
  taken.steps.emplace_back();
  for (bool last = false; !last; schedule.advance()) {
    const unisono::data::MicroBatch batch = schedule.current();
    last = batch.last_of_epoch;
    for (const unisono::data::LaneShare& part : order.parts(batch)) {
      for (std::int64_t position = part.positions.first; position < part.positions.last; ++position) {
        const unisono::data::Cell cell = order.cell_at(part.lane, position);
        if (cells.insert({cell.lane, cell.group}).second) taken.cell_rows += cell.rows.size();
        const auto place = order.virtual_row(part.lane, position) - cell.rows.first;
        auto row = static_cast<std::int64_t>(order.shuffle_of(cell)(static_cast<std::uint64_t>(place)));
        for (const unisono::data::Range& rows : order.file_rows(cell)) {
          if (row < rows.size()) {
            taken.steps.back().push_back(rows.first + row);
            break;
          }
          row -= rows.size();
        }
      }
    }
    if (batch.last_of_step && !last) taken.steps.emplace_back();
  }
  return taken;
}

}  // namespace

TEST_CASE("an epoch of lanes holds every example once, on any number of ranks, in the same steps", "[streaming]") {
  for (const std::int64_t examples : {1, 5, 64, 103}) {
    for (const std::int64_t batch : {1, 3, 8, 50}) {
      for (const std::int64_t count : {1, 2, 7}) {
        const auto settings = lanes(examples, 4, batch, {std::min(count, batch), 2});
        const Taken serial = take_epoch(settings, 0, 1);
        std::vector<std::int64_t> all;
        for (const auto& step : serial.steps) all.insert(all.end(), step.begin(), step.end());
        std::sort(all.begin(), all.end());
        std::vector<std::int64_t> expected(static_cast<std::size_t>(examples));
        std::iota(expected.begin(), expected.end(), 0);
        CHECK(all == expected);
        for (const int ranks : {2, 3, 5}) {
          std::vector<std::vector<std::int64_t>> joined(serial.steps.size());
          for (int rank = 0; rank < ranks; ++rank) {
            const Taken part = take_epoch(settings, rank, ranks);
            REQUIRE(part.steps.size() == joined.size());
            for (std::size_t s = 0; s < joined.size(); ++s) {
              joined[s].insert(joined[s].end(), part.steps[s].begin(), part.steps[s].end());
            }
          }
          CHECK(joined == serial.steps);
        }
        CHECK(take_epoch(settings, 0, 1, 3).steps == serial.steps);
      }
    }
  }
}

TEST_CASE("a rank needs the blocks of its share alone, but for those at its borders", "[streaming]") {
  const auto settings = lanes(6400, 10, 64, {64, 2});
  for (const int ranks : {2, 3, 4, 8}) {
    std::int64_t total = 0;
    for (int rank = 0; rank < ranks; ++rank) total += take_epoch(settings, rank, ranks).cell_rows;
    // A lane of 64 lies on a border only where the number of ranks does not divide 64.
    CHECK(total <= 6400 + (64 % ranks == 0 ? 0 : (ranks - 1) * 100));
  }
}

TEST_CASE("a step has examples of all lanes, and neighbours in the file are apart", "[streaming]") {
  const auto settings = lanes(6400, 10, 64, {64, 2});
  const Taken taken = take_epoch(settings, 0, 1);
  std::int64_t together = 0;
  for (const auto& step : taken.steps) {
    std::set<std::int64_t> blocks;
    for (const std::int64_t row : step) blocks.insert(row / 10);
    together += static_cast<std::int64_t>(step.size() - blocks.size());
  }
  // A lane begins anywhere in a block, so a block may feed two lanes, at different times: few steps see it twice.
  CHECK(together < 6400 / 20);
}

TEST_CASE("without shuffling lanes keep the file's order", "[streaming]") {
  auto settings = lanes(23, 4, 5, {1, 2});
  settings.shuffle = false;
  const unisono::data::LaneOrder order(settings, 0);
  std::int64_t row = 0;
  for (std::int64_t position = 0; position < 23; ++position) {
    const unisono::data::Cell cell = order.cell_at(0, position);
    const auto rows = order.file_rows(cell);
    CHECK(order.virtual_row(0, position) == row++);
    CHECK(rows.front().first == cell.rows.first);
  }
}

TEST_CASE("lanes fill the window", "[streaming]") {
  // 100 blocks fit: 50 cells of a block for the batch, 50 for the next ones.
  CHECK(unisono::data::choose_lanes(100, 1, 1000, 64).lanes == 50);
  CHECK(unisono::data::choose_lanes(100, 1, 1000, 64).group_blocks == 1);
  CHECK(unisono::data::choose_lanes(1000, 1, 10000, 64).lanes == 64);
  CHECK(unisono::data::choose_lanes(1000, 1, 10000, 64).group_blocks == 7);
  CHECK(unisono::data::choose_lanes(1, 10, 5, 64).lanes == 1);
  CHECK(unisono::data::choose_lanes(1000, 1, 3, 64).lanes == 3);
  CHECK(unisono::data::choose_lanes(1000, 1, 0, 64).lanes == 1);
}

TEST_CASE("streaming: P ranks equal one, every example once, features and labels in their places", "[streaming]") {
  const TempDir folder;
  const std::int64_t examples = 150;
  unisono::data::DataSettings settings;
  settings.path = write_wide_rows(folder / "a.h5", examples);
  settings.reader = unisono::data::Reader::streaming;
  settings.window_bytes = 8 * kBlockOfWideRows;  // of 10
  settings.partition = GENERATE(unisono::data::Partition::global, unisono::data::Partition::fixed);
  settings.validation_fraction = GENERATE(0.0, 0.3);
  const auto set = unisono::data::open_dataset(settings, 1);
  CHECK_FALSE(set->info().resident);
  CHECK(set->info().bytes_per_node == 8 * kBlockOfWideRows);
  const auto epoch = [&](int ranks) {
    std::vector<std::vector<std::uint64_t>> steps;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto source = set->train({.rank = rank, .size = ranks, .batch_size = 12, .seed = 5});
      steps.resize(static_cast<std::size_t>(source->steps_per_epoch()));
      for (auto& step : steps) {
        const unisono::data::Batch batch = source->next();
        for (std::size_t i = 0; i < batch.examples.size(); ++i) {
          const std::uint64_t row = batch.examples[i];
          CHECK(batch.features[i * kWideRow] == static_cast<float>(row & 255));
          CHECK(batch.features[(i + 1) * kWideRow - 1] == static_cast<float>(row & 255));
          CHECK(batch.labels[i] == static_cast<int>(row % 7));
          step.push_back(row);
        }
      }
      CHECK(source->next().epoch == 1);
    }
    return steps;
  };
  const auto serial = epoch(1);
  std::set<std::uint64_t> seen;
  for (const auto& step : serial) seen.insert(step.begin(), step.end());
  CHECK(static_cast<std::int64_t>(seen.size()) == set->info().train);
  CHECK(set->info().train == (settings.validation_fraction > 0 ? 102 : 150));  // 3 of the 9 whole blocks validate
  for (const int ranks : {2, 3}) {
    const auto parallel = epoch(ranks);
    if (settings.partition == unisono::data::Partition::global) {
      CHECK(parallel == serial);
      continue;
    }
    std::multiset<std::uint64_t> all;
    for (const auto& step : parallel) all.insert(step.begin(), step.end());
    CHECK(all.size() == seen.size());
    CHECK(std::set<std::uint64_t>(all.begin(), all.end()) == seen);
  }
  if (settings.validation_fraction == 0) return;
  const auto evaluation = set->evaluate(unisono::data::Split::validation, 0, 1, 5);
  while (const auto batch = evaluation->next()) {
    for (const auto row : batch->examples) CHECK(seen.insert(row).second);
  }
  CHECK(static_cast<std::int64_t>(seen.size()) == examples);
}

TEST_CASE("streaming: a source that is sent to a cursor goes on as one that came there", "[streaming]") {
  const TempDir folder;
  unisono::data::DataSettings settings;
  settings.path = write_wide_rows(folder / "a.h5", 100);
  settings.reader = unisono::data::Reader::streaming;
  settings.window_bytes = 6 * kBlockOfWideRows;
  const auto set = unisono::data::open_dataset(settings, 1);
  const unisono::data::SourceOptions options{.rank = 1, .size = 2, .batch_size = 9, .micro_batches = 2, .seed = 3};
  const auto through = set->train(options), sent = set->train(options);
  const auto all = unisono::test::take_steps(*through, 30);
  for (const std::int64_t step : {0, 7, 11, 20, 4}) {
    sent->seek({step / 12, step % 12});
    const auto rest = unisono::test::take_steps(*sent, 6);
    for (std::size_t i = 0; i < 6; ++i) CHECK(rest[i] == all[static_cast<std::size_t>(step) + i]);
  }
}

TEST_CASE("streaming stays within its window, and ranks read their share", "[streaming]") {
  const TempDir folder;
  const std::int64_t examples = 640, blocks = 40;
  const unisono::data::hdf5::File file(write_wide_rows(folder / "a.h5", examples),
                                       unisono::data::hdf5::File::Mode::read);
  const unisono::data::SetSchema schema = unisono::data::read_schema(file, {});
  const unisono::data::GroupSchema& group = schema.any_group();
  REQUIRE(unisono::data::block_rows(group) == 16);
  unisono::data::LaneSettings settings = lanes(examples, 16, 8, {8, 1});
  const std::int64_t window = 16 * kBlockOfWideRows + 4096;
  for (const int ranks : {1, 2, 4}) {
    std::int64_t read = 0, peak = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      unisono::data::Schedule schedule(examples, {.rank = rank, .size = ranks, .batch_size = 8}, false);
      unisono::data::StreamingFeed feed(file, group, settings, schedule, window);
      feed.seek({0, 0});
      unisono::data::GatheredExamples gathered;
      for (; schedule.current().epoch < 2; schedule.advance()) feed.gather(schedule.current(), gathered);
      read += feed.reader().bytes_read();
      peak += feed.reader().peak_bytes();
    }
    // Two epochs, and at most a window of the third.
    CHECK(read >= 2 * blocks * kBlockOfWideRows);
    CHECK(read <= 2 * blocks * (kBlockOfWideRows + 64) + window);
    CHECK(peak <= window);
  }
}

TEST_CASE("streaming: a rank without examples neither reads nor hangs", "[streaming]") {
  const TempDir folder;
  unisono::data::DataSettings settings;
  settings.path = write_wide_rows(folder / "a.h5", 20);
  settings.reader = unisono::data::Reader::streaming;
  const auto set = unisono::data::open_dataset(settings, 1);
  const auto source = set->train({.rank = 0, .size = 3, .batch_size = 2});
  for (int step = 0; step < 25; ++step) {
    const unisono::data::Batch batch = source->next();
    CHECK(batch.size == 0);
    CHECK(batch.global_size == 2);
  }
}

TEST_CASE("streaming: an error while reading reaches the one who asks for the batch", "[streaming]") {
  const TempDir folder;
  unisono::data::DataSettings settings;
  settings.path = folder / "a.h5";
  {
    unisono::data::hdf5::File file(settings.path, unisono::data::hdf5::File::Mode::create);
    std::vector<float> features(100, 1);
    features[77] = std::numeric_limits<float>::quiet_NaN();
    file.create<float>("train/features", {100, 1});
    file.write_rows("train/features", 0, 100, features.data());
    file.write("train/labels", std::vector<float>(100));
  }
  settings.reader = unisono::data::Reader::streaming;
  const auto set = unisono::data::open_dataset(settings, 1);
  const auto source = set->train({.batch_size = 10});
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] { source->next(); }), Catch::Contains("example 77"));
}

TEST_CASE("streaming: a last step may be left out, or be joined to the step before", "[streaming]") {
  const TempDir folder;
  for (const std::string reader : {"resident", "streaming"}) {
    for (const bool drop : {false, true}) {
      for (const unisono::data::Partition partition :
           {unisono::data::Partition::global, unisono::data::Partition::fixed}) {
        for (const int ranks : {1, 3}) {
          CAPTURE(reader, drop, ranks, partition == unisono::data::Partition::fixed);
          const std::int64_t examples = 12 * ranks * 8 + ranks;  // one left for each rank
          unisono::data::DataSettings settings;
          settings.path = write_wide_rows(folder / (reader + std::to_string(ranks) + ".h5"), examples);
          settings.reader = unisono::value_of(reader, unisono::data::kReaders);
          settings.partition = partition;
          const auto set = unisono::data::open_dataset(settings, 1);
          for (int epoch = 0; epoch < 2; ++epoch) {
            std::set<std::uint64_t> seen;
            std::int64_t taken = 0;
            for (int rank = 0; rank < ranks; ++rank) {
              const auto source = set->train({.rank = rank,
                                              .size = ranks,
                                              .batch_size = 8 * ranks,
                                              .drop_last = drop,
                                              .least = {.of_rank = 2},
                                              .seed = 7});
              CHECK(source->steps_per_epoch() == 12);
              source->seek({epoch, 0});
              for (int step = 0; step < 12; ++step) {
                const unisono::data::Batch batch = source->next();
                CHECK(batch.size == (step == 11 && !drop ? 9 : 8));
                CHECK(batch.last_of_epoch == (step == 11));
                seen.insert(batch.examples.begin(), batch.examples.end());
                taken += batch.size;
              }
              CHECK(source->next().epoch == epoch + 1);
            }
            CHECK(taken == examples - (drop ? ranks : 0));
            CHECK(std::ssize(seen) == taken);  // each once
          }
        }
      }
    }
  }
}
