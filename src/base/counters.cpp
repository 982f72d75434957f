#include "unisono/base/counters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <variant>

namespace unisono {

namespace {

constexpr int kExactBits = 10, kSharedBits = 5;  // values up to 2^10 − 1 are exact; 2^5 counts share a doubling
constexpr std::uint64_t kExact = std::uint64_t{1} << kExactBits, kShared = std::uint64_t{1} << kSharedBits;

std::size_t count_for(std::uint64_t value) {
  if (value < kExact) return value;
  const int doubling = std::bit_width(value) - 1 - kExactBits;
  return kExact + kShared * static_cast<std::size_t>(doubling) + (value >> (doubling + kExactBits - kSharedBits)) -
         kShared;
}

}  // namespace

std::int64_t Histogram::value_of(std::size_t count) {
  if (count < kExact) return static_cast<std::int64_t>(count);
  const std::uint64_t doubling = (count - kExact) / kShared, part = (count - kExact) % kShared;
  const std::uint64_t width = std::uint64_t{1} << (doubling + kExactBits - kSharedBits);
  return static_cast<std::int64_t>((kShared + part) * width + (width - 1) / 2);
}

void Histogram::add(std::int64_t value) {
  const std::size_t place = count_for(static_cast<std::uint64_t>(std::max<std::int64_t>(value, 0)));
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
  for (std::size_t i = 0; i < counts.size(); ++i)
    sum += static_cast<double>(value_of(i)) * static_cast<double>(counts[i]);
  return sum / static_cast<double>(std::max<std::int64_t>(1, total()));
}

std::int64_t Histogram::largest() const { return counts.empty() ? 0 : value_of(counts.size() - 1); }

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

void subtract(std::int64_t before, std::int64_t& value) { value -= before; }
void subtract(double before, double& value) { value -= before; }
void subtract(const Histogram& before, Histogram& value) {
  for (std::size_t i = 0; i < before.counts.size(); ++i) value.counts[i] -= before.counts[i];
  while (!value.counts.empty() && value.counts.back() == 0) value.counts.pop_back();
}

}  // namespace

CounterSet difference(const CounterSet& after, const CounterSet& before) {
  CounterSet between = after, earlier = before;
  std::vector<std::variant<std::int64_t, double, Histogram>> values;
  for_each_counter(earlier, [&](const Counter&, auto& value) { values.emplace_back(value); });
  if (values.empty()) return between;
  auto next = values.begin();
  for_each_counter(between, [&]<typename Value>(const Counter& counter, Value& value) {
    const auto& old = std::get<Value>(*next++);
    if (counter.adds_up) subtract(old, value);
  });
  return between;
}

}  // namespace unisono
