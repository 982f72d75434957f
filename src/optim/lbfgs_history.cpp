#include "lbfgs_history.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "descent.hpp"

namespace unisono::optim {
namespace {

constexpr double kCautious = 1e-6;

/// Pieces of s, y and g, in double, so that the dot products of each other vector with all three read it once.
class NewVectors {
 public:
  NewVectors(const float* s, const float* y, const float* g, Index n) : n_(n) {
    const float* const from[] = {s, y, g};
    for (int k = 0; k < 3; ++k) std::copy(from[k], from[k] + n, values_[k]);
  }

  /// sums[k] += v · vector k. The order of the sums depends on n alone.
  template <typename Number>
  void add_dots(const Number* v, double* sums) const {
    constexpr Index kLanes = 4;
    double lanes[3][kLanes] = {};
    Index i = 0;
    for (; i + kLanes <= n_; i += kLanes) {
      double one[kLanes];
      for (Index lane = 0; lane < kLanes; ++lane) one[lane] = v[i + lane];
      for (Index lane = 0; lane < kLanes; ++lane) lanes[0][lane] += one[lane] * values_[0][i + lane];
      for (Index lane = 0; lane < kLanes; ++lane) lanes[1][lane] += one[lane] * values_[1][i + lane];
      for (Index lane = 0; lane < kLanes; ++lane) lanes[2][lane] += one[lane] * values_[2][i + lane];
    }
    for (int k = 0; k < 3; ++k) {
      double rest = 0;
      for (Index j = i; j < n_; ++j) rest += v[j] * values_[k][j];
      sums[k] += rest + ((lanes[k][0] + lanes[k][1]) + (lanes[k][2] + lanes[k][3]));
    }
  }
  /// ss, sy, sg, yy, yg, gg.
  void add_own_dots(double* sums) const {
    double all[3][3] = {};
    for (int k = 0; k < 3; ++k) add_dots(values_[k], all[k]);
    for (int a = 0; a < 3; ++a) {
      for (int b = a; b < 3; ++b) *sums++ += all[a][b];
    }
  }

