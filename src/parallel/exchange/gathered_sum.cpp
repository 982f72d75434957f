#include <algorithm>
#include <array>
#include <vector>

#include "unisono/parallel/encoded_sum.hpp"

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

}  // namespace unisono::parallel
