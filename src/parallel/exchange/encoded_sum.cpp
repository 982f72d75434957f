#include <algorithm>
#include <cassert>
#include <vector>

#include "unisono/parallel/compressed_sum.hpp"
#include "unisono/parallel/counters.hpp"
#include "unisono/tensor/layout.hpp"

namespace unisono::parallel {
namespace {

constexpr int kLengthTag = 8, kMessageTag = 9;

class GatheredSum final : public EncodedSum {
 public:
  using EncodedSum::EncodedSum;
  void sum(kernels::Encoder& encoder, MutableView values, MutableView sum, kernels::EncodingPlace place) override;

 private:
  void exchange();
  /// Makes room for a message, aligned for words of 8 bytes.
  static std::span<std::byte> room(std::vector<std::uint64_t>& words, std::int64_t bytes) {
    words.resize(static_cast<std::size_t>((bytes + 7) / 8));
    return std::as_writable_bytes(std::span(words)).first(static_cast<std::size_t>(bytes));
  }

  std::vector<std::vector<std::uint64_t>> memory_;  ///< of each rank's message
  std::vector<std::int64_t> lengths_;               ///< in bytes
  std::vector<std::span<std::byte>> messages_;
};

void GatheredSum::sum(kernels::Encoder& encoder, MutableView values, MutableView sum, kernels::EncodingPlace place) {
  const auto own = static_cast<std::size_t>(ranks_.rank()), size = static_cast<std::size_t>(ranks_.size());
  memory_.resize(size);
  lengths_.resize(size);
  messages_.resize(size);
  place.sender = static_cast<std::uint32_t>(own);
  const std::span<std::byte> message = room(memory_[own], encoder.most_bytes(std::ssize(values)));
  lengths_[own] = encoder.encode(values, place, message);
  messages_[own] = message.first(static_cast<std::size_t>(lengths_[own]));
  exchange();
  std::ranges::fill(sum, -0.0F);
  for (const std::span<std::byte> one : messages_) encoder.add(one, sum);
}

void GatheredSum::exchange() {
  const auto own = static_cast<std::size_t>(ranks_.rank());
  std::vector<comm::RequestPtr> sends, lengths, messages;
  for (int peer = 0; peer < ranks_.size(); ++peer) {
    if (peer == ranks_.rank()) continue;
    const auto theirs = static_cast<std::size_t>(peer);
    lengths.push_back(
        ranks_.start_receive(std::as_writable_bytes(std::span(lengths_).subspan(theirs, 1)), peer, kLengthTag));
    sends.push_back(start_send(std::as_bytes(std::span(lengths_).subspan(own, 1)), peer, kLengthTag));
    sends.push_back(start_send(messages_[own], peer, kMessageTag));
  }
  wait(lengths);
  for (int peer = 0; peer < ranks_.size(); ++peer) {
    if (peer == ranks_.rank()) continue;
    const auto theirs = static_cast<std::size_t>(peer);
    messages_[theirs] = room(memory_[theirs], lengths_[theirs]);
    messages.push_back(ranks_.start_receive(messages_[theirs], peer, kMessageTag));
  }
  wait(messages);
  wait(sends);
}

}  // namespace

std::unique_ptr<EncodedSum> make_gathered_sum(comm::Communicator& ranks) {
  return std::make_unique<GatheredSum>(ranks);
}

namespace {

constexpr int kPartTag = 8, kSumTag = 9;
constexpr std::uint32_t kOfSums = 1U << 31;  ///< marks a sender that encodes a sum

/// Whole blocks of a vector: what one rank adds up.
struct EncodedSlice {
  FloatRange floats;
  Index first_byte = 0, bytes = 0;  ///< in a message of the whole vector
};

class SlicedSum final : public EncodedSum {
 public:
  using EncodedSum::EncodedSum;
  void sum(kernels::Encoder& encoder, MutableView values, MutableView sum, kernels::EncodingPlace place) override;

 private:
  EncodedSlice slice(const kernels::Encoder& encoder, Index n, int rank) const;
  std::span<std::byte> message_of(const EncodedSlice& slice) {
    return std::as_writable_bytes(std::span(message_))
        .subspan(static_cast<std::size_t>(slice.first_byte), static_cast<std::size_t>(slice.bytes));
  }
  std::span<std::byte> part_from(int rank, const EncodedSlice& own);
  template <typename Sent, typename Received>
  void exchange(int tag, const Sent& sent_to, const Received& received_from);

