// Encoders that send something of every value.
#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <limits>

#include "cpu/encoders.hpp"
#include "unisono/base/random.hpp"

namespace unisono::kernels {
namespace cpu {
namespace {

/// An encoder whose values are independent of one another, or of those of other blocks.
class BlockEncoder : public Encoder {
 public:
  BlockEncoder(InstructionSet set, Index block_bytes) : loops_(loops_for(set).encoders), block_bytes_(block_bytes) {}
  bool is_dense() const override { return true; }

  Index encode(MutableView values, const EncodingPlace& place, std::span<std::byte> message) override {
    const auto n = std::ssize(values);
    for (Index first = 0; first < n; first += kEncodedBlock) {
      const Index length = std::min(kEncodedBlock, n - first);
      encode_block(values.data() + first, length, {place.seed, place.step, place.sender, place.first + first},
                   message.data() + first / kEncodedBlock * block_bytes_);
    }
    return most_bytes(n);
  }

  void add(std::span<const std::byte> message, MutableView sum) const override {
    const auto n = std::ssize(sum);
    assert(std::ssize(message) >= most_bytes(n));
    for (Index first = 0; first < n; first += kEncodedBlock) {
      add_block(message.data() + first / kEncodedBlock * block_bytes_, std::min(kEncodedBlock, n - first),
                sum.data() + first);
    }
  }

 protected:
  virtual void encode_block(float* values, Index n, const EncodingPlace& place, std::byte* message) = 0;
  virtual void add_block(const std::byte* message, Index n, float* sum) const = 0;
  EncoderLoops loops_;

 private:
  Index block_bytes_;
};

class Bf16 final : public BlockEncoder {
 public:
  explicit Bf16(InstructionSet set) : BlockEncoder(set, kEncodedBlock * 2) {}
  Index most_bytes(Index n) const override { return 2 * n; }

 private:
  void encode_block(float* values, Index n, const EncodingPlace&, std::byte* message) override {
    loops_.encode_bf16(values, n, reinterpret_cast<std::uint16_t*>(message));
  }
  void add_block(const std::byte* message, Index n, float* sum) const override {
    loops_.add_bf16(reinterpret_cast<const std::uint16_t*>(message), n, sum);
  }
};

/// A block's message: the upper half of its scale, and a byte for each value. The scale has 8 significant bits, so that
/// its products with the codes are exact.
class EightBit final : public BlockEncoder {
 public:
  explicit EightBit(InstructionSet set) : BlockEncoder(set, kEncodedBlock + kScaleBytes) {}
  Index most_bytes(Index n) const override { return n + kScaleBytes * ((n + kEncodedBlock - 1) / kEncodedBlock); }

 private:
  static constexpr Index kScaleBytes = 2;

  /// The least bfloat16 that is at least max |v| / 127; 0 where its inverse would not be a number.
  float scale_of(const float* values, Index n) const {
    const float least = loops_.largest(values, n) / 127.0F;
    if (least < std::numeric_limits<float>::min()) return 0;
    return std::bit_cast<float>((std::bit_cast<std::uint32_t>(least) + 0xFFFFU) & 0xFFFF0000U);
  }

  void encode_block(float* values, Index n, const EncodingPlace& place, std::byte* message) override {
    const float scale = scale_of(values, n);
    const auto half = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(scale) >> 16);
    std::memcpy(message, &half, kScaleBytes);
    const auto block = static_cast<std::uint64_t>(place.first / kEncodedBlock);
    const EightBitBlock parameters{
        .scale = scale,
        .inverse = scale > 0 ? 1.0F / scale : 0.0F,
        .key = stream_key(place.seed, Purpose::compression),
        .counter = {static_cast<std::uint32_t>(block * (kEncodedBlock / 8)), place.sender,
                    static_cast<std::uint32_t>(place.step), static_cast<std::uint32_t>(place.step >> 32)}};
    loops_.encode_eight_bit(parameters, values, n, reinterpret_cast<std::int8_t*>(message + kScaleBytes));
  }
  void add_block(const std::byte* message, Index n, float* sum) const override {
    std::uint16_t half = 0;
    std::memcpy(&half, message, kScaleBytes);
    loops_.add_eight_bit(std::bit_cast<float>(std::uint32_t{half} << 16),
                         reinterpret_cast<const std::int8_t*>(message + kScaleBytes), n, sum);
  }
};

/// A block's message: two means, and a bitmap of the negative values.
class OneBit final : public BlockEncoder {
 public:
  explicit OneBit(InstructionSet set) : BlockEncoder(set, kMeansBytes + kEncodedBlock / 8) {}
  Index most_bytes(Index n) const override {
    return 8 * words_of(n) + kMeansBytes * ((n + kEncodedBlock - 1) / kEncodedBlock);
  }

 private:
  static constexpr Index kMeansBytes = 2 * sizeof(float);

  void encode_block(float* values, Index n, const EncodingPlace&, std::byte* message) override {
    loops_.encode_one_bit(values, n, reinterpret_cast<std::uint64_t*>(message + kMeansBytes),
                          reinterpret_cast<float*>(message));
  }
  void add_block(const std::byte* message, Index n, float* sum) const override {
    loops_.add_one_bit(reinterpret_cast<const float*>(message),
                       reinterpret_cast<const std::uint64_t*>(message + kMeansBytes), n, sum);
  }
};

}  // namespace

std::unique_ptr<Encoder> bf16_encoder_for(InstructionSet set) { return std::make_unique<Bf16>(set); }
std::unique_ptr<Encoder> eight_bit_encoder_for(InstructionSet set) { return std::make_unique<EightBit>(set); }
std::unique_ptr<Encoder> one_bit_encoder_for(InstructionSet set) { return std::make_unique<OneBit>(set); }

}  // namespace cpu

std::unique_ptr<Encoder> make_bf16_encoder() { return cpu::bf16_encoder_for(cpu::chosen_instruction_set()); }
std::unique_ptr<Encoder> make_eight_bit_encoder() { return cpu::eight_bit_encoder_for(cpu::chosen_instruction_set()); }
std::unique_ptr<Encoder> make_one_bit_encoder() { return cpu::one_bit_encoder_for(cpu::chosen_instruction_set()); }

}  // namespace unisono::kernels
