#include "checkpoint/checkpoint_writing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>

#include "checkpoint/checkpoint_folder.hpp"
#include "unisono/base/raw_file.hpp"

namespace unisono::session {
namespace {

/// The hashes of this rank's segments; none if the file cannot be read, so that the seal does not match.
std::vector<std::uint64_t> hash_what_can_be_read(const std::string& path, int reader, int readers) {
  try {
    if (reader < readers) return hash_segments(path, reader, readers);
  } catch (const DataError&) {
  }
  return {};
}

}  // namespace

bool all_see(comm::Communicator& group, const std::string& path) {
  const std::string mine = seal_fingerprint(path), roots = group.broadcast_text(mine);
  return group.max(static_cast<std::int64_t>(mine.empty() || mine != roots)) == 0;
}

std::vector<std::uint64_t> gather_hashes(comm::Communicator& group, const std::vector<std::uint64_t>& own,
                                         int readers) {
  auto parts = group.all_gather_vectors(own);
  std::erase_if(parts, [](const auto& part) { return part.empty(); });  // no reader, or one of a short file
  parts.resize(static_cast<std::size_t>(readers));
  std::size_t count = 0;
  for (const auto& part : parts) count += part.size();
  std::vector<std::uint64_t> hashes(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto& part = parts[i % static_cast<std::size_t>(readers)];
    const std::size_t at = i / static_cast<std::size_t>(readers);
    if (at < part.size()) hashes[i] = part[at];
  }
  return hashes;
}

std::string broken_seal(comm::Communicator& group, const std::string& path, int readers) {
  std::string missing = group.broadcast_text(group.is_root() ? missing_seal(path) : "");
  if (!missing.empty()) return missing;
  const auto hashes = gather_hashes(group, hash_what_can_be_read(path, group.rank(), readers), readers);
  const bool fits = !group.is_root() || fits_seal(path, hashes);
  return group.max(static_cast<std::int64_t>(!fits)) == 0
             ? ""
             : path + " is damaged: its checksum does not match its contents";
}

namespace {

constexpr std::chrono::milliseconds kLittle{100};

/// Runs `work`. \return its error message; empty if it did not throw
template <typename Work>
std::string error_of(Work work) {
  try {
    work();
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::uint64_t any_number() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

}  // namespace

CheckpointWriting::CheckpointWriting(comm::Communicator& group, CheckpointTarget target, const CheckpointHeader& header,
                                     const StoredVectors& state, Buffer& snapshot)
    : group_(group),
      target_(std::move(target)),
      aside_(target_.path + std::string(kUnfinished)),
      header_(header),
      state_(state),
      snapshot_(snapshot) {
  create();
  find_writers();
  copy_shards();
  start_writing();
}

void CheckpointWriting::start_again(CheckpointTarget target) {
  target_ = std::move(target);
  aside_ = target_.path + std::string(kUnfinished);
  create();
  find_writers();
  start_writing();
}

CheckpointWriting::~CheckpointWriting() {
  thread_.join();
  if (stage_ != Stage::finished) give_up();
}

void CheckpointWriting::give_up() {
  stage_ = Stage::finished;
  std::error_code ignored;
  if (group_.is_root()) std::filesystem::remove(aside_, ignored);
}

void CheckpointWriting::require_none(const std::vector<std::string>& errors) {
  const auto error = std::find_if(errors.begin(), errors.end(), [](const auto& text) { return !text.empty(); });
  if (error == errors.end()) return;
  give_up();
  const bool is_gone = error->find(std::strerror(ENOENT)) != std::string::npos;
  const std::string advice =
      is_gone ? "the file was removed or renamed while the program ran; continue with --resume"
              : "earlier checkpoints are intact: " + advice_on(*error) + " and continue with --resume";
  throw FailedWriting(fmt::format("checkpoint {} could not be written: {}; {}", target_.path, *error,
                                  advice_about(target_.path, advice)),
                      *error);
}

void CheckpointWriting::create() {
  begins_.clear();
  const std::string error = error_of([&] {
    if (group_.is_root()) begins_ = create_checkpoint(aside_, any_number(), header_, state_);
  });
  require_none({group_.broadcast_text(error)});
  group_.broadcast_vector(begins_);
}

void CheckpointWriting::find_writers() {
  const std::string mine = target_.local && group_.node() != 0 ? "" : seal_fingerprint(aside_);
  const std::string roots = group_.broadcast_text(mine);
  const auto seen = group_.all_gather_joined(std::vector<std::int64_t>{!mine.empty() && mine == roots ? 1 : 0});
  writers_.clear();
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (rank == 0 || seen[static_cast<std::size_t>(rank)] == 1) writers_.push_back(rank);
  }
  if (std::ssize(writers_) < group_.size() && target_.messages == nullptr) {
    writers_ = {0};
    if (std::ranges::any_of(state_, &StoredVector::is_divided)) require_none({std::string(kMustBeShared)});
  }
  writer_ = static_cast<int>(std::ranges::find(writers_, group_.rank()) - writers_.begin());
}

void CheckpointWriting::copy_shards() {
  std::size_t floats = 0, first_block = 0;
  std::vector<std::size_t> ends;  // ends of the vectors in parts_
  for (const StoredVector& vector : state_) {
    const std::vector<Block>& blocks = vector.layout().blocks();
    for (const Shard& shard : shards_to_write(vector, writer_, static_cast<int>(writers_.size()))) {
      const auto count = static_cast<std::size_t>(size_of(shard.box));
      parts_.push_back({.block = blocks[shard.block],
                        .shard = shard,
                        .number = first_block + shard.block,
                        .copy = floats,
                        .count = count});
      floats += count;
    }
    first_block += blocks.size();
    ends.push_back(parts_.size());
  }
  if (snapshot_.size() != static_cast<Index>(floats)) {
    snapshot_ = Buffer();  // frees the old one first, so that never both exist
    snapshot_ = Buffer(static_cast<Index>(floats));
  }
  std::size_t first = 0;
  for (std::size_t i = 0; i < state_.size(); ++i) {
    copy_parts(state_[i], std::span(parts_).subspan(first, ends[i] - first));
    first = ends[i];
  }
}

void CheckpointWriting::copy_parts(const StoredVector& vector, std::span<const WrittenShard> parts) {
  if (parts.empty()) return;
  PlainValues values(*vector.memory, vector.values);
  for (const WrittenShard& part : parts) pack(part.shard.place, values.view(), copy_of(part));
}

void CheckpointWriting::visit_shards(const WriteBytes& write) {
  for (const WrittenShard& part : parts_)
    write_box(part.block, part.shard.box, begins_[part.number], copy_of(part), write);
}

void CheckpointWriting::write_shards() {
  if (group_.is_root() && std::ssize(writers_) < group_.size() && target_.messages != nullptr) receive_shards();
  RawFile file(aside_, RawFile::Mode::update);
  visit_shards([&file](std::uint64_t at, std::span<const std::byte> bytes) { file.write(at, bytes); });
  file.sync();
}

// Ranks that do not see the file send packets of pieces: the packet's size (0: the last one has been sent), then for
// each piece its PieceHeader and its bytes.
namespace {

constexpr std::size_t kPacketBytes = 1 << 20;
constexpr int kPacketSizeTag = 0, kPacketTag = 1;

struct PieceHeader {
  std::uint64_t at = 0, bytes = 0;  ///< place in the file, length
};

/// Waits for a message, asleep: the rank trains meanwhile.
void wait_asleep(comm::Communicator& messages, comm::RequestPtr request) {
  comm::Request* const one[] = {request.get()};
  messages.wait_any(one, [] { return false; });
  request->wait();
}

class PacketSender {
 public:
  explicit PacketSender(comm::Communicator& messages) : messages_(messages) {}

