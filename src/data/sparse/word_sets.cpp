#include <fmt/format.h>

#include <algorithm>

#include "sparse/schema.hpp"
#include "sparse/split.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {

// Text in memory: words, and where sentences begin, in the order of the file.

namespace {

constexpr std::int64_t kLargestTextChunk = 10000, kTextChunks = 1024;  // words of a chunk; chunks of a small text

class TextLoader final : public GroupLoader {
 public:
  TextLoader(const SparseSchema& schema, const SparseGroup& group) : group_(group), vocabulary_(schema.rows) {}

  std::size_t bytes() const override {
    return aligned_bytes(static_cast<std::size_t>(group_.values) * sizeof(std::int32_t)) +
           aligned_bytes(bounds() * sizeof(std::uint64_t));
  }

  void read(const hdf5::File& file, std::byte* base, const NodeMemory& memory) override {
    words_ = reinterpret_cast<std::int32_t*>(base);
    sentences_ = reinterpret_cast<std::uint64_t*>(
        base + aligned_bytes(static_cast<std::size_t>(group_.values) * sizeof(std::int32_t)));
    visit_numbers(file, group_.path("words"), memory.part(group_.values), vocabulary_,
                  [&](std::int64_t first, std::span<const std::int64_t> values) {
                    std::transform(values.begin(), values.end(), words_ + first,
                                   [](std::int64_t word) { return static_cast<std::int32_t>(word); });
                  });
    const auto offsets = read_offsets(file, group_.path("sentences"), group_.units, group_.values);
    const Range part = memory.part(static_cast<std::int64_t>(bounds()));
    std::copy(offsets.begin() + part.first, offsets.begin() + part.last, sentences_ + part.first);
  }

  LoadedSplit split(bool) const override;

 private:
  std::size_t bounds() const { return static_cast<std::size_t>(group_.units) + 1; }

  SparseGroup group_;
  Index vocabulary_;
  std::int32_t* words_ = nullptr;
  std::uint64_t* sentences_ = nullptr;
};

/// Chunks of whole sentences, of some thousands of words.
LoadedSplit TextLoader::split(bool) const {
  LoadedSplit split;
  split.set = Text{.words = {words_, static_cast<std::size_t>(group_.values)}, .sentences = {sentences_, bounds()}};
  const auto wanted =
      static_cast<std::uint64_t>(std::clamp<std::int64_t>(group_.values / kTextChunks, 1, kLargestTextChunk));
  for (std::int64_t first = 0; first < group_.units;) {
    std::int64_t last = first + 1;
    while (last < group_.units && sentences_[last] - sentences_[first] < wanted) ++last;
    split.chunks.push_back({first, last});
    split.chunk_examples.push_back(static_cast<std::int64_t>(sentences_[last] - sentences_[first]));
    first = last;
  }
  split.examples = group_.values;
  return split;
}

}  // namespace

std::unique_ptr<GroupLoader> load_text(const SparseSchema& schema, const SparseGroup& group) {
  return std::make_unique<TextLoader>(schema, group);
}

// Co-occurrences in memory, in the order of the file: `unisono data cooccurrences` writes them shuffled.

namespace {

constexpr std::int64_t kLargestChunk = 4096, kChunks = 256;

class CooccurrencesLoader final : public GroupLoader {
 public:
  CooccurrencesLoader(const SparseSchema& schema, const SparseGroup& group)
      : group_(group), columns_(entry_columns(schema, group)) {}

  std::size_t bytes() const override {
    return aligned_bytes(static_cast<std::size_t>(group_.units) * sizeof(SparseEntry));
  }

  void read(const hdf5::File& file, std::byte* base, const NodeMemory& memory) override {
    entries_ = reinterpret_cast<SparseEntry*>(base);
    visit_entries(
        file, columns_, memory.part(group_.units), [&](std::int64_t first, std::span<const SparseEntry> entries) {
          for (std::size_t i = 0; i < entries.size(); ++i) {
            if (entries[i].value > 0) continue;
            throw DataError(fmt::format("{}: /{}: value {} is {}; counts are positive", file.path(), columns_.values,
                                        first + static_cast<std::int64_t>(i), entries[i].value));
          }
          std::copy(entries.begin(), entries.end(), entries_ + first);
        });
  }

  LoadedSplit split(bool) const override {
    LoadedSplit split;
    split.set = SparseEntries(entries_, static_cast<std::size_t>(group_.units));
    cut_evenly({0, group_.units}, std::clamp<std::int64_t>(group_.units / kChunks, 1, kLargestChunk), split);
    return split;
  }

 private:
  SparseGroup group_;
  EntryColumns columns_;
  SparseEntry* entries_ = nullptr;
};

}  // namespace

std::unique_ptr<GroupLoader> load_cooccurrences(const SparseSchema& schema, const SparseGroup& group) {
  return std::make_unique<CooccurrencesLoader>(schema, group);
}

std::vector<std::int64_t> word_counts(const hdf5::File& file, const SparseSchema& schema) {
  const std::string dataset = "dictionary/counts";
  std::vector<std::int64_t> counts;
  if (schema.kind != SetKind::text && schema.kind != SetKind::cooccurrences) return counts;
  if (!file.exists(dataset)) return counts;
  const auto words = static_cast<std::uint64_t>(schema.rows);
  const hdf5::DatasetShape shape = file.shape(dataset);
  if (!hdf5::is_integer(shape.type) || shape.rows() != words || shape.row_size() != 1) {
    throw DataError(fmt::format("{}: /{} must hold {} whole numbers, one for each word", file.path(), dataset, words));
  }
  visit_numbers(file, dataset, {0, schema.rows}, INT64_MAX, [&](std::int64_t, std::span<const std::int64_t> values) {
    counts.insert(counts.end(), values.begin(), values.end());
  });
  return counts;
}

bool has_pairs(const LoadedSplit& text) {
  const std::span<const std::uint64_t> sentences = std::get<Text>(text.set).sentences;
  return std::ranges::adjacent_find(
             sentences, [](std::uint64_t first, std::uint64_t last) { return last > first + 1; }) != sentences.end();
}

}  // namespace unisono::data
