#include "shared_allocator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "topology.hpp"

namespace unisono::comm::mpi {

SharedAllocator::SharedAllocator(Communicator& group, MPI_Comm node, Progress& progress, Warn warn)
    : group_(group), node_(node), progress_(progress), warn_(std::move(warn)) {}

void* SharedAllocator::allocate(std::size_t bytes) {
  if (node_ == MPI_COMM_NULL) return page_allocator().allocate(bytes);
  agree_on_size(bytes);
  free_what_none_uses();
  if (!all_have_room(SharedWindow::needed_bytes(bytes, group_.node_size()))) return page_allocator().allocate(bytes);
  const auto part = std::max(bytes, kAlignmentBytes);  // even of nothing each rank has an address of its own
  make_window(part, part);
  Entry& entry = entries_.back();
  entry.base = entry.window->mine();
  std::memset(entry.base, 0, part);
  return entry.base;
}

std::byte* SharedAllocator::allocate_one_copy(std::size_t bytes) {
  if (node_ == MPI_COMM_NULL) return nullptr;
  agree_on_size(bytes);
  free_what_none_uses();
  if (!all_have_room(SharedWindow::needed_bytes(bytes, 1))) return nullptr;
  const auto whole = std::max(bytes, kAlignmentBytes);
  std::byte* const base = make_window(group_.rank() == 0 ? whole : 0, whole);
  entries_.back().one_copy = true;
  const Slice mine = slice_of(static_cast<Index>(whole), group_.rank(), group_.size());
  std::memset(base + mine.first, 0, static_cast<std::size_t>(mine.last - mine.first));
  group_.barrier();  // nobody writes before all have zeroed
  return base;
}

void SharedAllocator::deallocate(void* pointer) noexcept {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.base == pointer; });
  if (found == entries_.end()) {
    page_allocator().deallocate(pointer);
  } else {
    found->in_use = false;
  }
}

std::optional<WindowSpan> SharedAllocator::find(std::span<float> span) const {
  const auto* const first = reinterpret_cast<const std::byte*>(span.data());
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    if (!entry.in_use || entry.one_copy) continue;
    if (first < entry.base || first + span.size_bytes() > entry.base + entry.bytes) continue;
    const std::ptrdiff_t offset = first - entry.base;
    WindowSpan found{{}, static_cast<Index>(span.size()), (i << 48) + static_cast<std::uint64_t>(offset)};
    for (std::byte* part : entry.window->parts()) found.parts.push_back(reinterpret_cast<float*>(part + offset));
    return found;
  }
  return std::nullopt;
}

void SharedAllocator::free_windows() {
  const std::lock_guard lock(progress_.mutex());
  for (Entry& entry : entries_) entry.window->free();
  entries_.clear();
}

void SharedAllocator::agree_on_size(std::size_t bytes) {
  const auto size = static_cast<std::int64_t>(bytes);
  std::int64_t largest_and_least[] = {size, -size};
  group_.allreduce_max(largest_and_least);
  if (largest_and_least[0] != -largest_and_least[1]) {
    throw CommunicationError(
        fmt::format("the ranks ask for shared memory of different sizes: {} to {} bytes, rank {} for {}",
                    -largest_and_least[1], largest_and_least[0], group_.rank(), size));
  }
}

void SharedAllocator::free_what_none_uses() {
  std::vector<std::int64_t> uses;
  for (const Entry& entry : entries_) uses.push_back(entry.in_use ? 1 : 0);
  group_.allreduce_max(uses);
  const std::lock_guard lock(progress_.mutex());
  for (std::size_t i = 0; i < uses.size(); ++i) {
    if (uses[i] == 0) entries_[i].window->free();
  }
  std::size_t i = 0;
  std::erase_if(entries_, [&](const Entry&) { return uses[i++] == 0; });
}

bool SharedAllocator::all_have_room(std::size_t window_bytes) {
  const auto lack = SharedWindow::lack(window_bytes);
  if (group_.max(lack ? 1 : 0) == 0) return true;
  if (lack && group_.node_rank() == 0 && warn_) {
    constexpr double kMiB = 1 << 20;
    warn_(
        fmt::format("{}: no room for a shared window of {:.1f} MiB ({}): plain memory is used, which is slower; {}, or "
                    "set communication.shared_memory = false",
                    group_.host(), static_cast<double>(window_bytes) / kMiB, lack->what, lack->remedy));
  }
  return false;
}

std::byte* SharedAllocator::make_window(std::size_t part_bytes, std::size_t bytes) {
  const std::lock_guard lock(progress_.mutex());
  auto window = std::make_unique<SharedWindow>(node_, part_bytes);
  std::byte* const base = window->part(0);
  entries_.push_back({.window = std::move(window), .base = base, .bytes = bytes});
  return base;
}

}  // namespace unisono::comm::mpi