  void add(std::uint64_t at, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      if (packet_.size() + sizeof(PieceHeader) >= kPacketBytes) send();
      const std::size_t room = kPacketBytes - packet_.size() - sizeof(PieceHeader);
      const auto piece = bytes.first(std::min(bytes.size(), room));
      PieceHeader header{at, piece.size()};
      const auto bytes_of_header = comm::bytes_of(header);
      packet_.insert(packet_.end(), bytes_of_header.begin(), bytes_of_header.end());
      packet_.insert(packet_.end(), piece.begin(), piece.end());
      bytes = bytes.subspan(piece.size());
      at += piece.size();
    }
  }
  void finish() {
    if (!packet_.empty()) send();
    send();
  }

 private:
  /// An empty packet is only its size.
  void send() {
    std::uint64_t size = packet_.size();
    wait_asleep(messages_, messages_.start_send(comm::bytes_of(size), 0, kPacketSizeTag));
    if (size > 0) wait_asleep(messages_, messages_.start_send(packet_, 0, kPacketTag));
    packet_.clear();
  }

  comm::Communicator& messages_;
  std::vector<std::byte> packet_;
};

/// \return empty: the rank has sent all
std::vector<std::byte> receive_packet(comm::Communicator& messages, int rank) {
  std::uint64_t size = 0;
  wait_asleep(messages, messages.start_receive(comm::bytes_of(size), rank, kPacketSizeTag));
  std::vector<std::byte> packet(size);
  if (size > 0) wait_asleep(messages, messages.start_receive(packet, rank, kPacketTag));
  return packet;
}

void write_packet(RawFile& file, std::span<const std::byte> packet) {
  while (!packet.empty()) {
    PieceHeader header;
    std::memcpy(&header, packet.data(), sizeof(header));
    file.write(header.at, packet.subspan(sizeof(header), header.bytes));
    packet = packet.subspan(sizeof(header) + header.bytes);
  }
}

}  // namespace

void CheckpointWriting::send_shards() {
  PacketSender sender(*target_.messages);
  visit_shards([&sender](std::uint64_t at, std::span<const std::byte> bytes) { sender.add(at, bytes); });
  sender.finish();
}

/// In turn from each rank, so that none waits long. After an error the rest is received nevertheless: the senders wait.
void CheckpointWriting::receive_shards() {
  std::vector<int> senders;
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (std::ranges::find(writers_, rank) == writers_.end()) senders.push_back(rank);
  }
  std::optional<RawFile> file;
  std::exception_ptr failure;
  const auto take_packet = [&](int rank) {
    const std::vector<std::byte> packet = receive_packet(*target_.messages, rank);
    try {
      if (!file && !failure) file.emplace(aside_, RawFile::Mode::update);
      if (!failure) write_packet(*file, packet);
    } catch (const OutputError&) {
      failure = std::current_exception();
    }
    return packet.empty();
  };
  while (!senders.empty()) std::erase_if(senders, take_packet);
  if (failure) std::rethrow_exception(failure);
}

