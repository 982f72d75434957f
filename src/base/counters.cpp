#include "unisono/base/counters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace unisono {

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

std::string CounterTerms::bytes_line(std::string_view what, std::int64_t bytes) const {
  if (bytes <= 0) return "";
  return fmt::format("  {:11} {:.1f} MB per epoch and rank\n", what, megabytes(bytes));
}

CounterSet::CounterSet(const CounterSet& other) {
  for (const auto& item : other.items_) items_.push_back(item->copy());
}

void CounterSet::describe(CounterVisitor& visitor) {
  for (const auto& item : items_) item->describe(visitor);
}

std::string CounterSet::text(const CounterTerms& terms) const {
  std::string text;
  for (const auto& item : items_) text += item->text(terms);
  return text;
}

namespace {

/// Remembers the values of counters that add up.
class Remember final : public CounterVisitor {
 public:
  void count(const Counter&, std::int64_t& value) override { counts.push_back(value); }
  void number(const Counter&, double& value) override { numbers.push_back(value); }
  void histogram(const Counter&, Histogram& value) override { histograms.push_back(value); }

  std::vector<std::int64_t> counts;
  std::vector<double> numbers;
  std::vector<Histogram> histograms;
};

/// Subtracts remembered values, in the same order.
class Subtract final : public CounterVisitor {
 public:
  explicit Subtract(const Remember& before) : before_(before) {}

  void count(const Counter& counter, std::int64_t& value) override {
    const std::int64_t before = before_.counts[count_++];
    if (counter.adds_up) value -= before;
  }
  void number(const Counter& counter, double& value) override {
    const double before = before_.numbers[number_++];
    if (counter.adds_up) value -= before;
  }
  void histogram(const Counter& counter, Histogram& value) override {
    const Histogram& before = before_.histograms[histogram_++];
    if (!counter.adds_up) return;
    for (std::size_t i = 0; i < before.counts.size(); ++i) value.counts[i] -= before.counts[i];
    while (!value.counts.empty() && value.counts.back() == 0) value.counts.pop_back();
  }

 private:
  const Remember& before_;
  std::size_t count_ = 0, number_ = 0, histogram_ = 0;
};

}  // namespace

CounterSet difference(const CounterSet& after, const CounterSet& before) {
  CounterSet between = after, earlier = before;
  Remember values;
  earlier.describe(values);
  if (values.counts.empty() && values.numbers.empty() && values.histograms.empty()) return between;
  Subtract subtract(values);
  between.describe(subtract);
  return between;
}

}  // namespace unisono
