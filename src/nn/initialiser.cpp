// Random initial weights. n_in and n_out are a block's fan_in and fan_out.
//   he       variance 2 / n_in               He et al., "Delving deep into rectifiers", ICCV 2015
//   glorot   variance 2 / (n_in + n_out)     Glorot and Bengio, AISTATS 2010
//   lecun    variance 1 / n_in               LeCun, Bottou, Orr and Müller, "Efficient BackProp", 1998
//   uniform  U(±1/√n_in), variance 1 / (3 n_in): PyTorch's default for dense layers and convolutions
// A uniform distribution of variance v is U(±√(3v)).
#include "unisono/nn/initialiser.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "unisono/base/random.hpp"

namespace unisono::nn {
namespace {

struct Distribution {
  bool normal = true;   ///< else uniform
  double variance = 0;  ///< 0: every value is …
  float constant = 0;
};

Distribution distribution_of(const Block& block) {
  const auto in = static_cast<double>(block.fan_in), out = static_cast<double>(block.fan_out);
  switch (block.initialiser) {
    case Initialiser::he_normal:
      return {.normal = true, .variance = 2 / in};
    case Initialiser::he_uniform:
      return {.normal = false, .variance = 2 / in};
    case Initialiser::glorot_normal:
      return {.normal = true, .variance = 2 / (in + out)};
    case Initialiser::glorot_uniform:
      return {.normal = false, .variance = 2 / (in + out)};
    case Initialiser::lecun_normal:
      return {.normal = true, .variance = 1 / in};
    case Initialiser::lecun_uniform:
      return {.normal = false, .variance = 1 / in};
    case Initialiser::normal:
      return {.normal = true, .variance = block.deviation * block.deviation};
    case Initialiser::uniform:
      return {.normal = false, .variance = 1 / (3 * in)};
    case Initialiser::zeros:
      return {};
    case Initialiser::ones:
      return {.constant = 1};
    case Initialiser::constant:
      return {.constant = static_cast<float>(block.deviation)};
  }
  throw std::logic_error("block '" + block.name + "' has no initialiser");
}

/// A stream has 2³⁰ values of its own and a normal number takes two: a new stream for every 2²⁸ values.
constexpr Index kValuesPerStream = Index{1} << 28;

/// Draws the values of a block from some position on.
class Draw {
 public:
  Draw(const Block& block, std::uint64_t number, std::uint64_t seed)
      : distribution_(distribution_of(block)),
        scale_(static_cast<float>(std::sqrt(distribution_.variance))),
        bound_(std::sqrt(3.0F) * scale_),
        number_(number),
        seed_(seed) {}

  /// \param position of the first value in the block's canonical order; the others are `step` apart
  void operator()(Index position, Index step, MutableView values) const {
    if (scale_ == 0) {
      std::ranges::fill(values, distribution_.constant);
      return;
    }
    for (std::size_t i = 0; i < values.size();) {
      const Index in_stream = position % kValuesPerStream;
      RandomStream random(seed_, Purpose::initial_weights, number_,
                          static_cast<std::uint32_t>(position / kValuesPerStream));
      random.skip(bits_of(in_stream));
      for (Index at = in_stream; at < kValuesPerStream && i < values.size(); at += step, position += step) {
        values[i++] = distribution_.normal ? scale_ * random.normal() : random.uniform(-bound_, bound_);
        if (step > 1) random.skip(bits_of(step - 1));
      }
    }
  }

 private:
  /// How many words of the random stream so many values take.
  std::uint64_t bits_of(Index values) const {
    return static_cast<std::uint64_t>(distribution_.normal ? 2 * values : values);
  }

  Distribution distribution_;
  float scale_, bound_;
  std::uint64_t number_, seed_;
};

/// The values of a part of a block, in canonical order.
void draw_box(const Block& block, const Draw& draw, const Box& box, MutableView canonical) {
  if (box == whole_box(block)) return draw(0, 1, canonical);
  for_each_run(block, box, [&](Index position, Index step, Index count) {
    draw(position, step, canonical.first(static_cast<std::size_t>(count)));
    canonical = canonical.subspan(static_cast<std::size_t>(count));
  });
}

}  // namespace

void initialise(const ParameterLayout& layout, std::uint64_t seed, MutableView vector) {
  initialise(WholeHolding(layout), seed, vector);
}

void initialise(const Holding& holding, std::uint64_t seed, MutableView vector) {
  std::fill(vector.begin(), vector.end(), 0.0F);
  std::vector<float> canonical;
  for (const Shard& shard : holding.shards()) {
    const Block& block = holding.layout().blocks()[shard.block];
    canonical.resize(static_cast<std::size_t>(size_of(shard.box)));
    draw_box(block, Draw(block, shard.block, seed), shard.box, canonical);
    unpack(shard.place, canonical, vector);
  }
}

}  // namespace unisono::nn
