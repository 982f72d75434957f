#include "checkpoint/checkpoint_contents.hpp"

#include <algorithm>
#include <random>
#include <utility>

#include "checkpoint/checkpoint_pieces.hpp"
#include "unisono/base/raw_file.hpp"

namespace unisono::session {

std::uint64_t any_number() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

StateContents::StateContents(CheckpointHeader header, StoredVectors state, Buffer& snapshot)
    : header_(std::move(header)), state_(std::move(state)), snapshot_(snapshot) {}

void StateContents::create(const std::string& path) {
  begins_ = create_checkpoint(path, any_number(), header_, state_);
}

bool StateContents::is_divided() const { return std::ranges::any_of(state_, &StoredVector::is_divided); }

void StateContents::divide(comm::Communicator& group, int writer, int writers) {
  group.broadcast_vector(begins_);
  parts_.clear();
  std::size_t floats = 0, first_block = 0;
  std::vector<std::size_t> ends;  // ends of the vectors in parts_
  for (const StoredVector& vector : state_) {
    const std::vector<Block>& blocks = vector.layout().blocks();
    for (const Shard& shard : shards_to_write(vector, writer, writers)) {
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

void StateContents::copy_parts(const StoredVector& vector, std::span<const WrittenShard> parts) {
  if (parts.empty()) return;
  PlainValues values(*vector.memory, vector.values);
  for (const WrittenShard& part : parts) pack(part.shard.place, values.view(), copy_of(part));
}

void StateContents::visit(const WriteBytes& write) const {
  for (const WrittenShard& part : parts_)
    write_box(part.block, part.shard.box, begins_[part.number], copy_of(part), write);
}

std::vector<std::byte> StateContents::frame(const std::string& path) const {
  struct Range {
    std::uint64_t begin, end;
  };
  std::vector<Range> values;
  auto begin = begins_.begin();
  for (const StoredVector& vector : state_) {
    for (const Block& block : vector.layout().blocks()) {
      const auto first = static_cast<std::uint64_t>(*begin++);
      values.push_back({first, first + static_cast<std::uint64_t>(block.size()) * sizeof(float)});
    }
  }
  std::ranges::sort(values, {}, &Range::begin);
  const RawFile file(path, RawFile::Mode::read);
  values.push_back({file.size() - kTrailerBytes, file.size()});
  std::vector<std::byte> pieces;
  Packets packets(
      [&](std::span<const std::byte> packet) { pieces.insert(pieces.end(), packet.begin(), packet.end()); });
  std::uint64_t at = 0;
  for (const Range& one : values) {
    if (one.begin > at) {
      std::vector<std::byte> bytes(one.begin - at);
      file.read(at, bytes);
      packets.add(at, bytes);
    }
    at = std::max(at, one.end);
  }
  packets.finish();
  return pieces;
}

}  // namespace unisono::session
