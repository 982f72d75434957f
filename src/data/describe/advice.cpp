#include "unisono/data/advice.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "dense/plan.hpp"
#include "dense/rows.hpp"
#include "dense/schema.hpp"
#include "describe/figures.hpp"
#include "set/external.hpp"
#include "set/form.hpp"
#include "sparse/schema.hpp"
#include "stream/streaming_feed.hpp"
#include "unisono/base/clock.hpp"
#include "unisono/data/dataset.hpp"

namespace unisono::data {
namespace {

constexpr std::uint64_t kSmallChunk = 64 << 10, kLargeChunk = 4 << 20, kGoodChunk = 1 << 20;  // bytes

/// What is found, and what to do about it.
struct Advice {
  std::string facts;
  std::vector<std::string> changes;

  std::string text() const {
    std::string all = facts;
    if (changes.empty()) return all + "\nNothing needs to be changed.\n";
    all += "\nWhat to change:\n";
    for (const std::string& change : changes) all += "- " + change + "\n";
    return all;
  }
};

std::uint64_t bytes_of_values(const hdf5::DatasetShape& shape, const std::vector<std::uint64_t>& extent) {
  std::uint64_t bytes = std::max<std::uint64_t>(1, hdf5::size_of(shape.type));
  for (const std::uint64_t n : extent) bytes *= n;
  return bytes;
}

std::string size_of_bytes(std::uint64_t bytes) { return size_text(static_cast<double>(bytes)); }

std::string layout_line(const std::string& path, const hdf5::DatasetShape& shape) {
  std::string how = "contiguous";
  if (!shape.chunk.empty()) {
    how = fmt::format("in chunks of {} ({}){}", fmt::join(shape.chunk, " × "),
                      size_of_bytes(bytes_of_values(shape, shape.chunk)), shape.compressed ? ", compressed" : "");
  }
  return fmt::format("  /{:24} {} {}, {}, {}\n", path, hdf5::name_of(shape.type), fmt::join(shape.extent, " × "),
                     size_of_bytes(bytes_of_values(shape, shape.extent)), how);
}

/// The command that writes a dataset with other chunks. \param rows 0: contiguous, not compressed
std::string repack_command(const hdf5::File& file, const std::string& path, const hdf5::DatasetShape& shape,
                           std::uint64_t rows) {
  std::vector<std::uint64_t> chunk = shape.extent;
  chunk[0] = rows;
  const std::string layout = rows == 0 ? fmt::format("-l {0}:CONTI -f {0}:NONE", path)
                                       : fmt::format("-l {}:CHUNK={}", path, fmt::join(chunk, "x"));
  if (!file.parts().empty()) return fmt::format("h5repack {} FILE new.h5, for each file", layout);
  return fmt::format("h5repack {} {} new.h5", layout, file.path());
}

/// What is wrong with the layout of a dataset of which blocks of rows are read.
void advise_on_chunks(const hdf5::File& file, const std::string& path, const hdf5::DatasetShape& shape,
                      Advice& advice) {
  if (shape.chunk.empty() || shape.rows() == 0) return;
  const std::uint64_t chunk = bytes_of_values(shape, shape.chunk), all = bytes_of_values(shape, shape.extent);
  const std::uint64_t row = std::max<std::uint64_t>(1, all / shape.rows());
  const std::uint64_t rows = std::clamp<std::uint64_t>(kGoodChunk / row, 1, shape.rows());
  const std::string command = repack_command(file, path, shape, rows);
  const bool cuts_rows = !std::equal(shape.chunk.begin() + 1, shape.chunk.end(), shape.extent.begin() + 1);
  if (cuts_rows && rows * row <= 4 * kLargeChunk) {
    advice.changes.push_back(
        fmt::format("/{}: a chunk holds parts of rows, so that several are read for every row. Write "
                    "whole rows: {}",
                    path, command));
  } else if (chunk < kSmallChunk && chunk < all) {
    advice.changes.push_back(fmt::format("/{}: chunks of {} make many small reads. Chunks of about 1 MiB: {}", path,
                                         size_of_bytes(chunk), command));
  } else if (shape.compressed && chunk > kLargeChunk && rows < shape.chunk[0]) {
    advice.changes.push_back(fmt::format(
        "/{}: a compressed chunk of {} is read and unpacked as a whole, so that streaming shuffles few large blocks. "
        "Chunks of about 1 MiB: {}",
        path, size_of_bytes(chunk), command));
  }
}

/// How fast evenly spaced blocks of a group are read, in bytes in memory a second.
double measure_reading(const hdf5::File& file, const GroupSchema& group) {
  constexpr std::int64_t kMostRead = 32;
  const std::int64_t rows = block_rows(group), blocks = divide_up(group.examples, rows);
  const std::int64_t wanted = std::min(blocks, kMostRead);
  constexpr double kLongest = 2;  // seconds
  const Stopwatch watch;
  std::int64_t examples = 0;
  for (std::int64_t i = 0; i < wanted && watch.seconds() < kLongest; ++i) {
    const std::int64_t first = part_of(blocks, i, wanted).first * rows;
    const OwnedBlock read(file, group, {first, std::min(first + rows, group.examples)});
    examples += read.block.rows().size();
  }
  return static_cast<double>(examples * group.bytes_per_example()) / std::max(watch.seconds(), 1e-6);
}

/// How often an example has the class of the one before it, and how often it would in a random order.
struct Neighbours {
  double alike = 0, at_random = 0;
  /// Less than half of what could be mixed is mixed.
  bool are_sorted() const { return alike > (1 + at_random) / 2; }
};

Neighbours compare_neighbours(const hdf5::File& file, const GroupSchema& group) {
  std::int64_t alike = 0, pairs = 0;
  std::vector<std::int32_t> labels(static_cast<std::size_t>(group.examples));
  read_labels(file, group.labels_path(), {0, group.examples}, labels.data());
  for (std::size_t i = 1; i < labels.size(); ++i, ++pairs) alike += labels[i] == labels[i - 1] ? 1 : 0;
  std::sort(labels.begin(), labels.end());
  double squares = 0;
  for (auto first = labels.begin(); first != labels.end();) {
    const auto next = std::upper_bound(first, labels.end(), *first);
    const double share = static_cast<double>(next - first) / static_cast<double>(labels.size());
    squares += share * share;
    first = next;
  }
  return {static_cast<double>(alike) / static_cast<double>(std::max<std::int64_t>(pairs, 1)), squares};
}

void advise_on_streaming(const hdf5::File& file, const GroupSchema& train, Advice& advice) {
  const std::int64_t rows = block_rows(train), blocks = divide_up(train.examples, rows);
  const std::int64_t bytes = rows * train.bytes_per_example();
  constexpr std::int64_t kBatch = 256;
  const LaneShape shape = choose_lanes(kDefaultWindowBytes, bytes, blocks, kBatch);
  const std::int64_t window = std::min(blocks, shape.lanes * shape.group_blocks);
  advice.facts += fmt::format(
      "\nStreaming (data.reader = \"streaming\") reads blocks of {} ({}); the set has {}. With the default window of\n"
      "256 MiB and batches of {}, examples of {} are shuffled among each other at a time.\n",
      count_of(rows, "example"), size_of_bytes(static_cast<std::uint64_t>(bytes)), count_of(blocks, "block"), kBatch,
      count_of(window, "block"));
  const double rate = measure_reading(file, train);
  advice.facts += fmt::format(
      "Blocks spread over the set were just read at {}/s, from the disk or from memory: {} for all {}.\n",
      size_text(rate), duration_text(static_cast<double>(train.examples * train.bytes_per_example()) / rate),
      count_of(train.examples, "training example"));
  if (!train.has_labels) return;
  const Neighbours neighbours = compare_neighbours(file, train);
  advice.facts +=
      fmt::format("{:.1f} % of the examples have the class of the example before; in a random order {:.1f} % would.\n",
                  100 * neighbours.alike, 100 * neighbours.at_random);
  if (!neighbours.are_sorted() || window == blocks) return;
  advice.changes.push_back(
      fmt::format("/train is sorted by class, and streaming shuffles within the window alone, so that steps would hold "
                  "few classes. "
                  "Write the rows in a random order, or set data.reader = \"resident\", or data.window_bytes = {}, "
                  "which is enough to "
                  "shuffle all of it.",
                  2 * blocks * bytes));
}

Advice advise_on_table(const hdf5::File& file, const SetSchema& set) {
  Advice advice;
  for (const auto& group : set.groups) {
    if (!group) continue;
    const std::string path = group->features_path();
    const hdf5::DatasetShape shape = file.shape(path);
    advice.facts += layout_line(path, shape);
    if (!group->pictures) advise_on_chunks(file, path, shape, advice);
    if (group->pictures && !shape.chunk.empty())
      advice.changes.push_back(
          fmt::format("/{}: pictures are read one after the other, and are compressed already. Write "
                      "them without chunks: {}",
                      path, repack_command(file, path, shape, 0)));
  }
  const auto& train = set.group(Split::train);
  if (train) advise_on_streaming(file, *train, advice);
  return advice;
}

Advice advise_on_tokens(const hdf5::File& file) {
  Advice advice;
  for (const std::string group : {"train", "validation", "test"}) {
    const std::string path = group + "/tokens";
    if (!file.exists(path)) continue;
    const hdf5::DatasetShape shape = file.shape(path);
    advice.facts += layout_line(path, shape);
    if (!shape.chunk.empty()) {
      advice.changes.push_back(
          fmt::format("/{}: only tokens without chunks can be streamed, because the file is mapped: "
                      "{}",
                      path, repack_command(file, path, shape, 0)));
    }
  }
  advice.facts +=
      "\nTokens are read into memory or, with data.reader = \"streaming\", where windows of the text need them.\n";
  return advice;
}

/// Sparse rows, ratings, sentences and co-occurrences.
Advice advise_on_resident(const hdf5::File& file) {
  Advice advice;
  for (const std::string& path : file.datasets()) {
    const std::string name = path.substr(1);
    const hdf5::DatasetShape shape = file.shape(name);
    if (shape.extent.empty()) continue;
    advice.facts += layout_line(name, shape);
    advise_on_chunks(file, name, shape, advice);
  }
  advice.facts += "\nSuch a set is read once, from one end to the other, and then lies in memory.\n";
  return advice;
}

}  // namespace

std::string advise_on_set(const std::string& path, bool external_files) {
  check_seal(path);
  const hdf5::File file = open_set_file(path, external_files);
  const std::string title = fmt::format("{}how it is stored\n", title_text(file));
  const SetKind kind = kind_of(file);
  if (kind == SetKind::tokens) return title + advise_on_tokens(file).text();
  if (kind != SetKind::table) return title + advise_on_resident(file).text();
  const SetSchema set =
      read_schema(file, {.needs_training = false, .needs_answers = false, .layout = ImageLayout::chw});
  return title + advise_on_table(file, set).text();
}

}  // namespace unisono::data
