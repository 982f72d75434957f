#pragma once

#include <cstdint>
#include <optional>

#include "unisono/data/dataset.hpp"

namespace unisono::data {

/// How much the training examples of a set overlap, which decides how often lock-free updates collide. An example is a
/// hyperedge over what it touches: its features, or its user and its item (Niu, Recht, Ré & Wright, "Hogwild!", NIPS
/// 2011, section 3).
struct Sparsity {
  std::int64_t omega = 0;    ///< Ω: how many features (or user and item) the largest example touches
  double delta = 0;          ///< Δ: share of the examples that touch the most frequent feature, user or item
  double rho = 0;            ///< ρ: largest share of the examples that overlap with a single example
  double rho_at_random = 0;  ///< the share for a random example: the probability that two examples overlap
};

/// Computes it for sparse rows and ratings; nothing for other sets. For rows, ρ is computed over the 64 examples with
/// the most frequent features, and ρ at random over 64 random ones. Reads the training group's ratings twice, or its
/// feature numbers four times. \throws DataError
std::optional<Sparsity> sparsity_of(const DataSettings& settings);

}  // namespace unisono::data
