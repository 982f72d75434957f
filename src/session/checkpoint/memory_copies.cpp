#include "checkpoint/memory_copies.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "checkpoint/checkpoint_pieces.hpp"
#include "checkpoint/local_checkpoints.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/local_folder.hpp"
#include "unisono/base/open_file.hpp"
#include "unisono/base/random.hpp"
#include "unisono/base/raw_file.hpp"
#include "unisono/records/run_folder.hpp"

namespace unisono::session {
namespace fs = std::filesystem;

namespace {

constexpr std::string_view kMemory = "/dev/shm", kMemoryKey = "checkpoint.memory_every_steps";
constexpr std::uint64_t kMark = 0x31636d6f73696e75;  // "unisomc1"
constexpr int kSlots = 2;
constexpr std::chrono::hours kForgotten{24};

}  // namespace

/// What a part's file begins with. Its packets follow.
struct PartHeader {
  std::uint64_t mark = 0;  ///< kMark: the part is complete
  std::int64_t step = 0;
  std::uint64_t copy = 0;  ///< a random number of the copy; where each node keeps all, of the node's
  std::int64_t part = 0, parts = 0;
  std::uint64_t file_bytes = 0;  ///< of the checkpoint's file without its trailer
  std::uint64_t end = 0;         ///< where the packets end in this file; each has its size before it
  std::uint64_t hash = 0;        ///< of the packets
};

namespace {

/// Where the copies of a run are on this node.
std::string folder_of(const std::string& id) {
  return fmt::format("{}/unisono-{}/copies/{}", kMemory, ::geteuid(), id);
}

std::string memory_note(const std::string& checkpoints) { return checkpoints + "/memory.txt"; }

/// Writes a run's note. \param step of its first whole copy; −1: there is none yet \return what went wrong; empty:
/// nothing
std::string write_memory_note(const std::string& checkpoints, const std::string& id, std::int64_t step) {
  const std::string text = step < 0 ? id + "\n" : fmt::format("{}\nstep {}\n", id, step);
  return error_of([&] { records::write_text_file(memory_note(checkpoints), text); });
}

/// \return the id of a run's copies; empty: there is no note, or it says something else
std::string noted_id(comm::Communicator& group, const std::string& checkpoints) {
  std::string id;
  if (group.is_root()) std::getline(std::ifstream(memory_note(checkpoints)), id);
  return group.broadcast_text(is_id(id) ? id : "");
}

/// A part while it is written. After an error nothing more is written.
class PartFile {
 public:
  explicit PartFile(const std::string& path) {
    attempt([&] {
      const OpenFile made(::open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
      if (!made.is_open()) throw OutputError(not_writable(path, errno));
      file_ = std::make_unique<RawFile>(path, RawFile::Mode::update);
      const PartHeader unfinished;  // the slot's older part is no longer whole
      file_->write(0, std::as_bytes(std::span(&unfinished, 1)));
    });
  }
  void add(std::span<const std::byte> packet) {
    hash_ = hash_bytes(packet, hash_);
    attempt([&] {
      const std::uint64_t size = packet.size();
      file_->write(end_, std::as_bytes(std::span(&size, 1)));
      file_->write(end_ + sizeof(size), packet);
      end_ += sizeof(size) + size;
    });
  }
  std::uint64_t hash() const { return hash_; }
  /// \return what went wrong; empty: nothing
  std::string finish(PartHeader header) {
    header.end = end_;
    attempt([&] { file_->write(0, std::as_bytes(std::span(&header, 1))); });
    return error_;
  }

 private:
  template <typename Work>
  void attempt(Work work) {
    if (error_.empty()) error_ = error_of(work);
  }

  std::unique_ptr<RawFile> file_;
  std::uint64_t end_ = sizeof(PartHeader), hash_ = 0;
  std::string error_;
};

/// Reads the packets of a part. \throws DataError
void read_packets(const RawFile& file, const PartHeader& header, const Packets::See& see) {
  std::vector<std::byte> packet;
  for (std::uint64_t at = sizeof(PartHeader); at < header.end;) {
    std::uint64_t size = 0;
    file.read(at, comm::bytes_of(size));
    at += sizeof(size);
    if (size > header.end - at) throw DataError("a packet goes beyond the end");
    packet.resize(size);
    file.read(at, packet);
    see(packet);
    at += size;
  }
}

/// The header of a part that is whole, with the hash that it says.
std::optional<PartHeader> whole_part(const std::string& path) {
  try {
    const RawFile file(path, RawFile::Mode::read);
    PartHeader header;
    file.read(0, comm::bytes_of(header));
    if (header.mark != kMark || header.end > file.size() || header.part >= header.parts) return std::nullopt;
    std::uint64_t hash = 0;
    read_packets(file, header, [&hash](std::span<const std::byte> packet) { hash = hash_bytes(packet, hash); });
    return hash == header.hash ? std::optional(header) : std::nullopt;
  } catch (const DataError&) {
    return std::nullopt;
  }
}

/// Parts that ranks find on their nodes, as a checkpoint's file.
class FoundContents final : public CheckpointContents {
 public:
  /// \param paths of the parts that this rank writes \param divided whether other ranks than rank 0 write some
  FoundContents(std::uint64_t file_bytes, std::vector<std::string> paths, bool divided)
      : file_bytes_(file_bytes), paths_(std::move(paths)), divided_(divided) {}

