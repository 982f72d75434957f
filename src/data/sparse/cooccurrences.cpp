// Co-occurrences in memory, in the order of the file: `unisono data cooccurrences` writes them shuffled.
#include <fmt/format.h>

#include <algorithm>

#include "sparse/entries.hpp"
#include "sparse/split.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
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

}  // namespace unisono::data
