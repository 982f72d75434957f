#include "gossip/consensus.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "all_topologies.hpp"

namespace unisono::strategies {
namespace {

using Matrix = std::vector<std::vector<double>>;

/// W of a round, written out from what the ranks receive.
Matrix received(const Mixing& mixing, int round, int ranks) {
  const auto count = static_cast<std::size_t>(ranks);
  Matrix w(count, std::vector<double>(count));
  for (int rank = 0; rank < ranks; ++rank) {
    const MixingRow row = mixing.row(round, rank);
    auto& weights = w[static_cast<std::size_t>(rank)];
    weights[static_cast<std::size_t>(rank)] = 1 - row.weight * static_cast<double>(row.from.size());
    for (const int other : row.from) weights[static_cast<std::size_t>(other)] += row.weight;
  }
  return w;
}

std::vector<double> times(const Matrix& w, const std::vector<double>& x) {
  std::vector<double> y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t j = 0; j < x.size(); ++j) y[i] += w[i][j] * x[j];
  }
  return y;
}

Matrix transposed(const Matrix& w) {
  Matrix t = w;
  for (std::size_t i = 0; i < w.size(); ++i) {
    for (std::size_t j = 0; j < w.size(); ++j) t[j][i] = w[i][j];
  }
  return t;
}

double norm(const std::vector<double>& x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  return std::sqrt(sum);
}

/// x − its mean
std::vector<double> centred(std::vector<double> x) {
  double mean = 0;
  for (const double value : x) mean += value / static_cast<double>(x.size());
  for (double& value : x) value -= mean;
  return x;
}

/// The matrices of all rounds, one after the other, on a vector with a number for each rank.
std::vector<double> mixed(const Mixing& mixing, std::vector<double> x) {
  for (int round = 0; round < mixing.rounds(); ++round)
    x = times(received(mixing, round, static_cast<int>(x.size())), x);
  return x;
}

/// σ₂ by power iteration with AᵀA on vectors of mean 0, where A is the product of all rounds' matrices.
double iterated_singular_value(const Mixing& mixing, int ranks) {
  std::minstd_rand random(7);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<double> x(static_cast<std::size_t>(ranks));
  for (double& value : x) value = uniform(random);
  double growth = 0;
  for (int i = 0; i < 3000; ++i) {
    x = centred(x);
    const double before = norm(x);
    for (double& value : x) value /= before;
    x = mixed(mixing, x);
    growth = norm(x);
    if (growth < 1e-12) return 0;
    for (int round = mixing.rounds(); round-- > 0;) x = times(transposed(received(mixing, round, ranks)), x);
  }
  return growth;
}

}  // namespace

TEST_CASE("mixing matrices are doubly stochastic, and senders know their receivers", "[gossip]") {
  for (const Topology topology : kAllTopologies) {
    for (int ranks = 1; ranks <= 17; ++ranks) {
      INFO("topology " << static_cast<int>(topology) << ", " << ranks << " ranks");
      const Mixing mixing(topology, ranks);
      for (int round = 0; round < mixing.rounds(); ++round) {
        const Matrix w = received(mixing, round, ranks), columns = transposed(w);
        for (int rank = 0; rank < ranks; ++rank) {
          double of_row = 0, of_column = 0, least = 1;
          for (const double weight : w[static_cast<std::size_t>(rank)]) {
            of_row += weight;
            least = std::min(least, weight);
          }
          for (const double weight : columns[static_cast<std::size_t>(rank)]) of_column += weight;
          // Each of at most 17 terms is rounded, and so is each addition to a sum of about 1.
          CHECK(std::abs(of_row - 1) <= 34 * 0x1p-53);
          CHECK(std::abs(of_column - 1) <= 34 * 0x1p-53);
          CHECK(least >= 0);
          for (const int peer : mixing.row(round, rank).to) {
            const std::vector<int> from = mixing.row(round, peer).from;
            CHECK(std::count(from.begin(), from.end(), rank) == 1);
            CHECK(peer != rank);
          }
          CHECK(mixing.row(round, rank).to.size() == mixing.row(round, rank).from.size());
        }
      }
    }
  }
}

TEST_CASE("neighbours are those of the topology", "[gossip]") {
  using Ranks = std::vector<int>;
  CHECK(Mixing(Topology::ring, 5).row(0, 0).from == Ranks{1, 4});
  CHECK(Mixing(Topology::ring, 5).row(0, 0).weight == 1.0 / 3);
  CHECK(Mixing(Topology::ring, 2).row(0, 0).from == Ranks{1});  // both sides are the same rank
  CHECK(Mixing(Topology::ring, 1).row(0, 0).from.empty());
  CHECK(Mixing(Topology::grid, 12).row(0, 0).from == Ranks{4, 8, 1, 3});  // 3 rows of 4
  CHECK(Mixing(Topology::grid, 12).row(0, 0).weight == 0.2);
  CHECK(Mixing(Topology::grid, 7).row(0, 3).from == Ranks{4, 2});  // a prime: one row
  CHECK(Mixing(Topology::exponential, 6).rounds() == 3);
  CHECK(Mixing(Topology::exponential, 6).row(2, 1).to == Ranks{5});
  CHECK(Mixing(Topology::exponential, 6).row(2, 1).from == Ranks{3});
  CHECK(Mixing(Topology::exponential, 6).row(2, 1).weight == 0.5);
  CHECK(Mixing(Topology::complete, 4).row(0, 1).from == Ranks{0, 3, 2});
}

TEST_CASE("the second singular value is that of power iteration, and known ones", "[long][gossip]") {
  for (const Topology topology : kAllTopologies) {
    for (int ranks = 1; ranks <= 17; ++ranks) {
      INFO("topology " << static_cast<int>(topology) << ", " << ranks << " ranks");
      const Mixing mixing(topology, ranks);
      const double expected = ranks == 1 ? 0 : iterated_singular_value(mixing, ranks);
      // 3000 iterations: the next smaller value of these small matrices has long died out.
      CHECK(mixing.second_singular_value() == Approx(expected).margin(1e-9));
    }
  }
  CHECK(Mixing(Topology::ring, 4).second_singular_value() == Approx(1.0 / 3));  // (1 + 2 cos(2π k/4)) / 3
  CHECK(Mixing(Topology::ring, 100).second_singular_value() ==
        Approx((1 + 2 * std::cos(2 * 3.14159265358979 / 100)) / 3));
  CHECK(Mixing(Topology::complete, 9).second_singular_value() < 1e-12);
}

TEST_CASE("the exponential graph on 2^k ranks gives the mean after k exchanges", "[gossip]") {
  for (const int ranks : {2, 4, 8, 16, 64}) {
    std::vector<double> x(static_cast<std::size_t>(ranks));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(ranks) * static_cast<double>(i * i % 29);
    double mean = 0;
    for (const double value : x) mean += value / static_cast<double>(ranks);  // whole numbers: exact
    CHECK(mixed(Mixing(Topology::exponential, ranks), x) == std::vector<double>(x.size(), mean));
    CHECK(Mixing(Topology::exponential, ranks).second_singular_value() < 1e-12);
  }
}

}  // namespace unisono::strategies
