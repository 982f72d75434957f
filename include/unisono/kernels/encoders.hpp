#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>

#include "unisono/tensor/allocator.hpp"

namespace unisono::kernels {

/// What the random numbers of an encoding depend on.
struct EncodingPlace {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;    ///< a number that no other encoding of the same values has
  std::uint32_t sender = 0;  ///< the rank that encodes
  Index first = 0;           ///< position of the first value in its vector
};

/// Turns values into a short message that says them approximately. What a message does not say is handed back, so that
/// the sender can add it to its next values (error feedback): nothing is lost, only sent later.
///   values = sent + rest:   the rest is fl(values − sent), bit for bit. Where values are sent exactly, it is 0.
/// Values are finite; others make a message that says something undefined. Messages are read by a machine of the
/// same byte order.
class Encoder {
 public:
  virtual ~Encoder() = default;
  /// How long a message of n values can be, in bytes.
  virtual Index most_bytes(Index n) const = 0;
  /// Whether all messages of n values have most_bytes(n) bytes, and pieces of unit() values follow one another in a
  /// message, so that a part of a vector can be sent by itself.
  virtual bool is_dense() const = 0;
  /// message ← values; values ← what the message does not say. \param message [most_bytes(n)]
  /// \return bytes of the message in use
  virtual Index encode(MutableView values, const EncodingPlace& place, std::span<std::byte> message) = 0;
  /// sum[i] += what the message says about value i. \param sum as many floats as were encoded
  virtual void add(std::span<const std::byte> message, MutableView sum) const = 0;
};

/// Values of a block that share a scale (eight_bit) or two means (one_bit).
inline constexpr Index kEncodedBlock = 256;

/// Sends each value rounded to bfloat16, to the nearest: 2 bytes a value.
std::unique_ptr<Encoder> make_bf16_encoder();

/// Sends each value as a multiple −127 … 127 of its block's scale, rounded up or down at random, so that its
/// expectation is the value: 258 bytes for 256 values. The scale is the least bfloat16 that is not below max |v| / 127.
/// Alistarh et al., "QSGD", NIPS 2017, with the largest magnitude as norm.
std::unique_ptr<Encoder> make_eight_bit_encoder();

/// Sends the sign of each value, and for each block the mean of the values of either sign: 40 bytes for 256 values.
/// Seide et al., "1-bit stochastic gradient descent", Interspeech 2014.
std::unique_ptr<Encoder> make_one_bit_encoder();

/// Which values a threshold encoder sends, and as what.
struct ThresholdSettings {
  float threshold = 0;  ///< τ; 0: chosen for each message, so that about `density` of the values are sent
  double density = 0;   ///< in (0, 1]
};

/// Whether a threshold is 0, or a number that fp32 holds.
inline bool fits_fp32(double threshold) {
  using Float = std::numeric_limits<float>;
  return threshold == 0 || (threshold >= Float::min() && threshold <= Float::max());
}

/// Sends values with |v| ≥ τ as ±τ: 4 bytes for each (position and sign), or 2 bits for each of all n where that is
/// shorter; 16 bytes more. Strom, "Scalable distributed DNN training using commodity GPU cloud computing", Interspeech
/// 2015. An adapted τ is the magnitude that `density` of up to 4,096 evenly spaced values reach or, where fewer of
/// these are not 0, the mean magnitude of those, or the largest one of all values.
std::unique_ptr<Encoder> make_threshold_encoder(const ThresholdSettings& settings);

/// Sends the k = ⌈density · n⌉ values of largest magnitude, as they are (the first ones among equals): 8 bytes for
/// each, or 4 and one bit for each of all n where that is shorter; 4n where k = n; 16 bytes more. Lin et al., "Deep
/// gradient compression", ICLR 2018.
std::unique_ptr<Encoder> make_top_k_encoder(double density);

}  // namespace unisono::kernels
