#include "hdf5/structure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "unisono/base/errors.hpp"

// HDF5 File Format Specification, version 3. Addresses and lengths take 8 bytes each, numbers are little-endian.
namespace unisono::data::hdf5 {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::uint64_t kUndefined = UINT64_MAX;
constexpr std::uint64_t kNoFreeBlock = 1;  // the end of a local heap's list of free blocks
constexpr unsigned kLayout = 0x08, kContinuation = 0x10, kSymbolTable = 0x11, kShared = 2;
constexpr std::size_t kMostAxes = 33;  // of a chunk, including the one for the bytes of a value

class Walk {
 public:
  explicit Walk(const std::string& path) : file_(path, RawFile::Mode::read), bytes_(file_.size()) {}
  void run();

 private:
  /// An address still to be checked. Nodes of trees have a level, and in trees of chunks the number of axes.
  struct Task {
    enum Kind { object, tree, table } kind;
    std::uint64_t address;
    int level = -1;        ///< −1: a tree's root, whose level is in the file
    std::size_t axes = 0;  ///< 0: a group's tree
  };
  [[noreturn]] static void fail(std::string_view what, std::uint64_t address) {
    throw DataError(fmt::format("is damaged: {} at byte {}", what, address));
  }
  Bytes read(std::uint64_t address, std::uint64_t count, std::string_view what) const;
  void add(Task task) {
    if (task.address != kUndefined && seen_.insert({task.kind, task.address}).second) tasks_.push_back(task);
  }
  void look_at_group(std::uint64_t tree, std::uint64_t heap);
  void look_at_heap(std::uint64_t address);
  void look_at_object(std::uint64_t address);
  void look_at_messages(const Bytes& block, std::vector<std::pair<std::uint64_t, std::uint64_t>>& blocks);
  void look_at_layout(const std::byte* message, std::size_t size, std::uint64_t address);
  void look_at_tree(const Task& task);
  void look_at_table(std::uint64_t address);
  void look_at_entry(const std::byte* entry);

  RawFile file_;
  std::uint64_t bytes_, base_ = 0;
  std::vector<Task> tasks_;
  std::set<std::pair<int, std::uint64_t>> seen_;
};

Bytes Walk::read(std::uint64_t address, std::uint64_t count, std::string_view what) const {
  if (address > bytes_ || base_ > bytes_ - address || count > bytes_ - address - base_) fail(what, address);
  Bytes bytes(count);
  file_.read(base_ + address, bytes);
  return bytes;
}

void Walk::run() {
  constexpr std::uint64_t kFront = 96;  // length of superblock version 0, and 4 bytes more for version 1
  std::uint64_t at = 0;
  Bytes front;
  for (;; at = at == 0 ? 512 : 2 * at) {
    if (at + kFront + 4 > bytes_) return;
    front = read(at, kFront + 4, "the superblock");
    if (std::memcmp(front.data(), "\x89HDF\r\n\x1a\n", 8) == 0) break;
  }
  const auto version = number_at(front.data() + 8, 1);
  if (version > 1 || number_at(front.data() + 13, 1) != 8 || number_at(front.data() + 14, 1) != 8) return;
  const std::byte* const addresses = front.data() + 24 + (version == 1 ? 4 : 0);
  // All addresses count from the superblock, whatever base address it names. So does the end, but it includes the base.
  base_ = at;
  const std::uint64_t end = number_at(addresses + 16, 8) - number_at(addresses, 8) + base_;
  if (end > bytes_) return;  // the library reports a truncated file
  look_at_entry(addresses + 32);
  while (!tasks_.empty()) {
    const Task task = tasks_.back();
    tasks_.pop_back();
    if (task.kind == Task::object) look_at_object(task.address);
    if (task.kind == Task::tree) look_at_tree(task);
    if (task.kind == Task::table) look_at_table(task.address);
  }
}

/// 40 bytes: where the name is, the object's header, what is known of it (1: that it is a group), its tree and heap.
void Walk::look_at_entry(const std::byte* entry) {
  add({Task::object, number_at(entry + 8, 8)});
  if (number_at(entry + 16, 4) == 1) look_at_group(number_at(entry + 24, 8), number_at(entry + 32, 8));
}

void Walk::look_at_group(std::uint64_t tree, std::uint64_t heap) {
  add({Task::tree, tree});
  look_at_heap(heap);
}

/// "HEAP", version, its size, the first free block and where its bytes are. A free block has the next one's place and
/// its own size.
void Walk::look_at_heap(std::uint64_t address) {
  constexpr std::string_view kWhat = "the heap of a group's names";
  const Bytes head = read(address, 32, kWhat);
  if (std::memcmp(head.data(), "HEAP", 4) != 0) fail(kWhat, address);
  const std::uint64_t size = number_at(head.data() + 8, 8);
  const Bytes names = read(number_at(head.data() + 24, 8), size, kWhat);
  std::uint64_t left = size;
  for (std::uint64_t at = number_at(head.data() + 16, 8); at != kNoFreeBlock && at != kUndefined;) {
    if (size < 16 || at > size - 16) fail(kWhat, address);
    const std::uint64_t next = number_at(names.data() + at, 8), own = number_at(names.data() + at + 8, 8);
    if (own < 16 || own > left || own > size - at) fail(kWhat, address);
    left -= own;
    at = next;
  }
}

/// Version 1: its messages, in blocks. Later ones have a checksum.
void Walk::look_at_object(std::uint64_t address) {
  const Bytes head = read(address, 16, "an object's header");
  if (number_at(head.data(), 1) != 1) return;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> blocks{{address + 16, number_at(head.data() + 8, 4)}};
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    total += blocks[i].second;
    if (blocks[i].second > bytes_ || total > bytes_ || blocks.size() > bytes_ / 8) fail("an object's header", address);
    look_at_messages(read(blocks[i].first, blocks[i].second, "an object's header"), blocks);
  }
}

