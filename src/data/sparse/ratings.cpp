// Ratings in memory. For training they lie in a grid of blocks, so that what is visited together touches few users and
// items, which then stay in cache (Zhuang et al., "A fast parallel SGD for matrix factorization in shared memory
// systems", RecSys 2013), and blocks of different rows and columns of the grid share neither: users are cut where their
// ratings add up to equal parts, and so are items. Inside a block, ratings are in random order: steps of one user, one
// behind the other, would wait for each other (44 against 84 million a second were measured).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "order/keyed_permutation.hpp"
#include "sparse/entries.hpp"
#include "sparse/split.hpp"

namespace unisono::data {
namespace {

constexpr std::int64_t kLinesOfBlock = 1024;  // users or items of a block, about
constexpr double kRatingsOfBlock = 512;       // on average, at least
constexpr std::int64_t kMostBlocks = 512;     // along a side
constexpr std::int64_t kChunk = 4096;         // ratings of a chunk that is no block
// Distinct from the streams of the epochs' orders
constexpr std::uint32_t kHeldOutStream = 0xFFFFFFFFU, kBlockStream = 0xFFFFFFFEU;

/// Lines (users or items) cut into blocks of about equally many ratings: block b has lines bounds[b] … bounds[b+1].
std::vector<std::uint32_t> cut_lines(const std::vector<std::int64_t>& counts, std::int64_t blocks) {
  const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  std::vector<std::uint32_t> bounds{0};
  std::int64_t before = 0;
  for (std::size_t line = 0; line < counts.size(); ++line) {
    before += counts[line];
    const auto next = static_cast<std::int64_t>(bounds.size());
    if (next < blocks && before >= part_of(total, next, blocks).first) {
      bounds.push_back(static_cast<std::uint32_t>(line) + 1);
    }
  }
  while (static_cast<std::int64_t>(bounds.size()) <= blocks)
    bounds.push_back(static_cast<std::uint32_t>(counts.size()));
  return bounds;
}

std::int64_t blocks_of_lines(std::size_t lines, std::int64_t ratings) {
  const auto most = static_cast<std::int64_t>(std::sqrt(static_cast<double>(ratings) / kRatingsOfBlock));
  const auto wanted = std::max<std::int64_t>(16, static_cast<std::int64_t>(lines) / kLinesOfBlock);
  return std::clamp<std::int64_t>(std::min(wanted, most), 1, kMostBlocks);
}

std::size_t block_of(const std::vector<std::uint32_t>& bounds, std::uint32_t line) {
  return static_cast<std::size_t>(std::upper_bound(bounds.begin(), bounds.end() - 1, line) - bounds.begin()) - 1;
}

class RatingsLoader final : public GroupLoader {
 public:
  RatingsLoader(const SparseSchema& schema, const SparseGroup& group, const Arrangement& how)
      : group_(group),
        columns_(entry_columns(schema, group)),
        seed_(how.seed),
        held_out_(held_out_examples(group.units, how.validation_fraction)),
        in_blocks_(how.shuffle),
        users_(static_cast<std::size_t>(schema.rows)),
        items_(static_cast<std::size_t>(schema.columns)) {
    if (held_out_ > 0) {
      places_ = KeyedPermutation(static_cast<std::uint64_t>(group.units),
                                 RandomStream(how.seed, Purpose::order, 0, kHeldOutStream));
    }
  }

  std::size_t bytes() const override {
    return aligned_bytes(static_cast<std::size_t>(group_.units) * sizeof(SparseEntry));
  }
  void read(const hdf5::File& file, std::byte* base, const NodeMemory& memory) override;
  LoadedSplit split(bool held_out) const override;

 private:
  std::int64_t trained() const { return group_.units - held_out_; }
  bool is_held_out(std::int64_t entry) const {
    return held_out_ > 0 && static_cast<std::int64_t>(places_(static_cast<std::uint64_t>(entry))) >= trained();
  }
  void cut(const hdf5::File& file);
  void read_in_order(const hdf5::File& file, Range part);
  void read_blocks(const hdf5::File& file, const NodeMemory& memory);
  std::size_t side() const { return item_bounds_.size() - 1; }

