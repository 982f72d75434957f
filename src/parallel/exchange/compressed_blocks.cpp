#include <algorithm>

#include "unisono/parallel/compressed_sum.hpp"
#include "unisono/parallel/counters.hpp"

namespace unisono::parallel {

std::vector<bool> blocks_to_compress(const ParameterLayout& layout, const std::vector<std::string>& exact) {
  std::vector<bool> compressed;
  for (const Block& block : layout.blocks()) compressed.push_back(block.role == Role::weight);
  for (const std::string& pattern : exact) {
    for (const std::size_t i : layout.matching(pattern)) compressed[i] = false;
  }
  return compressed;
}

CompressedBlocks divide_blocks(const ParameterLayout& layout, const std::vector<bool>& compressed) {
  CompressedBlocks result;
  Index end = 0;  // of what has a place already
  const auto leave_out = [&](Index last) {
    if (end < last) result.unsent.push_back({end, last});
  };
  for (std::size_t i = 0; i < compressed.size(); ++i) {
    const Block& block = layout.blocks()[i];
    if (block.frozen) continue;
    leave_out(block.offset);
    end = block.offset + block.stored_size();
    (compressed[i] ? result.compressed : result.exact).push_back({block.offset, end});
  }
  leave_out(layout.size());
  return result;
}

Index size_of(const std::vector<FloatRange>& ranges) {
  Index size = 0;
  for (const FloatRange& range : ranges) size += range.last - range.first;
  return size;
}

FloatRange common_part(const FloatRange& range, const FloatRange& other) {
  const Index first = std::max(range.first, other.first);
  return {first, std::max(first, std::min(range.last, other.last))};
}

void pack(View vector, const std::vector<FloatRange>& ranges, MutableView packed) {
  auto* to = packed.data();
  for (const FloatRange& range : ranges) to = std::ranges::copy(part(vector, range), to).out;
}

void unpack(View packed, const std::vector<FloatRange>& ranges, MutableView vector) {
  const auto* from = packed.data();
  for (const FloatRange& range : ranges) {
    std::copy_n(from, range.last - range.first, part(vector, range).begin());
    from += range.last - range.first;
  }
}

namespace {

constexpr Index kPiece = Index{1} << 20;  // floats that are encoded at a time
constexpr int kSumBits = 24;              // numbers of the sums of a step

}  // namespace

CompressedChanges::CompressedChanges(StepTerms& run, const CompressionSettings& settings)
    : run_(run), encoder_(make_encoder(settings)), sum_(make_encoded_sum(run.communicator, *encoder_)) {
  run.counters.of<CompressionCounters>() = {};
}

void CompressedChanges::begin_step(std::int64_t step) { place_ = static_cast<std::uint64_t>(step) << kSumBits; }

void CompressedChanges::sum(MutableView changes, MutableView rest) {
  run_.backend.axpby(1, changes, 1, rest);
  const Index size = std::ssize(changes);
  for (Index first = 0; first < size; first += kPiece) {
    const FloatRange piece{first, std::min(size, first + kPiece)};
    sum_->sum(*encoder_, part(rest, piece), part(changes, piece), {.step = place_++, .first = first});
  }
  auto& counters = run_.counters.of<CompressionCounters>();
  counters.sent_bytes = sum_->sent_bytes();
  counters.plain_bytes += plain_sum_bytes(size, run_.communicator.size());
}

}  // namespace unisono::parallel
