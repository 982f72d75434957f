#pragma once

#include <cstdint>
#include <optional>

#include "unisono/data/dataset.hpp"

namespace unisono::data {

/// How much the training examples of a set have to do with each other. What an example touches are its features, or
/// its user and its item (Niu, Recht, Ré & Wright, "Hogwild!", NIPS 2011, section 3; each a hyperedge).
struct Sparsity {
  std::int64_t omega = 0;  ///< Ω: what the largest example touches
  double delta = 0;        ///< Δ: share of the examples that touch what most examples touch
  double rho = 0;          ///< ρ: share of the examples that touch something that one example does, for that with most
  double rho_at_random = 0;  ///< the same for an example at random: how probably two examples touch the same
};

/// Of sparse rows and ratings; for rows, ρ is that of the 64 examples whose features are most frequent, and of 64 at
/// random. Reads the training group's ratings twice, or the numbers of its features four times. \throws DataError
std::optional<Sparsity> sparsity_of(const DataSettings& settings);

}  // namespace unisono::data
