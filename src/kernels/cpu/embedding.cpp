// Vectors of tokens. Rows of W lie in the order of tokens, activations have the rows of sequences as lanes: tiles of 64
// rows and some units are gathered and transposed.
#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <vector>

#include "cpu/cpu_backend.hpp"
#include "cpu/lanes.hpp"
#include "cpu/loop_team.hpp"

namespace unisono::kernels::cpu {
namespace {

constexpr Index kUnits = 32;  ///< of a tile

Index token_of(View tokens, Index row) { return std::bit_cast<std::int32_t>(tokens[static_cast<std::size_t>(row)]); }

/// \param token counted from the first that W has
bool has(const EmbeddingSpec& spec, Index token) { return token >= 0 && token < spec.vocabulary; }

/// A tile, row by row.
using RowTile = float[kMaximumLanes][kUnits];

}  // namespace

void CpuBackend::load_tokens(std::span<const std::int32_t> tokens, MutableView x) {
  assert(static_cast<Index>(x.size()) >= activation_size({}, static_cast<Index>(tokens.size())));
  std::ranges::fill(x, 0.0F);
  std::ranges::transform(tokens, x.begin(), [](std::int32_t token) { return std::bit_cast<float>(token); });
}

/// P[t, 2i] = sin(t / 10000^(2i/C)), P[t, 2i + 1] = cos(…), made once for each shape.
const float* CpuBackend::sinusoids(const EmbeddingSpec& spec) {
  Buffer& table = sinusoids_[{spec.rows, spec.units}];
  if (table.size() > 0) return table.data();
  table = Buffer(spec.rows * spec.units);
  for (Index c = 0; c < spec.units; ++c) {
    const double slowness = std::pow(10000.0, static_cast<double>(c / 2 * 2) / static_cast<double>(spec.units));
    for (Index t = 0; t < spec.rows; ++t) {
      const double angle = static_cast<double>(t) / slowness;
      table.data()[t * spec.units + c] = static_cast<float>(c % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  return table.data();
}

void CpuBackend::embedding_forward(const EmbeddingSpec& spec, Index batch, View tokens, View w, View positions,
                                   MutableView y) {
  const Lanes lanes(batch * spec.rows);
  const Index units = spec.units, tiles = (units + kUnits - 1) / kUnits;
  const float* added = positions.empty() ? nullptr : positions.data();
  if (added == nullptr && spec.sinusoidal) added = sinusoids(spec);
  parallel_for(settings_.threads, lanes.blocks * tiles, [&](Index task) {
    const Index block = task / tiles, first = task % tiles * kUnits, count = std::min(kUnits, units - first);
    RowTile tile{};
    for (Index lane = 0; lane < lanes.used(block); ++lane) {
      const Index row = block * lanes.width + lane;
      const Index token = token_of(tokens, row) - spec.first;
      if (has(spec, token)) {
        std::copy_n(w.data() + token * units + first, count, tile[lane]);
      } else {
        std::fill_n(tile[lane], count, -0.0F);
      }
      const float* const position = added == nullptr ? nullptr : added + row % spec.rows * units + first;
      for (Index c = 0; position != nullptr && c < count; ++c) tile[lane][c] += position[c];
    }
    loops_.transpose(lanes.width, count, &tile[0][0], kUnits, y.data() + (block * units + first) * lanes.width,
                     lanes.width);
  });
}

/// Which row of a table each row of activations is added to.
struct RowSums {
  std::vector<Index> sum;     ///< of each row of activations, the number of its sum; −1: it has none
  std::vector<Index> target;  ///< of each sum, the row of the table
};

namespace {

/// One sum for each token that occurs, numbered in the order in which they first occur.
RowSums sums_by_token(const EmbeddingSpec& spec, View tokens, Index rows) {
  RowSums sums;
  std::vector<Index> numbers(static_cast<std::size_t>(spec.vocabulary), -1);
  for (Index row = 0; row < rows; ++row) {
    const Index token = token_of(tokens, row) - spec.first;
    if (!has(spec, token)) {
      sums.sum.push_back(-1);
      continue;
    }
    Index& number = numbers[static_cast<std::size_t>(token)];
    if (number < 0) {
      number = std::ssize(sums.target);
      sums.target.push_back(token);
    }
    sums.sum.push_back(number);
  }
  return sums;
}

RowSums sums_by_position(Index rows, Index positions) {
  RowSums sums;
  for (Index row = 0; row < rows; ++row) sums.sum.push_back(row % positions);
  for (Index t = 0; t < std::min(rows, positions); ++t) sums.target.push_back(t);
  return sums;
}

}  // namespace

/// table[target] += each sum, made in the order of the rows.
void CpuBackend::add_row_sums(const RowSums& sums, const Lanes& lanes, Index units, View dy, MutableView table) {
  parallel_for(settings_.threads, (units + kUnits - 1) / kUnits, [&](Index task) {
    const Index first = task * kUnits, count = std::min(kUnits, units - first);
    std::vector<float> made(sums.target.size() * kUnits);
    RowTile tile;
    for (Index block = 0; block < lanes.blocks; ++block) {
      const Index used = lanes.used(block);
      loops_.transpose(count, used, dy.data() + (block * units + first) * lanes.width, lanes.width, &tile[0][0],
                       kUnits);
      for (Index lane = 0; lane < used; ++lane) {
        const Index sum = sums.sum[static_cast<std::size_t>(block * lanes.width + lane)];
        if (sum < 0) continue;
        float* const to = made.data() + sum * kUnits;
        for (Index c = 0; c < count; ++c) to[c] += tile[lane][c];
      }
    }
    for (std::size_t i = 0; i < sums.target.size(); ++i) {
      float* const to = table.data() + sums.target[i] * units + first;
      for (Index c = 0; c < count; ++c) to[c] += made[i * kUnits + static_cast<std::size_t>(c)];
    }
  });
}

void CpuBackend::embedding_backward(const EmbeddingSpec& spec, Index batch, View tokens, View dy, MutableView dw,
                                    MutableView dpositions, Write write) {
  const Index rows = batch * spec.rows;
  const auto add = [&](const RowSums& sums, MutableView table) {
    if (write == Write::overwrite) clear(table);
    add_row_sums(sums, Lanes(rows), spec.units, dy, table);
  };
  if (!dw.empty()) add(sums_by_token(spec, tokens, rows), dw);
  if (!dpositions.empty()) add(sums_by_position(rows, spec.rows), dpositions);
}

}  // namespace unisono::kernels::cpu