/// A message: its type and size (2 bytes each), flags, 3 unused bytes, and the message.
void Walk::look_at_messages(const Bytes& block, std::vector<std::pair<std::uint64_t, std::uint64_t>>& blocks) {
  for (std::size_t at = 0; at + 8 <= block.size();) {
    const std::byte* const message = block.data() + at + 8;
    const auto type = number_at(block.data() + at, 2), flags = number_at(block.data() + at + 4, 1);
    const auto size = static_cast<std::size_t>(number_at(block.data() + at + 2, 2));
    at += 8 + size;
    if (at > block.size()) fail("a message of an object's header", blocks.front().first);
    if ((flags & kShared) != 0) continue;
    if (type == kContinuation && size >= 16) blocks.emplace_back(number_at(message, 8), number_at(message + 8, 8));
    if (type == kSymbolTable && size >= 16) look_at_group(number_at(message, 8), number_at(message + 8, 8));
    if (type == kLayout) look_at_layout(message, size, blocks.front().first);
  }
}

/// Of chunks: the number of axes (one more than the dataset's), the tree's place, and the extent along each.
void Walk::look_at_layout(const std::byte* message, std::size_t size, std::uint64_t address) {
  constexpr std::string_view kWhat = "a layout";
  if (size < 3) fail(kWhat, address);
  const auto version = number_at(message, 1);
  const bool old = version == 1 || version == 2;
  if (!old && version != 3) return;
  if (number_at(message + (old ? 2 : 1), 1) != 2) return;  // no chunks
  const std::size_t head = old ? 8 : 3;
  const auto axes = static_cast<std::size_t>(number_at(message + (old ? 1 : 2), 1));
  if (axes < 2 || axes > kMostAxes || size < head + 8 + 4 * axes) fail(kWhat, address);
  for (std::size_t axis = 0; axis < axes; ++axis) {
    if (number_at(message + head + 8 + 4 * axis, 4) == 0) fail(kWhat, address);
  }
  add({.kind = Task::tree, .address = number_at(message + head, 8), .level = -1, .axes = axes});
}

/// "TREE", its kind, its level, how many children; two neighbours; a key, a child, a key, …
void Walk::look_at_tree(const Task& task) {
  constexpr std::string_view kWhat = "a node of a tree";
  const Bytes head = read(task.address, 24, kWhat);
  const auto level = static_cast<int>(number_at(head.data() + 5, 1));
  if (std::memcmp(head.data(), "TREE", 4) != 0 || number_at(head.data() + 4, 1) != (task.axes == 0 ? 0U : 1U) ||
      (task.level >= 0 && level != task.level))
    fail(kWhat, task.address);
  const std::uint64_t key = task.axes == 0 ? 8 : 8 + 8 * task.axes, children = number_at(head.data() + 6, 2);
  const Bytes node = read(task.address + 24, children * (key + 8) + key, kWhat);
  for (std::uint64_t i = 0; i < children; ++i) {
    const std::uint64_t child = number_at(node.data() + i * (key + 8) + key, 8);
    if (child == kUndefined || child >= bytes_) fail(kWhat, task.address);
    if (level > 0) add({.kind = Task::tree, .address = child, .level = level - 1, .axes = task.axes});
    if (level == 0 && task.axes == 0) add({Task::table, child});
  }
}

/// "SNOD", its version, how many entries of 40 bytes
void Walk::look_at_table(std::uint64_t address) {
  constexpr std::string_view kWhat = "a group's table";
  const Bytes head = read(address, 8, kWhat);
  if (std::memcmp(head.data(), "SNOD", 4) != 0) fail(kWhat, address);
  const std::uint64_t entries = number_at(head.data() + 6, 2);
  const Bytes table = read(address + 8, 40 * entries, kWhat);
  for (std::uint64_t i = 0; i < entries; ++i) look_at_entry(table.data() + 40 * i);
}

// A collection: "GCOL", version 1, 3 unused bytes, its size. Each object: index and number of references (2 bytes
// each), 4 unused bytes, size; then its bytes, padded to a multiple of 8. Index 0 is the free space up to the end.
constexpr std::uint64_t kHeader = 16, kObjectHeader = 16;
constexpr std::uint64_t kNowhere = UINT64_MAX;

}  // namespace

void check_structure(const std::string& path) { Walk(path).run(); }

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
