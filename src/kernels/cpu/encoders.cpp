// Encoders: first those that send few of the values, then those that send something of every value.
#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "cpu/instruction_set.hpp"
#include "unisono/base/random.hpp"

namespace unisono::kernels {
namespace cpu {
namespace {

/// How a message names the values that it holds.
enum class Form : std::uint32_t {
  list,    ///< by their positions
  bitmap,  ///< by a bit for each value
  all,     ///< all are in it
  broken   ///< there was an infinity or a NaN: all sums become NaN, so that it is seen
};

struct Header {
  Form form = Form::list;
  float threshold = 0;
  std::int64_t count = 0;
};
constexpr Index kHeaderBytes = sizeof(Header);
static_assert(kHeaderBytes == 16);

void write_header(std::span<std::byte> message, const Header& header) {
  std::memcpy(message.data(), &header, sizeof header);
}

Header read_header(std::span<const std::byte> message) {
  Header header;
  assert(std::ssize(message) >= kHeaderBytes);
  std::memcpy(&header, message.data(), sizeof header);
  return header;
}

/// For Form::broken.
void break_sum(MutableView sum) { std::ranges::fill(sum, std::numeric_limits<float>::quiet_NaN()); }

/// Calls work(i) for each set bit of a bitmap of n bits, in order.
template <typename Work>
void for_each_bit(const std::uint64_t* bitmap, Index n, const Work& work) {
  for (Index word = 0; word < words_of(n); ++word) {
    for (std::uint64_t bits = bitmap[word]; bits != 0; bits &= bits - 1) {
      work(word * kWordBits + std::countr_zero(bits));
    }
  }
}

class Threshold final : public Encoder {
 public:
  Threshold(InstructionSet set, const ThresholdSettings& settings)
      : loops_(loops_for(set).encoders), settings_(settings) {}
  bool is_dense() const override { return false; }
  Index most_bytes(Index n) const override { return kHeaderBytes + 16 * words_of(n); }
  Index encode(MutableView values, const EncodingPlace& place, std::span<std::byte> message) override;
  void add(std::span<const std::byte> message, MutableView sum) const override;

 private:
  float threshold_for(View values);

  EncoderLoops loops_;
  ThresholdSettings settings_;
  std::vector<float> sample_;
  std::vector<std::uint64_t> present_, negative_;
};

/// τ, or the magnitude that `density` of a sample reach. Where fewer are not 0, it is the mean magnitude of these, or
/// the largest one of all values.
float Threshold::threshold_for(View values) {
  if (settings_.threshold > 0) return settings_.threshold;
  constexpr Index kSample = 4096;
  const auto n = std::ssize(values);
  const Index taken = std::min(n, kSample);
  sample_.resize(static_cast<std::size_t>(taken));
  for (Index i = 0; i < taken; ++i) {
    sample_[static_cast<std::size_t>(i)] = std::abs(values[static_cast<std::size_t>(i * n / taken)]);
  }
  const auto sent = std::clamp<Index>(std::llround(settings_.density * static_cast<double>(taken)), 1, taken);
  std::ranges::nth_element(sample_, sample_.begin() + (sent - 1), std::greater<>());
  if (const float reached = sample_[static_cast<std::size_t>(sent - 1)]; reached > 0) return reached;
  const auto end = std::partition(sample_.begin(), sample_.end(), [](float magnitude) { return magnitude > 0; });
  const auto present = static_cast<double>(end - sample_.begin());
  const float found = present > 0 ? static_cast<float>(std::accumulate(sample_.begin(), end, 0.0) / present)
                                  : loops_.largest(values.data(), n);
  return std::max(found, std::numeric_limits<float>::min());
}

Index Threshold::encode(MutableView values, const EncodingPlace&, std::span<std::byte> message) {
  const auto n = std::ssize(values);
  assert(n < Index{1} << 31 && std::ssize(message) >= most_bytes(n));
  if (n == 0 || !std::isfinite(loops_.largest(values.data(), n))) {
    write_header(message, {.form = n == 0 ? Form::list : Form::broken});
    return kHeaderBytes;
  }
  Header header{.threshold = threshold_for(values)};
  present_.resize(static_cast<std::size_t>(words_of(n)));
  negative_.resize(present_.size());
  header.count = loops_.mark_signed(header.threshold, values.data(), n, present_.data(), negative_.data());
  if (header.count * 4 > 16 * words_of(n)) {
    header.form = Form::bitmap;
    std::memcpy(at<std::uint64_t>(message, kHeaderBytes), present_.data(), present_.size() * 8);
    std::memcpy(at<std::uint64_t>(message, kHeaderBytes + 8 * words_of(n)), negative_.data(), negative_.size() * 8);
  } else {
    auto* next = at<std::uint32_t>(message, kHeaderBytes);
    for_each_bit(present_.data(), n, [&](Index i) {
      const auto sign = (negative_[static_cast<std::size_t>(i / kWordBits)] >> (i % kWordBits)) & 1U;
      *next++ = static_cast<std::uint32_t>(i) << 1 | static_cast<std::uint32_t>(sign);
    });
  }
  write_header(message, header);
  return kHeaderBytes + (header.form == Form::bitmap ? 16 * words_of(n) : 4 * header.count);
}

void Threshold::add(std::span<const std::byte> message, MutableView sum) const {
  const Header header = read_header(message);
  const auto n = std::ssize(sum);
  if (header.form == Form::broken) return break_sum(sum);
  if (header.form == Form::bitmap) {
    const auto* const present = at<std::uint64_t>(message, kHeaderBytes);
    return loops_.add_signed(header.threshold, present, present + words_of(n), n, sum.data());
  }
  const auto* const entries = at<std::uint32_t>(message, kHeaderBytes);
  const float change[2] = {header.threshold, -header.threshold};
  for (Index i = 0; i < header.count; ++i) {
    assert(entries[i] >> 1 < n);
    sum[entries[i] >> 1] += change[entries[i] & 1U];
  }
}

class TopK final : public Encoder {
 public:
  TopK(InstructionSet set, double density) : loops_(loops_for(set).encoders), density_(density) {}
  bool is_dense() const override { return false; }
  Index most_bytes(Index n) const override { return kHeaderBytes + bytes_of(form_for(n), n); }
  Index encode(MutableView values, const EncodingPlace& place, std::span<std::byte> message) override;
  void add(std::span<const std::byte> message, MutableView sum) const override;