  void create(const std::string& path) override {
    const OpenFile made(::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0666));
    if (!made.is_open() || ::ftruncate(made.get(), static_cast<off_t>(file_bytes_)) != 0)
      throw OutputError(not_writable(path, errno));
    append_open_trailer(path, any_number());
  }
  void divide(comm::Communicator&, int, int) override {}
  bool is_divided() const override { return divided_; }
  void visit(const WriteBytes& write) const override {
    for (const std::string& path : paths_) {
      const RawFile file(path, RawFile::Mode::read);
      PartHeader header;
      file.read(0, comm::bytes_of(header));
      read_packets(file, header, [&](std::span<const std::byte> packet) { for_each_piece(packet, write); });
    }
  }

 private:
  std::uint64_t file_bytes_;
  std::vector<std::string> paths_;
  bool divided_;
};

/// Removes what runs have left on this node to which nobody has come back for a day.
void remove_forgotten() {
  std::error_code ignored;
  for (const auto& run : fs::directory_iterator(fs::path(folder_of("")).parent_path(), ignored)) {
    if (!is_id(run.path().filename())) continue;
    auto newest = fs::last_write_time(run.path(), ignored);
    for (const auto& part : fs::directory_iterator(run.path(), ignored))
      newest = std::max(newest, fs::last_write_time(part.path(), ignored));
    if (fs::file_time_type::clock::now() - newest > kForgotten) fs::remove_all(run.path(), ignored);
  }
}

}  // namespace

void MemoryCopyCounts::describe(CounterVisitor& visitor) {
  const CounterGroup group(visitor, "memory_copies");
  visitor.count({.name = "made"}, made);
}

std::string MemoryCopyCounts::text(const CounterTerms&) const {
  return fmt::format("  copies      {} of the state in the nodes' memory\n", made);
}

MemoryCopies::MemoryCopies(comm::Communicator& group, std::string checkpoints)
    : group_(group), checkpoints_(std::move(checkpoints)) {
  const int nodes = static_cast<int>(group.max(group.node())) + 1;
  if (nodes == 1) return;
  messages_ = group.split(0, group.rank());
  std::vector<std::vector<int>> ranks(static_cast<std::size_t>(nodes));  // of each node
  const auto places = group.all_gather_joined(std::vector<int>{group.node()});
  for (int rank = 0; rank < group.size(); ++rank)
    ranks[static_cast<std::size_t>(places[static_cast<std::size_t>(rank)])].push_back(rank);
  const auto keeper_of = [&](int node, std::size_t number) {
    const auto& next = ranks[static_cast<std::size_t>((node + 1) % nodes)];
    return next[number % next.size()];
  };
  keeper_ = keeper_of(group.node(), static_cast<std::size_t>(group.node_rank()));
  const int before = (group.node() + nodes - 1) % nodes;
  const auto& theirs = ranks[static_cast<std::size_t>(before)];
  for (std::size_t number = 0; number < theirs.size(); ++number) {
    if (keeper_of(before, number) == group.rank()) kept_.push_back(theirs[number]);
  }
}

void MemoryCopies::require_room(const StoredVectors& state) const {
  const bool divided = std::ranges::any_of(state, &StoredVector::is_divided);
  std::int64_t own = 0;
  for (const StoredVector& vector : state) {
    const int writer = divided ? group_.rank() : group_.node_rank();
    for (const Shard& shard : shards_to_write(vector, writer, divided ? group_.size() : group_.node_size()))
      own += size_of(shard.box) * static_cast<std::int64_t>(sizeof(float));
  }
  const auto sizes = group_.all_gather_joined(std::vector<std::int64_t>{own, group_.node()});
  const auto size_of_rank = [&](int rank) { return sizes[2 * static_cast<std::size_t>(rank)]; };
  std::int64_t needed = own;
  if (divided) {
    for (const int other : kept_) needed += size_of_rank(other);
  }
  const auto by_rank = group_.all_gather_joined(std::vector<std::int64_t>{needed});
  needed = 0;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    if (sizes[2 * rank + 1] == group_.node()) needed += kSlots * by_rank[rank];
  }
  struct statvfs disk {};
  std::string wrong;
  if (::statvfs(std::string(kMemory).c_str(), &disk) != 0) {
    wrong = fmt::format("{} has no {}", group_.host(), kMemory);
  } else if (const auto free = static_cast<std::int64_t>(disk.f_bavail * disk.f_frsize); free < needed) {
    wrong = fmt::format("copies take up to {:.0f} MB of {} on {}, where {:.0f} MB are free", 1e-6 * double(needed),
                        kMemory, group_.host(), 1e-6 * double(free));
  }
  wrong = group_.first_text(wrong);
  if (!wrong.empty()) {
    throw ConfigError(fmt::format("{}: {}; enlarge it (in containers, --shm-size), use more nodes, or remove the key",
                                  kMemoryKey, wrong));
  }
}

