#include "import/string_table.hpp"

#include <limits>

#include "unisono/base/errors.hpp"
#include "unisono/base/hash.hpp"

namespace unisono::data {
namespace {

constexpr std::size_t kFirstSlots = 1 << 12;
constexpr std::uint32_t kMost = std::numeric_limits<std::int32_t>::max();
constexpr std::uint32_t kEmpty = std::numeric_limits<std::uint32_t>::max();

std::uint32_t tag_of(std::uint64_t hash) { return static_cast<std::uint32_t>(hash >> 32); }

}  // namespace

StringTable::StringTable() : begins_{0}, slots_(kFirstSlots, Slot{0, kEmpty}) {}

std::uint32_t StringTable::number_of(std::string_view text) {
  const std::uint64_t hash = hash_bytes(text);
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = hash & mask;
  for (; slots_[at].number != kEmpty; at = (at + 1) & mask) {
    if (slots_[at].tag == tag_of(hash) && (*this)[slots_[at].number] == text) return slots_[at].number;
  }
  slots_[at] = {tag_of(hash), add(text)};
  const std::uint32_t number = slots_[at].number;
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
  slots_.assign(2 * slots_.size(), Slot{0, kEmpty});
  const std::size_t mask = slots_.size() - 1;
  for (std::uint32_t number = 0; number < size(); ++number) {
    const std::uint64_t hash = hash_bytes((*this)[number]);
    std::size_t at = hash & mask;
    while (slots_[at].number != kEmpty) at = (at + 1) & mask;
    slots_[at] = {tag_of(hash), number};
  }
}

}  // namespace unisono::data
