#pragma once

#include <vector>

#include "unisono/base/random.hpp"

namespace unisono::search {

/// A density on [0, 1): the mean of the uniform one and a normal one, cut off at 0 and 1, around each observation. Its
/// width is the larger distance to a neighbour (0 and 1 are neighbours, too), at least 1 / min(100, n + 1).
/// Bergstra et al., NeurIPS 2011, section 4.1.
class ParzenEstimator {
 public:
  explicit ParzenEstimator(std::vector<double> observations);

  double draw(RandomStream& random) const;
  double density(double x) const;

 private:
  struct Normal {
    double mean, width, mass;  ///< mass: of the whole normal density between 0 and 1
  };
  std::vector<Normal> normals_;
};

}  // namespace unisono::search
