#include "import/string_table.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"

namespace unisono::data {
namespace {

constexpr std::size_t kFirstSlots = 1 << 12;
constexpr std::uint32_t kMost = std::numeric_limits<std::int32_t>::max();
constexpr std::uint32_t kEmpty = std::numeric_limits<std::uint32_t>::max();

template <typename T>
std::uint64_t load(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// A string's first and last bytes: all of a string of up to 16, given its length.
struct Ends {
  std::uint64_t head = 0, tail = 0;
};

Ends ends_of(std::string_view text) {
  const char* const begin = text.data();
  const std::size_t size = text.size();
  if (size >= 8) return {load<std::uint64_t>(begin), load<std::uint64_t>(begin + size - 8)};
  if (size >= 4) return {load<std::uint32_t>(begin) | load<std::uint32_t>(begin + size - 4) << 32};
  if (size == 0) return {};
  return {load<std::uint8_t>(begin) | load<std::uint8_t>(begin + size / 2) << 8 |
          load<std::uint8_t>(begin + size - 1) << 16};
}

/// Multiplications by odd constants (of SplitMix64), folded; of long strings XXH3, which reads all of them.
std::uint64_t hash_of(std::string_view text, const Ends& ends) {
  if (text.size() > 16) return hash_bytes(text);
  std::uint64_t hash = (ends.head ^ text.size()) * 0x9E3779B97F4A7C15ULL;
  hash = (hash ^ hash >> 32 ^ ends.tail) * 0xBF58476D1CE4E5B9ULL;
  hash = (hash ^ hash >> 29) * 0x94D049BB133111EBULL;
  return hash ^ hash >> 32;
}

std::uint32_t tag_of(std::uint64_t hash, std::size_t size) {
  return (static_cast<std::uint32_t>(hash >> 32) & ~0xFFU) |
         static_cast<std::uint32_t>(std::min<std::size_t>(size, 255));
}

}  // namespace

StringTable::StringTable() : begins_{0}, slots_(kFirstSlots, Slot{0, 0, kEmpty}) {}

std::uint32_t StringTable::number_of(std::string_view text) {
  const Ends ends = ends_of(text);
  const std::uint64_t hash = hash_of(text, ends);
  const std::uint32_t tag = tag_of(hash, text.size());
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = hash & mask;
  for (; slots_[at].number != kEmpty; at = (at + 1) & mask) {
    if (slots_[at].tag != tag || slots_[at].head != ends.head) continue;
    if (text.size() <= 8 || (*this)[slots_[at].number] == text) return slots_[at].number;
  }
  const std::uint32_t number = add(text);
  slots_[at] = {ends.head, tag, number};
  if (2 * std::size_t{size()} > slots_.size()) grow();
  return number;
}

std::vector<std::string> StringTable::strings() const {
  std::vector<std::string> strings;
  strings.reserve(size());
  for (std::uint32_t number = 0; number < size(); ++number) strings.emplace_back((*this)[number]);
  return strings;
}

std::uint32_t StringTable::add(std::string_view text) {
  if (size() == kMost) throw DataError("there are more than 2³¹ − 1 different words or ids; divide the input");
  text_ += text;
  begins_.push_back(text_.size());
  return size() - 1;
}

void StringTable::grow() {
  slots_.assign(2 * slots_.size(), Slot{0, 0, kEmpty});
  const std::size_t mask = slots_.size() - 1;
  for (std::uint32_t number = 0; number < size(); ++number) {
    const std::string_view text = (*this)[number];
    const Ends ends = ends_of(text);
    const std::uint64_t hash = hash_of(text, ends);
    std::size_t at = hash & mask;
    while (slots_[at].number != kEmpty) at = (at + 1) & mask;
    slots_[at] = {ends.head, tag_of(hash, text.size()), number};
  }
}

}  // namespace unisono::data
