#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace unisono::data {

/// Distinct strings, numbered from 0 in the order in which they came first: a hash table with open addressing (linear
/// probing), whose strings lie one behind the other in one piece of memory. Takes 40 to 72 bytes a string and its
/// bytes.
class StringTable {
 public:
  StringTable();

  /// The number of a string, a new one where it comes for the first time.
  /// \throws DataError where there would be more than a 32-bit integer counts
  std::uint32_t number_of(std::string_view text);
  std::string_view operator[](std::uint32_t number) const {
    return std::string_view(text_).substr(begins_[number], begins_[number + 1] - begins_[number]);
  }
  std::uint32_t size() const { return static_cast<std::uint32_t>(begins_.size() - 1); }
  /// All of them, by number.
  std::vector<std::string> strings() const;

 private:
  /// What tells strings apart without a look at their text: their first bytes, which are all of a string of up to
  /// eight, and a tag of hash and length.
  struct Slot {
    std::uint64_t head = 0;
    std::uint32_t tag = 0, number = 0;
  };

  std::uint32_t add(std::string_view text);
  void grow();

  std::string text_;
  std::vector<std::uint64_t> begins_;  ///< [size + 1]
  std::vector<Slot> slots_;            ///< a power of two of them, at most half in use
};

}  // namespace unisono::data