/// \return what went wrong; empty: nothing; the same on all ranks
std::string MemoryCopies::begin_folder() {
  if (!folder_.empty()) return "";
  forget_memory_copies(group_, checkpoints_);
  std::string error;
  if (group_.is_root()) {
    id_ = new_id();
    error = write_memory_note(checkpoints_, id_, -1);
  }
  id_ = group_.broadcast_text(id_);
  const std::string folder = folder_of(id_);
  if (error.empty()) {
    error = error_of([&] {
      folder_of_user(kMemoryKey, std::string(kMemory));
      for (const std::string& part : {fs::path(folder).parent_path().string(), folder}) {
        if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) throw OutputError(not_writable(part, errno));
      }
    });
  }
  if (group_.node_rank() == 0) remove_forgotten();
  folder_ = folder;
  return group_.first_text(error);
}

std::string MemoryCopies::path_of(int part) const {
  return fmt::format("{}/{}-rank-{}-part-{}-{}", folder_, group_.host(), group_.rank(), part, slot_);
}

void MemoryCopies::write(const CheckpointHeader& header, const StoredVectors& state) {
  finish();
  if (given_up_) return;
  step_ = header.step;
  slot_ = (slot_ + 1) % kSlots;
  std::string error = begin_folder();
  auto contents = std::make_unique<StateContents>(header, state, snapshot_);
  divided_ = contents->is_divided();
  std::vector<std::byte> frame;
  std::array<std::uint64_t, 2> numbers = {any_number(), 0};
  if (group_.is_root() && error.empty()) {
    const std::string whole = path_of(0) + ".h5";
    error = error_of([&] {
      contents->create(whole);
      frame = contents->frame(whole);
      numbers[1] = fs::file_size(whole) - kTrailerBytes;
    });
    std::error_code ignored;
    fs::remove(whole, ignored);
  }
  error = group_.broadcast_text(error);
  if (!error.empty()) return give_up(error);
  group_.broadcast(std::as_writable_bytes(std::span(numbers)), 0);
  if (!divided_) group_.broadcast_vector(frame);
  PartHeader part{.mark = kMark, .step = step_, .copy = numbers[0], .part = group_.rank(), .parts = group_.size()};
  if (!divided_) {
    part.copy += static_cast<std::uint64_t>(group_.node());
    part.part = group_.node_rank();
    part.parts = group_.node_size();
  }
  part.file_bytes = numbers[1];
  contents->divide(group_, static_cast<int>(part.part), static_cast<int>(part.parts));
  contents_ = std::move(contents);
  errors_.clear();
  start([this, part, frame = part.part == 0 ? std::move(frame) : std::vector<std::byte>()] {
    return keep_own(part, frame);
  });
  if (divided_ && !kept_.empty()) start([this] { return keep_others(); });
}

void MemoryCopies::start(std::function<std::string()> work) {
  const auto task = std::make_shared<std::packaged_task<std::string()>>([work = std::move(work)] {
    std::string error;
    const std::string thrown = error_of([&] { error = work(); });
    return thrown.empty() ? error : thrown;
  });
  work_.push_back(task->get_future());
  threads_.start([task] { (*task)(); });
}

std::string MemoryCopies::keep_own(PartHeader header, const std::vector<std::byte>& frame) const {
  const bool passes_on = divided_ && keeper_ >= 0;
  PartFile file(path_of(static_cast<int>(header.part)));
  Packets packets([&](std::span<const std::byte> packet) {
    file.add(packet);
    if (passes_on) send_packet(*messages_, packet, keeper_);
  });
  const WriteBytes add = [&](std::uint64_t at, std::span<const std::byte> bytes) { packets.add(at, bytes); };
  for_each_piece(frame, add);
  contents_->visit(add);
  packets.finish();
  header.hash = file.hash();
  if (passes_on) {
    send_packet(*messages_, {}, keeper_);
    send_packet(*messages_, comm::bytes_of(header), keeper_);
  }
  return file.finish(header);
}

