#pragma once

#include <cstdint>
#include <memory>

#include "unisono/comm/communicator.hpp"
#include "unisono/kernels/encoders.hpp"
#include "unisono/parallel/common_fate.hpp"

namespace unisono::parallel {

/// Sums vectors over the ranks by messages that an encoder makes of them.
class EncodedSum {
 public:
  explicit EncodedSum(comm::Communicator& ranks) : ranks_(ranks), fate_(ranks) {}
  virtual ~EncodedSum() = default;

  /// sum[i] ← Σ_r what rank r's message says about its value i; values ← what was not said. In the order of the ranks,
  /// beginning with −0, so that values that are sent exactly have the sum of an allreduce. Collective, by messages
  /// between two ranks alone; one thread at a time. Every rank ends with the same bits.
  /// \param values, sum of equal length, the same on all ranks
  /// \param place its sender is set by this function
  virtual void sum(kernels::Encoder& encoder, MutableView values, MutableView sum, kernels::EncodingPlace place) = 0;

  /// Of messages, so far.
  std::int64_t sent_bytes() const { return sent_bytes_; }
  /// Ends the wait of a thread that is in `sum`, which then throws PeerFailure.
  void give_up() { fate_.give_up(nullptr); }

 protected:
  comm::RequestPtr start_send(std::span<const std::byte> bytes, int peer, int tag) {
    sent_bytes_ += static_cast<std::int64_t>(bytes.size());
    return ranks_.start_send(bytes, peer, tag);
  }
  void wait(std::span<const comm::RequestPtr> requests) {
    for (const comm::RequestPtr& request : requests) fate_.wait(*request);
  }
  comm::Communicator& ranks_;

 private:
  CommonFate fate_;
  std::int64_t sent_bytes_ = 0;
};

/// For messages whose lengths differ: each is sent to all.
/// Cost per sum of n values: P − 1 messages of the encoder's length and 8 bytes, from each rank to all others.
std::unique_ptr<EncodedSum> make_gathered_sum(comm::Communicator& ranks);

/// For dense encoders: each rank adds up one slice of the vector, and sends its sum, encoded again, to all.
/// Cost per sum of n values: 2 (P − 1) messages from each rank, of 2 (P − 1) / P · most_bytes(n) together.
std::unique_ptr<EncodedSum> make_sliced_sum(comm::Communicator& ranks);

/// The one of these that suits an encoder.
inline std::unique_ptr<EncodedSum> make_encoded_sum(comm::Communicator& ranks, const kernels::Encoder& encoder) {
  return encoder.is_dense() ? make_sliced_sum(ranks) : make_gathered_sum(ranks);
}

}  // namespace unisono::parallel
