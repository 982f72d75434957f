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

#include "checkpoint/checkpoint_folder.hpp"
#include "checkpoint/checkpoint_pieces.hpp"
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
  const std::vector<std::uint64_t> joined = group.gather_joined(own);
  const std::size_t count = joined.size(), stride = static_cast<std::size_t>(readers);
  std::vector<std::uint64_t> hashes(count);
  auto next = joined.begin();
  for (std::size_t reader = 0; reader < stride; ++reader) {
    for (std::size_t segment = reader; segment < count; segment += stride) hashes[segment] = *next++;
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

}  // namespace

CheckpointWriting::CheckpointWriting(comm::Communicator& group, CheckpointTarget target,
                                     std::unique_ptr<CheckpointContents> contents)
    : group_(group),
      target_(std::move(target)),
      aside_(target_.path + std::string(kUnfinished)),
      contents_(std::move(contents)) {
  create();
  find_writers();
  contents_->divide(group_, writer_, writers_);
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

void CheckpointWriting::require_none(const std::string& error) {
  if (error.empty()) return;
  give_up();
  const bool is_gone = error.find(std::strerror(ENOENT)) != std::string::npos;
  const std::string advice =
      is_gone ? "the file was removed or renamed while the program ran; continue with --resume"
              : "earlier checkpoints are intact: " + advice_on(error) + " and continue with --resume";
  throw FailedWriting(fmt::format("checkpoint {} could not be written: {}; {}", target_.path, error,
                                  advice_about(target_.path, advice)),
                      error);
}

void CheckpointWriting::create() {
  const std::string error = error_of([&] {
    if (group_.is_root()) contents_->create(aside_);
  });
  require_none(group_.broadcast_text(error));
}

void CheckpointWriting::find_writers() {
  const std::string mine = target_.local && group_.node() != 0 ? "" : seal_fingerprint(aside_);
  const std::string roots = group_.broadcast_text(mine);
  const bool writes = group_.is_root() || (!mine.empty() && mine == roots);
  writers_ = static_cast<int>(group_.sum(std::int64_t{writes ? 1 : 0}));
  writer_ = group_.rank();
  senders_.clear();
  if (writers_ == group_.size()) return;
  if (target_.messages == nullptr) {
    writers_ = 1;
    writer_ = group_.is_root() ? 0 : 1;
    if (contents_->is_divided()) require_none(std::string(kMustBeShared));
    return;
  }
  const auto all = group_.all_gather_joined(std::vector<int>{writes ? 1 : 0});
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (all[static_cast<std::size_t>(rank)] == 0) senders_.push_back(rank);
  }
  const auto before = std::ranges::lower_bound(senders_, group_.rank()) - senders_.begin();
  writer_ = writes ? group_.rank() - static_cast<int>(before) : writers_;
}

void CheckpointWriting::write_shards() {
  if (group_.is_root() && !senders_.empty()) receive_shards();
  RawFile file(aside_, RawFile::Mode::update);
  contents_->visit([&file](std::uint64_t at, std::span<const std::byte> bytes) { file.write(at, bytes); });
  file.sync();
}

/// From a rank that does not see the file.
void CheckpointWriting::send_shards() {
  Packets packets([this](std::span<const std::byte> packet) { send_packet(*target_.messages, packet, 0); });
  contents_->visit([&](std::uint64_t at, std::span<const std::byte> bytes) { packets.add(at, bytes); });
  packets.finish();
  send_packet(*target_.messages, {}, 0);
}

/// In turn from each rank, so that none waits long. After an error the rest is received nevertheless: the senders wait.
void CheckpointWriting::receive_shards() {
  std::vector<int> senders = senders_;
  std::optional<RawFile> file;
  std::exception_ptr failure;
  const auto take_packet = [&](int rank) {
    const std::vector<std::byte> packet = receive_packet(*target_.messages, rank);
    try {
      if (!file && !failure) file.emplace(aside_, RawFile::Mode::update);
      if (!failure) {
        for_each_piece(packet, [&file](std::uint64_t at, std::span<const std::byte> bytes) { file->write(at, bytes); });
      }
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
  if (is_writer()) hashes_ = hash_segments(aside_, writer_, writers_);
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
      if (writers_ > 1) return;
      hash();
      seal();
    });
  } catch (...) {
    give_up();
    throw;
  }
}

void CheckpointWriting::start_next() {
  if (stage_ == Stage::sealing || writers_ == 1) {
    stage_ = Stage::finished;
  } else if (stage_ == Stage::writing) {
    start(Stage::hashing, [this] { hash(); });
  } else {
    hashes_ = gather_hashes(group_, hashes_, writers_);
    start(Stage::sealing, [this] {
      if (group_.is_root()) seal();
    });
  }
}

bool CheckpointWriting::advance() {
  if (stage_ == Stage::finished) return true;
  const bool busy = work_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
  if (group_.max(static_cast<std::int64_t>(busy)) != 0) return false;
  require_none(group_.first_text(work_.get()));
  start_next();
  return stage_ == Stage::finished;
}

void CheckpointWriting::wait_a_little() const {
  if (work_.valid()) work_.wait_for(kLittle);
}

}  // namespace unisono::session
