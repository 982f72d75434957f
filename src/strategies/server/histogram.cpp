#include "unisono/strategies/serving.hpp"

#include <algorithm>
#include <numeric>

namespace unisono::strategies {

void Histogram::add(std::int64_t value) {
  const auto place = static_cast<std::size_t>(std::clamp<std::int64_t>(value, 0, kLargest));
  if (place >= counts.size()) counts.resize(place + 1);
  ++counts[place];
}

Histogram& Histogram::operator+=(const Histogram& more) {
  counts.resize(std::max(counts.size(), more.counts.size()));
  for (std::size_t i = 0; i < more.counts.size(); ++i) counts[i] += more.counts[i];
  return *this;
}

std::int64_t Histogram::total() const { return std::accumulate(counts.begin(), counts.end(), std::int64_t{0}); }

double Histogram::mean() const {
  double sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) sum += static_cast<double>(i) * static_cast<double>(counts[i]);
  return sum / static_cast<double>(std::max<std::int64_t>(1, total()));
}

std::int64_t Histogram::largest() const { return std::max<std::int64_t>(0, std::ssize(counts) - 1); }

}  // namespace unisono::strategies
