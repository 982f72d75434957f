#include "checkpoint/checkpoint_store.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <utility>

#include "unisono/base/errors.hpp"
#include "unisono/base/raw_file.hpp"

namespace unisono::session {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAside = ".tmp";

std::string name_of_step(std::int64_t step) { return fmt::format("step-{:09}.h5", step); }

void make_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw OutputError(
        fmt::format("{}: cannot be created: {}; choose another folder with --output", folder, error.message()));
  }
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    std::error_code ignored;
    if (entry.path().string().ends_with(kAside)) fs::remove(entry.path(), ignored);
  }
}

}  // namespace

CheckpointStore::CheckpointStore(comm::Communicator& group, std::string folder,
                                 const settings::CheckpointSettings& settings)
    : group_(group), folder_(std::move(folder)), settings_(settings) {
  if (group_.is_root()) make_folder(folder_);
}

void CheckpointStore::write(const CheckpointHeader& header, const StoredVectors& state, bool best) {
  finish();
  const std::string path = (fs::path(folder_) / name_of_step(header.step)).string();
  writing_.emplace(group_, path, header, state, snapshot_,
                   [this, path, best](const std::string& aside) { publish(aside, path, best); });
}

void CheckpointStore::advance() {
  if (writing_ && writing_->advance()) writing_.reset();
}

void CheckpointStore::finish() {
  while (writing_) {
    writing_->wait_a_little();
    advance();
  }
}

void CheckpointStore::publish(const std::string& aside, const std::string& path, bool best) const {
  sync_and_rename(aside, path);
  if (best) link_file(path, this->best());
  remove_old(path);
}

/// Checkpoints of later steps than the one just written are damaged ones, from which the run was not resumed: they are
/// removed, too.
void CheckpointStore::remove_old(const std::string& written) const {
  auto paths = checkpoints_in(folder_);
  std::erase_if(paths, [](const std::string& path) { return path.ends_with("best.h5"); });
  const auto last = std::find(paths.begin(), paths.end(), written);
  for (auto path = paths.begin(); path != paths.end(); ++path) {
    if (path >= last && path - last < settings_.keep) continue;
    std::error_code ignored;  // a checkpoint that cannot be removed does no harm
    fs::remove(*path, ignored);
  }
}

std::string CheckpointStore::best() const { return (fs::path(folder_) / "best.h5").string(); }

void CheckpointStore::go_back_to_best(std::int64_t step) {
  finish();
  if (group_.is_root()) {
    const std::string path = (fs::path(folder_) / name_of_step(step)).string();
    std::error_code ignored;
    if (!fs::exists(path, ignored)) link_file(best(), path);
    remove_old(path);
  }
  group_.barrier();
}

std::optional<StoredCheckpoint> CheckpointStore::newest(Log& log) const {
  std::vector<std::string> damaged;
  auto found = newest_whole(group_, folder_, log, damaged);
  if (found || damaged.empty()) return found;
  throw CheckpointError(fmt::format(
      "{}: all {} checkpoints are damaged ({}); start over with --overwrite, or restore a checkpoint from a backup",
      folder_, damaged.size(), fmt::join(damaged, "; ")));
}

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
  const auto parts = group.all_gather_vectors(own);
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
  const std::string advice =
      is_gone ? "the file was removed or renamed while the program ran; continue with --resume"
              : "earlier checkpoints are intact: " + advice_on(*error) + " and continue with --resume";
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