 private:
  Index n_;
  double values_[3][kPiece];
};

}  // namespace

LbfgsHistory::LbfgsHistory(int pairs) : pairs_(pairs), dots_(width() * width()) {}

std::vector<std::string> LbfgsHistory::names(int pairs) {
  std::vector<std::string> names;
  for (const char* name : {"s", "y"}) {
    for (int i = 0; i < pairs; ++i) names.push_back(fmt::format("{}{}", name, i));
  }
  return names;
}

/// The place of a pair; age 0: the newest.
std::size_t LbfgsHistory::slot(int age) const {
  return static_cast<std::size_t>((next_ - 1 - age + 2 * pairs_) % pairs_);
}

/// Places of all vectors of pairs.
std::vector<std::size_t> LbfgsHistory::active() const {
  std::vector<std::size_t> places;
  for (int age = 0; age < count_; ++age) {
    places.push_back(slot(age));
    places.push_back(slot(age) + static_cast<std::size_t>(pairs_));
  }
  return places;
}

void LbfgsHistory::update(BatchFunction& f, std::span<OptimizerState> vectors, Buffer& s, Buffer& y,
                          const GradientPiece& gradient, double magnitude) {
  // sums: of each active v with s, y, g; then ss, sy, sg, yy, yg, gg
  const std::vector<std::size_t> places = active();
  std::vector<double> sums(3 * places.size() + 6);
  f.sum(sums, [&](Index first, Index last, std::span<double> into) {
    for_each_piece(first, last, [&](Index from, Index to) {
      float room[kPiece];
      const float* const g = gradient(from, to, room);
      const Index n = to - from;
      const NewVectors news(s.data() + from, y.data() + from, g, n);
      double* out = into.data();
      for (const std::size_t place : places) {
        news.add_dots(vectors[place].values.data() + from, out);
        out += 3;
      }
      news.add_own_dots(out);
    });
  });
  const std::size_t own = 3 * places.size();
  const double ss = sums[own], sy = sums[own + 1], yy = sums[own + 3];
  const auto m = static_cast<std::size_t>(pairs_), g = 2 * m;
  for (std::size_t i = 0; i < places.size(); ++i) set(places[i], g, sums[3 * i + 2]);
  dot(g, g) = sums[own + 5];
  // Cautious updates (Li, Fukushima, SIAM J. Optim. 11, 2001): H stays positive definite, and bounded.
  if (!(sy > kCautious * std::min(1.0, magnitude) * ss) || !(yy > 0)) return;
  const auto place = static_cast<std::size_t>(next_);
  for (std::size_t i = 0; i < places.size(); ++i) {
    set(places[i], place, sums[3 * i]);
    set(places[i], place + m, sums[3 * i + 1]);
  }
  set(place, place, ss);
  set(place, place + m, sy);
  set(place, g, sums[own + 2]);
  set(place + m, place + m, yy);
  set(place + m, g, sums[own + 4]);
  std::swap(vectors[place].values, s);
  std::swap(vectors[place + m].values, y);
  next_ = (next_ + 1) % pairs_;
  count_ = std::min(count_ + 1, pairs_);
}

void LbfgsHistory::restart(BatchFunction& f, const GradientPiece& gradient) {
  clear();
  double& square = dot(width() - 1, width() - 1);
  f.sum({&square, 1}, [&](Index first, Index last, std::span<double> into) {
    for_each_piece(first, last, [&](Index from, Index to) {
      float room[kPiece];
      const float* const g = gradient(from, to, room);
      into[0] += dot_of(g, g, to - from);
    });
  });
}

LbfgsDirection LbfgsHistory::steepest() const {
  LbfgsDirection d{.coefficients = std::vector<double>(width())};
  d.coefficients.back() = -1;
  finish(d);
  return d;
}

/// Chen, Wang, Zhou, algorithm 3.
LbfgsDirection LbfgsHistory::direction() const {
  if (count_ == 0) return steepest();
  LbfgsDirection d{.coefficients = std::vector<double>(width())};
  std::vector<double>& delta = d.coefficients;
  const auto m = static_cast<std::size_t>(pairs_);
  const auto product_with = [&](std::size_t b) {
    double sum = 0;
    for (std::size_t j = 0; j < width(); ++j) {
      if (delta[j] != 0) sum += delta[j] * dot(j, b);
    }
    return sum;
  };
  std::vector<double> alpha(m);
  delta.back() = -1;
  for (int age = 0; age < count_; ++age) {
    const std::size_t i = slot(age);
    alpha[i] = product_with(i) / dot(i, i + m);
    delta[i + m] -= alpha[i];
  }
  const std::size_t newest = slot(0);
  const double h0 = dot(newest, newest + m) / dot(newest + m, newest + m);
  for (double& one : delta) one *= h0;
  for (int age = count_ - 1; age >= 0; --age) {
    const std::size_t i = slot(age);
    delta[i] += alpha[i] - product_with(i + m) / dot(i, i + m);
  }
  finish(d);
  return d;
}

void LbfgsHistory::finish(LbfgsDirection& d) const {
  const std::vector<double>& delta = d.coefficients;
  for (std::size_t i = 0; i < width(); ++i) {
    if (delta[i] == 0) continue;
    d.slope += delta[i] * dot(i, width() - 1);
    for (std::size_t j = 0; j < width(); ++j) {
      if (delta[j] != 0) d.square += delta[i] * delta[j] * dot(i, j);
    }
  }
}

void LbfgsHistory::combine(const LbfgsDirection& direction, std::span<const OptimizerState> vectors,
                           const GradientPiece& gradient, MutableView d) const {
  const std::vector<std::size_t> places = active();
  for_each_piece(0, std::ssize(d), [&](Index from, Index to) {
    float room[kPiece];
    double sum[kPiece];
    const float* const g = gradient(from, to, room);
    const Index n = to - from;
    for (Index i = 0; i < n; ++i) sum[i] = direction.coefficients.back() * g[i];
    for (std::size_t k = 0; k + 1 < places.size(); k += 2) {  // s and y of a pair
      const double a = direction.coefficients[places[k]], b = direction.coefficients[places[k + 1]];
      const float* const u = vectors[places[k]].values.data() + from;
      const float* const v = vectors[places[k + 1]].values.data() + from;
      for (Index i = 0; i < n; ++i) sum[i] += a * u[i] + b * v[i];
    }
    float* const out = d.data() + from;
    for (Index i = 0; i < n; ++i) out[i] = static_cast<float>(sum[i]);
  });
}

void LbfgsHistory::save(std::vector<double>& scalars) const {
  scalars.insert(scalars.end(), {static_cast<double>(count_), static_cast<double>(next_)});
  scalars.insert(scalars.end(), dots_.begin(), dots_.end());
}

void LbfgsHistory::restore(const double* scalars) {
  count_ = static_cast<int>(scalars[0]);
  next_ = static_cast<int>(scalars[1]);
  std::copy(scalars + 2, scalars + 2 + dots_.size(), dots_.begin());
}

}  // namespace unisono::optim