/// Opens the file again, so that this node reads what other nodes have synced to it.
void CheckpointWriting::hash() {
  if (is_writer()) hashes_ = hash_segments(aside_, writer_, static_cast<int>(writers_.size()));
}

void CheckpointWriting::seal() {
  seal_file(aside_, hashes_);
  target_.publish(aside_);
}

void CheckpointWriting::start(Stage stage, const std::function<void()>& work) {
  stage_ = stage;
  const auto task = std::make_shared<std::packaged_task<std::string()>>([work] { return error_of(work); });
  work_ = task->get_future();
  thread_.join();
  if (!target_.in_background) return (*task)();
  thread_.start([task] { (*task)(); });
}

void CheckpointWriting::start_writing() {
  hashes_.clear();
  try {
    start(Stage::writing, [this] {
      if (!is_writer()) {
        if (target_.messages != nullptr) send_shards();
        return;
      }
      write_shards();
      if (writers_.size() > 1) return;
      hash();
      seal();
    });
  } catch (...) {
    give_up();
    throw;
  }
}

void CheckpointWriting::start_next() {
  if (stage_ == Stage::sealing || writers_.size() == 1) {
    stage_ = Stage::finished;
  } else if (stage_ == Stage::writing) {
    start(Stage::hashing, [this] { hash(); });
  } else {
    hashes_ = gather_hashes(group_, hashes_, static_cast<int>(writers_.size()));
    start(Stage::sealing, [this] {
      if (group_.is_root()) seal();
    });
  }
}

bool CheckpointWriting::advance() {
  if (stage_ == Stage::finished) return true;
  const bool busy = work_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
  if (group_.max(static_cast<std::int64_t>(busy)) != 0) return false;
  require_none(group_.all_gather_text(work_.get()));
  start_next();
  return stage_ == Stage::finished;
}

void CheckpointWriting::wait_a_little() const {
  if (work_.valid()) work_.wait_for(kLittle);
}

}  // namespace unisono::session
