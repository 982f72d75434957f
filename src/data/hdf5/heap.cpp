#include "hdf5/heap.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "unisono/base/errors.hpp"

namespace unisono::data::hdf5 {
namespace {

// A collection: "GCOL", version 1, 3 unused bytes, its size. Each object: index and number of references (2 bytes
// each), 4 unused bytes, size; then its bytes, padded to a multiple of 8. Index 0 is the free space up to the end.
constexpr std::uint64_t kHeader = 16, kObjectHeader = 16;
constexpr std::uint64_t kNowhere = UINT64_MAX;

}  // namespace

std::uint64_t number_at(const std::byte* at, int bytes) {
  std::uint64_t number = 0;
  for (int i = bytes - 1; i >= 0; --i) number = number << 8 | static_cast<std::uint64_t>(at[i]);
  return number;
}

HeapReference decode_reference(const std::byte* stored) {
  return {.address = number_at(stored + 4, 8), .index = static_cast<std::uint32_t>(number_at(stored + 12, 4))};
}

std::string HeapReader::string_at(const HeapReference& reference) {
  if (reference.address == 0) return "";
  const Collection& collection = collection_at(reference.address);
  const auto object = collection.objects.find(reference.index);
  if (object == collection.objects.end()) {
    throw DataError(fmt::format("is damaged: a string refers to object {} of the heap at byte {}, which does not exist",
                                reference.index, reference.address));
  }
  const char* const text = reinterpret_cast<const char*>(collection.bytes.data() + object->second.first);
  std::string found(text, strnlen(text, object->second.bytes));
  given_ += found.size();
  if (given_ > bytes_) throw DataError("is damaged: its strings are longer than the file");
  return found;
}

const HeapReader::Collection& HeapReader::collection_at(std::uint64_t address) {
  const auto known = collections_.find(address);
  if (known != collections_.end()) return known->second;
  const auto fail = [&] {
    return DataError(fmt::format("is damaged: a string refers to a heap at byte {}, but there is none", address));
  };
  if (address == kNowhere || bytes_ < kHeader || address > bytes_ || base_ > bytes_ - address ||
      bytes_ - address - base_ < kHeader)
    throw fail();
  std::byte header[kHeader];
  file_.read(base_ + address, header);
  const std::uint64_t size = number_at(header + 8, 8);
  if (std::memcmp(header, "GCOL\1", 5) != 0 || size < kHeader || size > bytes_ - base_ - address) throw fail();
  read_ += size;
  if (read_ > bytes_) throw fail();
  Collection collection;
  collection.bytes.resize(size);
  file_.read(base_ + address, collection.bytes);
  find_objects(collection, address);
  return collections_.emplace(address, std::move(collection)).first->second;
}

void HeapReader::find_objects(Collection& collection, std::uint64_t address) const {
  const std::uint64_t size = collection.bytes.size();
  for (std::uint64_t at = kHeader; at + kObjectHeader <= size;) {
    const std::byte* const header = collection.bytes.data() + at;
    const auto index = static_cast<std::uint32_t>(number_at(header, 2));
    if (index == 0) return;
    const std::uint64_t bytes = number_at(header + 8, 8);
    if (bytes > size - at - kObjectHeader) {
      throw DataError(
          fmt::format("is damaged: object {} of the heap at byte {} is larger than the heap", index, address));
    }
    collection.objects[index] = {at + kObjectHeader, bytes};
    at += kObjectHeader + (bytes + 7) / 8 * 8;
  }
}

}  // namespace unisono::data::hdf5