  SparseGroup group_;
  EntryColumns columns_;
  std::uint64_t seed_;
  std::int64_t held_out_;
  bool in_blocks_;
  std::size_t users_, items_;
  KeyedPermutation places_;
  std::vector<std::uint32_t> user_bounds_, item_bounds_;
  std::vector<std::int64_t> block_first_;  ///< [user blocks · item blocks + 1]; where a block's ratings begin
  SparseEntry* entries_ = nullptr;         ///< those that are held out come last
};

void RatingsLoader::cut(const hdf5::File& file) {
  std::vector<std::int64_t> of_user(users_), of_item(items_);
  visit_entries(file, columns_, {0, group_.units}, [&](std::int64_t first, std::span<const SparseEntry> entries) {
    for (const SparseEntry& entry : entries) {
      if (is_held_out(first++)) continue;
      ++of_user[entry.row];
      ++of_item[entry.column];
    }
  });
  user_bounds_ = cut_lines(of_user, blocks_of_lines(users_, trained()));
  item_bounds_ = cut_lines(of_item, blocks_of_lines(items_, trained()));
}

void RatingsLoader::read_in_order(const hdf5::File& file, Range part) {
  std::int64_t next_held_out = trained(), next = 0;
  for (std::int64_t entry = 0; entry < part.first; ++entry) ++(is_held_out(entry) ? next_held_out : next);
  visit_entries(file, columns_, part, [&](std::int64_t first, std::span<const SparseEntry> entries) {
    for (const SparseEntry& entry : entries) entries_[is_held_out(first++) ? next_held_out++ : next++] = entry;
  });
}

/// Every rank looks at all ratings, counts those of each block, and keeps and shuffles those of its users.
void RatingsLoader::read_blocks(const hdf5::File& file, const NodeMemory& memory) {
  const auto user_blocks = static_cast<std::int64_t>(user_bounds_.size()) - 1;
  const Range own = memory.part(user_blocks);
  block_first_.assign(static_cast<std::size_t>(user_blocks) * side() + 1, 0);
  std::vector<std::vector<SparseEntry>> kept(static_cast<std::size_t>(own.size()) * side());
  std::int64_t next_held_out = trained();
  visit_entries(file, columns_, {0, group_.units}, [&](std::int64_t first, std::span<const SparseEntry> entries) {
    for (const SparseEntry& entry : entries) {
      if (is_held_out(first++)) {
        if (own.last == user_blocks) entries_[next_held_out] = entry;
        ++next_held_out;
        continue;
      }
      const std::size_t user_block = block_of(user_bounds_, entry.row);
      const std::size_t block = user_block * side() + block_of(item_bounds_, entry.column);
      ++block_first_[block + 1];
      const auto line = static_cast<std::int64_t>(user_block);
      if (line < own.first || line >= own.last) continue;
      kept[block - static_cast<std::size_t>(own.first) * side()].push_back(entry);
    }
  });
  std::partial_sum(block_first_.begin(), block_first_.end(), block_first_.begin());
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const std::size_t block = static_cast<std::size_t>(own.first) * side() + i;
    shuffle(std::span(kept[i]), RandomStream(seed_, Purpose::order, block, kBlockStream));
    std::copy(kept[i].begin(), kept[i].end(), entries_ + block_first_[block]);
    kept[i] = {};
  }
}

void RatingsLoader::read(const hdf5::File& file, std::byte* base, const NodeMemory& memory) {
  entries_ = reinterpret_cast<SparseEntry*>(base);
  if (!in_blocks_) return read_in_order(file, memory.part(group_.units));
  cut(file);
  read_blocks(file, memory);
}

LoadedSplit RatingsLoader::split(bool held_out) const {
  LoadedSplit split;
  split.set = SparseEntries(entries_, static_cast<std::size_t>(group_.units));
  if (held_out) {
    cut_evenly({trained(), group_.units}, kChunk, split);
  } else if (!in_blocks_) {
    cut_evenly({0, trained()}, kChunk, split);
  } else {
    for (std::size_t i = 0; i + 1 < block_first_.size(); ++i) {
      const ExampleRange block{block_first_[i], block_first_[i + 1]};
      if (block.size() > 0) cut_evenly(block, block.size(), split);
    }
  }
  return split;
}

}  // namespace

std::unique_ptr<GroupLoader> load_ratings(const SparseSchema& schema, const SparseGroup& group,
                                          const Arrangement& how) {
  return std::make_unique<RatingsLoader>(schema, group, how);
}

}  // namespace unisono::data
