#include "unisono/comm/counters.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <vector>

#include "unisono/base/random.hpp"
#include "unisono/comm/communicator.hpp"

namespace unisono::comm {
namespace {

bool is_sent(const Counter& counter, Shown file) {
  return counter.combine == Combine::sum && is_in(counter.shown, file);
}

/// The values that are to be added up, and a hash of what is counted.
class Values final : public CounterVisitor {
 public:
  explicit Values(Shown file) : file_(file) {}

  void count(const Counter& counter, std::int64_t& value) override {
    if (note(counter)) counts.push_back(value);
  }
  void number(const Counter& counter, double& value) override {
    if (note(counter)) numbers.push_back(value);
  }
  void histogram(const Counter& counter, Histogram& value) override {
    if (note(counter)) histograms.push_back(value.counts);
  }

  std::vector<std::int64_t> counts;
  std::vector<double> numbers;
  std::vector<std::vector<std::int64_t>> histograms;
  std::uint64_t names = 0;

 private:
  bool note(const Counter& counter) {
    names = hash_bytes(counter.name, names);
    return is_sent(counter, file_);
  }

  Shown file_;
};

/// Takes the sums, in the same order.
class TakeSums final : public CounterVisitor {
 public:
  TakeSums(const Values& sums, Shown file) : sums_(sums), file_(file) {}

  void count(const Counter& counter, std::int64_t& value) override {
    if (is_sent(counter, file_)) value = sums_.counts[count_++];
  }
  void number(const Counter& counter, double& value) override {
    if (is_sent(counter, file_)) value = sums_.numbers[number_++];
  }
  void histogram(const Counter& counter, Histogram& value) override {
    if (is_sent(counter, file_)) value.counts = sums_.histograms[histogram_++];
  }

 private:
  const Values& sums_;
  Shown file_;
  std::size_t count_ = 0, number_ = 0, histogram_ = 0;
};

/// Adds up histograms, which are as long on each rank as the largest value that it has seen.
void sum_histograms(Communicator& group, std::vector<std::vector<std::int64_t>>& histograms) {
  std::vector<std::int64_t> lengths;
  for (const auto& counts : histograms) lengths.push_back(std::ssize(counts));
  group.allreduce_max(std::span<std::int64_t>(lengths));
  std::vector<std::int64_t> all;
  for (std::size_t i = 0; i < histograms.size(); ++i) {
    histograms[i].resize(static_cast<std::size_t>(lengths[i]));
    all.insert(all.end(), histograms[i].begin(), histograms[i].end());
  }
  if (!all.empty()) group.allreduce_sum(std::span<std::int64_t>(all));
  auto from = all.begin();
  for (auto& counts : histograms) {
    std::copy_n(from, counts.size(), counts.begin());
    from += std::ssize(counts);
  }
}

}  // namespace

CounterSet combine(Communicator& group, const CounterSet& counters, Shown file) {
  CounterSet all = counters;
  Values values(file);
  all.describe(values);
  if (file == Shown::in_summary) {
    require_same(group, "counters", values.names, "this is an error in the program; please report it");
  }
  if (!values.counts.empty()) group.allreduce_sum(std::span<std::int64_t>(values.counts));
  if (!values.numbers.empty()) group.allreduce_sum(std::span<double>(values.numbers));
  if (!values.histograms.empty()) sum_histograms(group, values.histograms);
  TakeSums take(values, file);
  all.describe(take);
  return all;
}

Seconds mean_seconds(Communicator& group, const Seconds& seconds, bool trains) {
  std::array<double, std::size(kSecondsParts) + 1> sums{};  // of the parts, and the number of ranks that train
  if (trains) {
    for (std::size_t i = 0; i < std::size(kSecondsParts); ++i) sums[i] = seconds.*kSecondsParts[i].value;
    sums.back() = 1;
  }
  group.allreduce_sum(std::span<double>(sums));
  Seconds mean;
  for (std::size_t i = 0; i < std::size(kSecondsParts); ++i) mean.*kSecondsParts[i].value = sums[i] / sums.back();
  return mean;
}

}  // namespace unisono::comm
