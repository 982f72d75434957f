#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <filesystem>
#include <string>

#include "cooccurrence/pair_table.hpp"
#include "import/set_writer.hpp"
#include "set/external.hpp"
#include "set/form.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/data/import.hpp"

namespace unisono::data {
namespace {

/// Adds up the weights of word pairs in a table in memory; whenever it is full, its sums are written to disk as a
/// sorted run.
class PairCounter {
 public:
  /// \param beside path of the output: runs are stored in a file next to it
  PairCounter(const std::string& beside, std::uint64_t memory_bytes, std::uint64_t seed)
      : order_(seed), memory_bytes_(memory_bytes), table_(memory_bytes), runs_(beside) {}

  void add(WordPair pair, std::uint64_t weight) {
    // A pair is added to the table kWaiting calls later, when the prefetch of its slot has finished.
    PairSum& waiting = waiting_[next_++ % kWaiting];
    if (waiting.weight > 0) add_now(waiting);
    waiting = {order_.place_of(pair), weight};
    table_.prefetch(waiting.place);
  }
  /// Writes the rest as a last run, and frees the table's memory.
  void finish();

  /// Visits all pairs with their total weights, in the random order of PairOrder. \pre finish() was called
  void for_each(const std::function<void(WordPair pair, std::uint64_t weight)>& visit);
  std::int64_t runs() const { return runs_.size(); }

 private:
  static constexpr std::size_t kWaiting = 32;

  void add_now(const PairSum& sum);
  void spill();

  PairOrder order_;
  std::uint64_t memory_bytes_;
  PairTable table_;
  PairRuns runs_;
  std::array<PairSum, kWaiting> waiting_{};
  std::size_t next_ = 0;
};

void PairCounter::add_now(const PairSum& sum) {
  if (table_.add(sum.place, sum.weight)) return;
  spill();
  [[maybe_unused]] const bool added = table_.add(sum.place, sum.weight);
  assert(added);
}

void PairCounter::spill() {
  runs_.add(table_.sort());
  table_.clear();
}

void PairCounter::finish() {
  for (PairSum& waiting : waiting_) {
    if (waiting.weight > 0) add_now(waiting);
    waiting.weight = 0;
  }
  runs_.add(table_.sort());
  table_.release();
}

void PairCounter::for_each(const std::function<void(WordPair pair, std::uint64_t weight)>& visit) {
  runs_.for_each(memory_bytes_, [&](const PairSum& sum) { visit(order_.pair_at(sum.place), sum.weight); });
}

constexpr std::int64_t kWidestWindow = 10000;
constexpr std::uint64_t kLeastMemory = 1 << 20;

void check_options(const CooccurrenceOptions& options) {
  if (options.window < 1 || options.window > kWidestWindow)
    throw ConfigError(fmt::format("--window {}: it must be from 1 to {} words", options.window, kWidestWindow));
  if (options.memory_bytes < kLeastMemory)
    throw ConfigError(fmt::format("--memory {}: counting needs at least 1 MiB", options.memory_bytes));
}

/// The sentences of a set's training text, one word at a time.
class SentenceReader {
 public:
  SentenceReader(const hdf5::File& file, std::int64_t vocabulary)
      : file_(file), words_(file, "train/words"), ends_(file, "train/sentences"), vocabulary_(vocabulary) {
    if (!ends_.next(end_) || end_ != 0) fail("sentences", "must begin with 0");
  }

  /// Reads the next word; false at the end. \param begins whether it is the first of its sentence
  bool next(std::uint32_t& word, bool& begins) {
    begins = at_ == end_;
    while (at_ == end_) {
      if (!next_sentence()) return false;
    }
    std::int32_t number = 0;
    words_.next(number);
    if (number < 0 || number >= vocabulary_)
      fail("words",
           fmt::format("word {} has the number {}, but the dictionary has only {} words", at_, number, vocabulary_));
    word = static_cast<std::uint32_t>(number);
    ++at_;
    return true;
  }
  std::uint64_t words() const { return words_.size(); }

 private:
  bool next_sentence() {
    const std::uint64_t begin = end_;
    if (ends_.next(end_)) {
      if (end_ < begin || end_ > words_.size())
        fail("sentences",
             fmt::format("holds {} after {}; the values must ascend and be at most {}, the number of words", end_,
                         begin, words_.size()));
      return true;
    }
    if (begin != words_.size())
      fail("sentences", fmt::format("ends with {}, but must end with {}, the number of words", begin, words_.size()));
    return false;
  }
  [[noreturn]] void fail(const char* dataset, const std::string& what) const {
    throw DataError(fmt::format("{}: /train/{}: {}", file_.path(), dataset, what));
  }