  std::vector<std::uint64_t> message_;  ///< first of this rank's values, then of the sums
  std::vector<std::uint64_t> parts_;    ///< what each rank says about this rank's slice
  std::vector<float> left_;             ///< of this rank's slice of the sum
};

EncodedSlice SlicedSum::slice(const kernels::Encoder& encoder, Index n, int rank) const {
  const Index blocks = (n + kernels::kEncodedBlock - 1) / kernels::kEncodedBlock;
  const comm::Slice own = comm::slice_of(blocks, rank, ranks_.size());
  EncodedSlice slice{
      .floats = {std::min(n, own.first * kernels::kEncodedBlock), std::min(n, own.last * kernels::kEncodedBlock)}};
  slice.first_byte = encoder.most_bytes(slice.floats.first);
  slice.bytes = encoder.most_bytes(slice.floats.last) - slice.first_byte;
  return slice;
}

/// Messages begin at multiples of 8 bytes.
std::span<std::byte> SlicedSum::part_from(int rank, const EncodedSlice& own) {
  const auto bytes = static_cast<std::size_t>(own.bytes), stride = (bytes + 7) / 8;
  parts_.resize(stride * static_cast<std::size_t>(ranks_.size()));
  return std::as_writable_bytes(std::span(parts_).subspan(stride * static_cast<std::size_t>(rank), stride))
      .first(bytes);
}

void SlicedSum::sum(kernels::Encoder& encoder, MutableView values, MutableView sum, kernels::EncodingPlace place) {
  assert(encoder.is_dense());
  const auto n = std::ssize(values);
  std::vector<EncodedSlice> slices;
  for (int rank = 0; rank < ranks_.size(); ++rank) slices.push_back(slice(encoder, n, rank));
  const EncodedSlice& own = slices[static_cast<std::size_t>(ranks_.rank())];
  message_.resize(static_cast<std::size_t>((encoder.most_bytes(n) + 7) / 8));
  place.sender = static_cast<std::uint32_t>(ranks_.rank());
  encoder.encode(values, place, std::as_writable_bytes(std::span(message_)));
  const auto message_about = [&](int rank) { return message_of(slices[static_cast<std::size_t>(rank)]); };
  const auto part_of = [&](int rank) { return part_from(rank, own); };
  std::ranges::copy(message_of(own), part_of(ranks_.rank()).begin());
  exchange(kPartTag, message_about, part_of);

  left_.assign(static_cast<std::size_t>(own.floats.last - own.floats.first), -0.0F);
  for (int rank = 0; rank < ranks_.size(); ++rank) encoder.add(part_of(rank), left_);
  place.sender |= kOfSums;
  place.first += own.floats.first;
  encoder.encode(left_, place, message_of(own));
  // What the sum's message does not say is sent some time, too: by this rank.
  const MutableView later = part(values, own.floats);
  for (std::size_t i = 0; i < later.size(); ++i) later[i] += left_[i];
  exchange(
      kSumTag, [&](int) { return message_of(own); }, message_about);

  std::ranges::fill(sum, -0.0F);
  for (const EncodedSlice& one : slices) encoder.add(message_of(one), part(sum, one.floats));
}

/// Sends each other rank a message, and receives one of each; empty ones are left out.
template <typename Sent, typename Received>
void SlicedSum::exchange(int tag, const Sent& sent_to, const Received& received_from) {
  std::vector<comm::RequestPtr> requests;
  for (int peer = 0; peer < ranks_.size(); ++peer) {
    if (peer == ranks_.rank()) continue;
    const std::span<std::byte> received = received_from(peer), sent = sent_to(peer);
    if (!received.empty()) requests.push_back(ranks_.start_receive(received, peer, tag));
    if (!sent.empty()) requests.push_back(start_send(sent, peer, tag));
  }
  wait(requests);
}

}  // namespace

std::unique_ptr<EncodedSum> make_sliced_sum(comm::Communicator& ranks) { return std::make_unique<SlicedSum>(ranks); }

std::vector<bool> blocks_to_compress(const ParameterLayout& layout, const std::vector<std::string>& exact) {
  std::vector<bool> compressed;
  for (const Block& block : layout.blocks()) compressed.push_back(is_weight(block.role));
  for (const std::string& pattern : exact) {
    for (const std::size_t i : layout.matching(pattern)) compressed[i] = false;
  }
  return compressed;
}

CompressedBlocks divide_blocks(const ParameterLayout& layout, const std::vector<bool>& compressed) {
  CompressedBlocks result;
  for (std::size_t i = 0; i < compressed.size(); ++i) {
    const Block& block = layout.blocks()[i];
    if (block.frozen) continue;
    const FloatRange range{block.offset, block.offset + block.stored_size()};
    (compressed[i] ? result.compressed : result.exact).push_back(range);
  }
  return result;
}

CompressedBlocks divide_blocks(const ParameterLayout& layout, const CompressionSettings& settings) {
  return divide_blocks(layout, blocks_to_compress(layout, settings.exact));
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