 private:
  Index count_for(Index n) const {
    return std::min(n, static_cast<Index>(std::ceil(density_ * static_cast<double>(n))));
  }
  Form form_for(Index n) const {
    if (count_for(n) == n) return Form::all;
    return 4 * count_for(n) > 8 * words_of(n) ? Form::bitmap : Form::list;
  }
  /// Of what follows the header.
  Index bytes_of(Form form, Index n) const {
    return 4 * count_for(n) + (form == Form::list ? 4 * count_for(n) : form == Form::bitmap ? 8 * words_of(n) : 0);
  }
  float kth_magnitude(View values, Index k);
  void mark_largest(View values, Index k, float least);

  EncoderLoops loops_;
  double density_;
  std::vector<std::uint64_t> present_;
  std::vector<std::uint32_t> candidates_;
};

/// The k-th largest magnitude: a histogram of the upper bits of all magnitudes, then a selection in the bin that it is
/// in. Floats that are not negative are ordered like their bits, NaNs after all others.
float TopK::kth_magnitude(View values, Index k) {
  constexpr int kShift = 20, kHistograms = 4;
  constexpr std::uint32_t kMagnitude = 0x7FFFFFFFU;
  // Several histograms, for neighbours are often in the same bin, whose counter would be waited for.
  std::array<std::array<std::uint32_t, 1 << (31 - kShift)>, kHistograms> counts{};
  const auto bits = [&](std::size_t i) { return std::bit_cast<std::uint32_t>(values[i]) & kMagnitude; };
  for (std::size_t i = 0; i < values.size(); ++i) ++counts[i % kHistograms][bits(i) >> kShift];
  std::size_t bin = counts[0].size();
  Index above = 0, in_bin = 0;
  do {
    above += in_bin;
    --bin;
    in_bin = 0;
    for (const auto& histogram : counts) in_bin += histogram[bin];
  } while (above + in_bin < k);
  candidates_.clear();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (bits(i) >> kShift == bin) candidates_.push_back(bits(i));
  }
  const auto kth = candidates_.begin() + (k - above - 1);
  std::ranges::nth_element(candidates_, kth, std::greater<>());
  return std::bit_cast<float>(*kth);
}

/// \param least the k-th largest magnitude
void TopK::mark_largest(View values, Index k, float least) {
  const auto n = std::ssize(values);
  Index surplus = loops_.mark(least, values.data(), n, present_.data()) - k;
  for (Index i = n - 1; surplus > 0; --i) {
    std::uint64_t& word = present_[static_cast<std::size_t>(i / kWordBits)];
    const std::uint64_t bit = std::uint64_t{1} << (i % kWordBits);
    if ((word & bit) == 0 || std::abs(values[static_cast<std::size_t>(i)]) != least) continue;
    word &= ~bit;
    --surplus;
  }
}

Index TopK::encode(MutableView values, const EncodingPlace&, std::span<std::byte> message) {
  const auto n = std::ssize(values);
  assert(std::ssize(message) >= most_bytes(n));
  const Header header{.form = form_for(n), .count = count_for(n)};
  write_header(message, header);
  const auto send = [](float& value, float* to) { *to = std::exchange(value, value - value); };
  if (header.form == Form::all) {
    float* const sent = at<float>(message, kHeaderBytes);
    for (Index i = 0; i < n; ++i) send(values[static_cast<std::size_t>(i)], sent + i);
    return most_bytes(n);
  }
  const float least = kth_magnitude(values, header.count);
  if (std::isnan(least)) {  // more NaNs than are sent
    write_header(message, {.form = Form::broken});
    return kHeaderBytes;
  }
  present_.resize(static_cast<std::size_t>(words_of(n)));
  mark_largest(values, header.count, least);
  const bool lists = header.form == Form::list;
  auto* places = at<std::uint32_t>(message, kHeaderBytes);
  float* sent = at<float>(message, kHeaderBytes + (lists ? 4 * header.count : 8 * words_of(n)));
  if (!lists) std::memcpy(places, present_.data(), present_.size() * 8);
  for_each_bit(present_.data(), n, [&](Index i) {
    if (lists) *places++ = static_cast<std::uint32_t>(i);
    send(values[static_cast<std::size_t>(i)], sent++);
  });
  return most_bytes(n);
}

void TopK::add(std::span<const std::byte> message, MutableView sum) const {
  const Header header = read_header(message);
  const auto n = std::ssize(sum);
  if (header.form == Form::broken) return break_sum(sum);
  if (header.form == Form::all) {
    const float* const sent = at<float>(message, kHeaderBytes);
    for (Index i = 0; i < n; ++i) sum[static_cast<std::size_t>(i)] += sent[i];
    return;
  }
  const bool lists = header.form == Form::list;
  const float* sent = at<float>(message, kHeaderBytes + (lists ? 4 * header.count : 8 * words_of(n)));
  if (!lists) {
    for_each_bit(at<std::uint64_t>(message, kHeaderBytes), n,
                 [&](Index i) { sum[static_cast<std::size_t>(i)] += *sent++; });
    return;
  }
  const auto* const places = at<std::uint32_t>(message, kHeaderBytes);
  for (Index i = 0; i < header.count; ++i) {
    assert(places[i] < n);
    sum[places[i]] += sent[i];
  }
}

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

std::unique_ptr<Encoder> threshold_encoder_for(InstructionSet set, const ThresholdSettings& settings) {
  return std::make_unique<Threshold>(set, settings);
}
std::unique_ptr<Encoder> top_k_encoder_for(InstructionSet set, double density) {
  return std::make_unique<TopK>(set, density);
}

std::unique_ptr<Encoder> bf16_encoder_for(InstructionSet set) { return std::make_unique<Bf16>(set); }
std::unique_ptr<Encoder> eight_bit_encoder_for(InstructionSet set) { return std::make_unique<EightBit>(set); }
std::unique_ptr<Encoder> one_bit_encoder_for(InstructionSet set) { return std::make_unique<OneBit>(set); }

}  // namespace cpu

std::unique_ptr<Encoder> make_threshold_encoder(const ThresholdSettings& settings) {
  return cpu::threshold_encoder_for(cpu::chosen_instruction_set(), settings);
}
std::unique_ptr<Encoder> make_top_k_encoder(double density) {
  return cpu::top_k_encoder_for(cpu::chosen_instruction_set(), density);
}
std::unique_ptr<Encoder> make_bf16_encoder() { return cpu::bf16_encoder_for(cpu::chosen_instruction_set()); }
std::unique_ptr<Encoder> make_eight_bit_encoder() { return cpu::eight_bit_encoder_for(cpu::chosen_instruction_set()); }
std::unique_ptr<Encoder> make_one_bit_encoder() { return cpu::one_bit_encoder_for(cpu::chosen_instruction_set()); }

}  // namespace unisono::kernels