  const hdf5::File& file_;
  ColumnReader<std::int32_t> words_;
  ColumnReader<std::uint64_t> ends_;
  std::int64_t vocabulary_;
  std::uint64_t at_ = 0, end_ = 0;
};

/// The weights 1/d for d = 1 … window as integers in units of 2^−bits. `bits` is the largest number (up to 40) with
/// which the sum of all weights of the text fits into 63 bits: 36 for 17 million words and the usual window.
struct Weights {
  Weights(std::uint64_t words, std::int64_t window) {
    double sum = 0;
    for (std::int64_t d = 1; d <= window; ++d) sum += 1.0 / static_cast<double>(d);
    const double most = 2 * sum * static_cast<double>(std::max<std::uint64_t>(1, words));
    bits = std::clamp(static_cast<int>(std::floor(63 - std::log2(most))), 0, 40);
    for (std::int64_t d = 0; d <= window; ++d)
      of_distance.push_back(static_cast<std::uint64_t>(
          std::llround(std::ldexp(1.0, bits) / static_cast<double>(std::max<std::int64_t>(1, d)))));
  }
  float value(std::uint64_t weight) const { return static_cast<float>(std::ldexp(static_cast<double>(weight), -bits)); }

  int bits = 0;
  std::vector<std::uint64_t> of_distance;
};

/// The order in which a symmetric count stores a pair: in half of all pairs the smaller number comes first, so that
/// stored entries and their mirror images have the same distribution.
WordPair one_order(std::uint32_t a, std::uint32_t b) {
  const auto [least, most] = std::minmax(a, b);
  return (a + b) % 2 == 0 ? WordPair{least, most} : WordPair{most, least};
}

/// Counts all pairs of a text. In symmetric counts a pair of equal words counts twice, once for each order.
void count_pairs(SentenceReader& text, const CooccurrenceOptions& options, const Weights& weights,
                 PairCounter& counter) {
  const auto window = static_cast<std::size_t>(options.window);
  std::vector<std::uint32_t> before;  // preceding words of the sentence, at least the last `window`
  std::uint32_t word = 0;
  for (bool begins = false; text.next(word, begins); before.push_back(word)) {
    if (begins) before.clear();
    if (before.size() > 2 * window + 4096)
      before.erase(before.begin(), before.end() - static_cast<std::ptrdiff_t>(window));
    for (std::size_t d = 1; d <= std::min(window, before.size()); ++d) {
      const std::uint32_t left = before[before.size() - d];
      if (!options.symmetric) {
        counter.add({left, word}, weights.of_distance[d]);
      } else {
        counter.add(one_order(left, word), weights.of_distance[d] << (left == word ? 1 : 0));
      }
    }
  }
}

/// Writes entries, and for symmetric counts their mirror images, after each block of entries.
class EntryWriter {
 public:
  EntryWriter(SetWriter& writer, std::uint64_t entries)
      : rows_(writer, "train/rows", entries),
        columns_(writer, "train/columns", entries),
        counts_(writer, "train/counts", entries) {}

  void add(WordPair pair, float count, bool mirrored) {
    write(pair, count);
    if (mirrored && pair.row != pair.column) images_.push_back({{pair.column, pair.row}, count});
    if (images_.size() == kBlock) write_images();
  }
  void finish() {
    write_images();
    rows_.finish();
    columns_.finish();
    counts_.finish();
  }

 private:
  static constexpr std::size_t kBlock = 1 << 16;
  struct Entry {
    WordPair pair;
    float count;
  };

  void write(WordPair pair, float count) {
    rows_.add(pair.row);
    columns_.add(pair.column);
    counts_.add(count);
  }
  void write_images() {
    for (const Entry& entry : images_) write(entry.pair, entry.count);
    images_.clear();
  }

