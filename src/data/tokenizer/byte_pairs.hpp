#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace unisono::data {

/// Which pairs of tokens become one, in the order of their ranks. A hash table with open addresses.
class MergeTable {
 public:
  struct Merge {
    std::int32_t rank = -1;  ///< −1: the pair stays two tokens
    std::int32_t token = 0;  ///< what it becomes
  };

  explicit MergeTable(std::size_t merges);
  /// The first merge of a pair counts. \pre no more merges than were announced
  void add(std::int32_t left, std::int32_t right, Merge merge);
  Merge find(std::int32_t left, std::int32_t right) const;

 private:
  struct Entry {
    std::uint64_t pair = 0;
    Merge merge;
  };
  std::size_t place_of(std::uint64_t pair) const;

  std::vector<Entry> entries_;  ///< a power of two of them, at most half of them used
  int shift_;
};

/// Byte-pair encoding of a word: it begins as a token for each byte; the neighbours whose merge has the lowest rank
/// become one token, of several such the leftmost, until no neighbours have a merge.
///   Sennrich, Haddow & Birch, "Neural machine translation of rare words with subword units", ACL 2016.
/// \param tokens overwritten with what they become
void merge_pairs(const MergeTable& merges, std::vector<std::int32_t>& tokens);

/// What words were encoded as. It forgets all of them when it is full.
class WordCache {
 public:
  /// The tokens of a word; none: it is not known.
  std::span<const std::int32_t> find(std::string_view word) const;
  void add(std::string_view word, std::span<const std::int32_t> tokens);

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view word) const { return std::hash<std::string_view>()(word); }
  };
  struct Place {
    std::uint32_t first = 0, count = 0;
  };
  static constexpr std::size_t kMostWords = 1 << 17, kLongestWord = 64;

  std::unordered_map<std::string, Place, Hash, std::equal_to<>> places_;
  std::vector<std::int32_t> tokens_;
};

}  // namespace unisono::data
