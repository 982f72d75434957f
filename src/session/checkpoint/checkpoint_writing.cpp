#include "checkpoint/checkpoint_writing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <utility>

#include "checkpoint/shared_file.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/raw_file.hpp"

namespace unisono::session {
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

CheckpointWriting::CheckpointWriting(comm::Communicator& group, std::string path, const CheckpointHeader& header,
                                     const StoredVectors& state, Buffer& snapshot,
                                     std::function<void(const std::string& aside)> publish)
    : group_(group), path_(std::move(path)), aside_(path_ + ".tmp"), snapshot_(snapshot), publish_(std::move(publish)) {
  const auto begins = create(header, state);
  const bool shared = all_see(group_, aside_);
  writers_ = shared ? group_.size() : 1;
  if (!shared && std::ranges::any_of(state, &StoredVector::is_divided)) require_none({std::string(kMustBeShared)});
  copy_shards(state, begins);
  try {
    start_writing();
  } catch (...) {
    give_up();
    throw;
  }
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
  const std::string advice = is_gone ? "the file was removed or renamed while the program ran; continue with --resume"
                                     : "earlier checkpoints are intact: free some space and continue with --resume";
  throw OutputError(
      fmt::format("checkpoint {} could not be written: {}; {}", path_, *error, advice_about(path_, advice)));
}

std::vector<std::int64_t> CheckpointWriting::create(const CheckpointHeader& header, const StoredVectors& state) {
  std::vector<std::int64_t> begins;
  const std::string error = error_of([&] {
    if (group_.is_root()) begins = create_checkpoint(aside_, any_number(), header, state);
  });
  require_none({group_.broadcast_text(error)});
  group_.broadcast_vector(begins);
  return begins;
}

void CheckpointWriting::copy_shards(const StoredVectors& state, const std::vector<std::int64_t>& begins) {
  std::size_t floats = 0;
  std::vector<std::size_t> ends;  // ends of the vectors in parts_
  auto begin = begins.begin();    // at the vector's first block
  for (const StoredVector& vector : state) {
    const std::vector<Block>& blocks = vector.layout().blocks();
    for (const Shard& shard : shards_to_write(vector, group_.rank(), writers_)) {
      const auto count = static_cast<std::size_t>(size_of(shard.box));
      parts_.push_back({.block = blocks[shard.block],
                        .shard = shard,
                        .begin = begin[static_cast<std::ptrdiff_t>(shard.block)],
                        .copy = floats,
                        .count = count});
      floats += count;
    }
    begin += static_cast<std::ptrdiff_t>(blocks.size());
    ends.push_back(parts_.size());
  }
  if (snapshot_.size() != static_cast<Index>(floats)) {
    snapshot_ = Buffer();  // frees the old one first, so that never both exist
    snapshot_ = Buffer(static_cast<Index>(floats));
  }
  std::size_t first = 0;
  for (std::size_t i = 0; i < state.size(); ++i) {
    copy_parts(state[i], std::span(parts_).subspan(first, ends[i] - first));
    first = ends[i];
  }
}

void CheckpointWriting::copy_parts(const StoredVector& vector, std::span<const WrittenShard> parts) {
  if (parts.empty()) return;
  PlainValues values(*vector.memory, vector.values);
  for (const WrittenShard& part : parts) pack(part.shard.place, values.view(), copy_of(part));
}

void CheckpointWriting::write_shards() {
  RawFile file(aside_, RawFile::Mode::update);
  for (const WrittenShard& part : parts_) write_box(file, part.block, part.shard.box, part.begin, copy_of(part));
  file.sync();
}

/// Opens the file again, so that this node reads what other nodes have synced to it.
void CheckpointWriting::hash() { hashes_ = hash_segments(aside_, group_.rank(), writers_); }

void CheckpointWriting::seal() {
  seal_file(aside_, hashes_);
  publish_(aside_);
}

void CheckpointWriting::start(Stage stage, const std::function<void()>& work) {
  stage_ = stage;
  const auto task = std::make_shared<std::packaged_task<std::string()>>([work] { return error_of(work); });
  work_ = task->get_future();
  thread_.join();
  thread_.start([task] { (*task)(); });
}

void CheckpointWriting::start_writing() {
  start(Stage::writing, [this] {
    if (group_.rank() >= writers_) return;
    write_shards();
    if (writers_ > 1) return;
    hash();
    seal();
  });
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
  require_none(group_.all_gather_text(work_.get()));
  start_next();
  return stage_ == Stage::finished;
}

void CheckpointWriting::wait_a_little() const {
  if (work_.valid()) work_.wait_for(kLittle);
}

}  // namespace unisono::session