std::string MemoryCopies::keep_others() const {
  std::string error;
  for (const int other : kept_) {
    PartFile file(path_of(other));
    for (auto packet = receive_packet(*messages_, other); !packet.empty(); packet = receive_packet(*messages_, other))
      file.add(packet);
    PartHeader header;
    std::memcpy(&header, receive_packet(*messages_, other).data(), sizeof(header));
    const std::string wrong = file.finish(header);
    if (error.empty()) error = wrong;
  }
  return error;
}

void MemoryCopies::advance() {
  if (!is_writing()) return;
  std::erase_if(work_, [this](std::future<std::string>& one) {
    if (one.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return false;
    if (std::string error = one.get(); !error.empty()) errors_.push_back(std::move(error));
    return true;
  });
  if (group_.max(work_.empty() ? 0 : 1) != 0) return;
  threads_.join();
  contents_.reset();
  std::string error = errors_.empty() ? "" : errors_.front();
  if (newest_ < 0 && error.empty() && group_.is_root()) error = write_memory_note(checkpoints_, id_, step_);
  error = group_.first_text(error);
  if (!error.empty()) return give_up(error);
  newest_ = step_;
  ++made_;
}

void MemoryCopies::finish() {
  constexpr std::chrono::milliseconds kLittle{20};
  while (is_writing()) {
    if (!work_.empty()) work_.front().wait_for(kLittle);
    advance();
  }
}

void MemoryCopies::give_up(const std::string& error) {
  given_up_ = true;
  failure_ = error;
  remove();
}

void MemoryCopies::remove() {
  newest_ = -1;
  if (folder_.empty()) return;
  forget_memory_copies(group_, checkpoints_);
  folder_.clear();
}

FoundCopy find_memory_copy(comm::Communicator& group, const std::string& checkpoints) {
  /// A part that a rank has found.
  struct FoundPart {
    std::int64_t step;
    std::uint64_t copy;
    std::int64_t part, parts;
    std::uint64_t file_bytes;
    std::int64_t rank;
    auto key() const { return std::tuple(step, copy); }
  };
  FoundCopy found{.id = noted_id(group, checkpoints)};
  if (found.id.empty()) return found;
  std::vector<FoundPart> own;
  std::map<std::tuple<std::int64_t, std::uint64_t, std::int64_t>, std::string> paths;
  if (group.node_rank() == 0) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder_of(found.id), ignored)) {
      const auto header = whole_part(entry.path());
      if (!header || !paths.try_emplace({header->step, header->copy, header->part}, entry.path()).second) continue;
      own.push_back({header->step, header->copy, header->part, header->parts, header->file_bytes, group.rank()});
    }
  }
  std::vector<FoundPart> all = group.all_gather_joined(own);
  for (const FoundPart& one : all) found.newest_part = std::max(found.newest_part, one.step);
  // The newest copy first, and of each part the rank that comes first.
  std::ranges::stable_sort(all, [](const FoundPart& a, const FoundPart& b) {
    return std::tuple(b.key(), a.part, a.rank) < std::tuple(a.key(), b.part, b.rank);
  });
  for (auto first = all.begin(); first != all.end();) {
    const auto end = std::find_if(first, all.end(), [&](const FoundPart& one) { return one.key() != first->key(); });
    std::vector<FoundPart> parts;
    std::unique_copy(first, end, std::back_inserter(parts),
                     [](const FoundPart& a, const FoundPart& b) { return a.part == b.part; });
    if (std::ssize(parts) == first->parts) {
      std::vector<std::string> mine;
      for (const FoundPart& one : parts) {
        if (one.rank == group.rank()) mine.push_back(paths.at({one.step, one.copy, one.part}));
      }
      const bool divided = std::ranges::any_of(parts, [](const FoundPart& one) { return one.rank != 0; });
      found.step = first->step;
      found.contents = std::make_unique<FoundContents>(first->file_bytes, std::move(mine), divided);
      return found;
    }
    first = end;
  }
  return found;
}

void forget_memory_copies(comm::Communicator& group, const std::string& checkpoints) {
  const std::string id = noted_id(group, checkpoints);
  if (id.empty()) return;
  std::error_code ignored;
  if (group.node_rank() == 0) fs::remove_all(folder_of(id), ignored);
  if (group.is_root()) fs::remove(memory_note(checkpoints), ignored);
}

}  // namespace unisono::session