  ColumnWriter<std::uint32_t> rows_, columns_;
  ColumnWriter<float> counts_;
  std::vector<Entry> images_;
};

/// The runs are merged twice: first to count the entries, then to write them.
std::uint64_t write_entries(PairCounter& counter, const Weights& weights, bool symmetric, SetWriter& writer) {
  std::uint64_t entries = 0;
  counter.for_each([&](WordPair pair, std::uint64_t) { entries += symmetric && pair.row != pair.column ? 2 : 1; });
  EntryWriter out(writer, entries);
  counter.for_each([&](WordPair pair, std::uint64_t weight) { out.add(pair, weights.value(weight), symmetric); });
  out.finish();
  return entries;
}

void check_text(const hdf5::File& file) {
  for (const char* dataset : {"train/words", "train/sentences", "dictionary/words", "dictionary/counts"}) {
    if (file.exists(dataset)) continue;
    throw DataError(fmt::format("{}: has no /{}; it is not a text set, as made by 'unisono data import text'",
                                file.path(), dataset));
  }
}

constexpr std::uint64_t kLeastBuffer = 4 << 10, kLargestBuffer = 1 << 20;

/// A reader of one run, and its next sum.
struct Cursor {
  SpillReader reader;
  PairSum sum;
  bool next() { return reader.next(sum); }
};

/// Order of a heap with the smallest place on top.
bool is_later(const Cursor* a, const Cursor* b) { return a->sum.place > b->sum.place; }

constexpr std::size_t kFirstSlots = 1 << 14;
// Slots after the slot of the last place. At this load, runs of full slots are at most some hundred long; if one
// reaches the end, the table counts as full.
constexpr std::size_t kTail = 1 << 12;

/// The largest load: 0.7.
std::size_t most_used(std::size_t capacity) { return capacity / 10 * 7; }

}  // namespace

CooccurrenceSummary count_cooccurrences(const std::string& text_path, const CooccurrenceOptions& options,
                                        const ImportOutput& output) {
  check_options(options);
  if (std::error_code ignored; std::filesystem::equivalent(text_path, output.path, ignored)) {
    throw ConfigError(fmt::format("--output {}: this is the input text set; choose another file", output.path));
  }
  check_seal(text_path);
  const hdf5::File file = open_set_file(text_path, options.external_files);
  check_text(file);
  SetWriter writer(output);
  const std::vector<std::string> words = file.read_strings("dictionary/words");
  SentenceReader text(file, static_cast<std::int64_t>(words.size()));
  const Weights weights(text.words(), options.window);
  PairCounter counter(output.path, options.memory_bytes, options.seed);
  count_pairs(text, options, weights, counter);
  counter.finish();
  const std::uint64_t entries = write_entries(counter, weights, options.symmetric, writer);
  if (entries == 0) throw DataError(text_path + ": no sentence has two or more words");
  writer.file().write_names("dictionary/words", words);
  writer.file().write("dictionary/counts", file.read<std::int64_t>("dictionary/counts"));
  writer.finish();
  return {.path = output.path,
          .entries = static_cast<std::int64_t>(entries),
          .vocabulary = static_cast<std::int64_t>(words.size()),
          .runs = counter.runs()};
}

void PairRuns::add(std::span<const PairSum> sums) {
  const std::uint64_t begin = file_.bytes();
  constexpr std::size_t at_a_time = 1 << 14;
  for (; !sums.empty(); sums = sums.subspan(std::min(at_a_time, sums.size())))
    file_.append(sums.first(std::min(at_a_time, sums.size())));
  runs_.emplace_back(begin, file_.bytes());
}

void PairRuns::for_each(std::uint64_t memory_bytes, const std::function<void(const PairSum&)>& visit) {
  file_.flush();
  const std::uint64_t share = memory_bytes / std::max<std::size_t>(1, runs_.size());
  const auto buffer = static_cast<std::size_t>(std::clamp(share, kLeastBuffer, kLargestBuffer));
  std::vector<Cursor> cursors;
  for (const auto& [begin, end] : runs_) cursors.push_back({SpillReader(file_, begin, end, buffer), {}});
  std::vector<Cursor*> heap;
  for (Cursor& cursor : cursors) {
    if (cursor.next()) heap.push_back(&cursor);
  }
  std::make_heap(heap.begin(), heap.end(), is_later);
  PairSum sum;
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), is_later);
    Cursor& least = *heap.back();
    if (sum.weight > 0 && sum.place != least.sum.place) {
      visit(sum);
      sum.weight = 0;
    }
    sum = {least.sum.place, sum.weight + least.sum.weight};
    if (least.next()) {
      std::push_heap(heap.begin(), heap.end(), is_later);
    } else {
      heap.pop_back();
    }
  }
  if (sum.weight > 0) visit(sum);
}

PairTable::PairTable(std::uint64_t memory_bytes) : most_slots_(memory_bytes / sizeof(PairSum) - 2 * kTail) {
  resize(std::min(kFirstSlots, most_slots_));
}

void PairTable::resize(std::size_t capacity) {
  capacity_ = capacity;
  used_ = 0;
  slots_ = std::vector<PairSum>(capacity + kTail);
}

bool PairTable::add(std::uint64_t place, std::uint64_t weight) {
  std::size_t at = slot_of(place);
  for (; slots_[at].weight != 0; ++at) {  // the last slot is never used
    if (slots_[at].place != place) continue;
    slots_[at].weight += weight;
    return true;
  }
  if (used_ == most_used(capacity_) || at + 1 == slots_.size()) return grow() && add(place, weight);
  slots_[at] = {place, weight};
  ++used_;
  return true;
}

/// Grows to twice the slots, or to as many as fit into memory next to the old ones. Returns false if that is too
/// little.
bool PairTable::grow() {
  const std::size_t larger = std::min(2 * capacity_, most_slots_ - capacity_);
  if (larger < capacity_ / 4 * 5) return false;
  const std::vector<PairSum> old = std::move(slots_);
  resize(larger);
  for (const PairSum& sum : old) {
    if (sum.weight != 0) add(sum.place, sum.weight);
  }
  return true;
}

std::span<const PairSum> PairTable::sort() {
  const auto end = std::remove_if(slots_.begin(), slots_.end(), [](const PairSum& sum) { return sum.weight == 0; });
  // Insertion sort, because each sum is at most a few slots from its sorted position.
  for (auto at = slots_.begin(); at != end; ++at) {
    const PairSum sum = *at;
    auto hole = at;
    for (; hole != slots_.begin() && (hole - 1)->place > sum.place; --hole) *hole = *(hole - 1);
    *hole = sum;
  }
  return {slots_.begin(), end};
}

void PairTable::clear() {
  std::fill(slots_.begin(), slots_.end(), PairSum{});
  used_ = 0;
}

}  // namespace unisono::data
