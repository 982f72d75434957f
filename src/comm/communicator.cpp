#include "unisono/comm/communicator.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "unisono/base/random.hpp"
#include "unisono/tensor/layout.hpp"

namespace unisono::comm {

Slice slice_of(Index n, int rank, int size) { return {share_of(n, rank, size), share_of(n, rank + 1, size)}; }

Slice line_slice_of(Index n, int rank, int size) {
  const Slice lines = slice_of((n + kLineFloats - 1) / kLineFloats, rank, size);
  return {std::min(n, lines.first * kLineFloats), std::min(n, lines.last * kLineFloats)};
}

void Communicator::reduce_scatter_in_blocks(std::span<float> values, const Summed& summed) {
  reduce_scatter_sum(values);
  const Slice slice = line_slice_of(std::ssize(values), rank(), size());
  if (slice.first < slice.last) summed(slice.first, slice.last);
  barrier();
}

namespace {

/// Looks at all of its messages each time.
class SearchedSet final : public RequestSet {
 public:
  explicit SearchedSet(Communicator& communicator) : communicator_(communicator) {}

  std::size_t add(RequestPtr request) override {
    std::size_t number = all_.size();  // as many are in use
    if (!free_.empty()) {
      number = free_.back();
      free_.pop_back();
    }
    all_.push_back({std::move(request), number});
    return number;
  }
  bool empty() const override { return all_.empty(); }
  std::vector<std::size_t> finish_some(const std::function<bool()>& enough) override {
    std::vector<Request*> requests;
    for (const One& one : all_) requests.push_back(one.request.get());
    std::vector<std::size_t> numbers;
    for (const std::size_t i : communicator_.wait_any(requests, enough)) {
      std::exchange(all_[i].request, nullptr)->wait();
      numbers.push_back(all_[i].number);
    }
    std::erase_if(all_, [](const One& one) { return one.request == nullptr; });
    free_.insert(free_.end(), numbers.begin(), numbers.end());
    return numbers;
  }

 private:
  struct One {
    RequestPtr request;
    std::size_t number;
  };
  Communicator& communicator_;
  std::vector<One> all_;
  std::vector<std::size_t> free_;  ///< numbers below the most that were ever in use
};

}  // namespace

std::unique_ptr<RequestSet> Communicator::make_request_set() { return std::make_unique<SearchedSet>(*this); }

std::unique_ptr<Communicator> Communicator::alone() { return make_self_communicator(); }

/// On one node a bucket takes some microseconds to start, and should still be in the cache of the core that computed
/// it. Between nodes a message should take much longer than the latency of the network.
Index Communicator::bucket_bytes() const { return node_size() == size() ? Index{1} << 20 : kBucketBytesBetweenNodes; }

void Communicator::allreduce_weighted_mean(std::span<float> values, double weight) {
  const double total = sum(weight);
  if (total == 0) return;
  if (weight == 0) {
    std::fill(values.begin(), values.end(), 0.0F);  // the values of a rank without examples may be NaN
  } else {
    const double share = weight / total;
    for (float& value : values) value = static_cast<float>(share * value);
  }
  allreduce_sum(values);
}

std::vector<std::string> Communicator::all_gather_text(const std::string& text) {
  std::vector<std::string> texts;
  for (const auto& bytes : all_gather_bytes(std::as_bytes(std::span(text)))) {
    texts.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return texts;
}

std::string Communicator::broadcast_text(const std::string& text, int root) {
  std::uint64_t length = text.size();
  broadcast(std::as_writable_bytes(std::span(&length, 1)), root);
  std::string result = rank() == root ? text : std::string(length, '\0');
  broadcast(std::as_writable_bytes(std::span(result)), root);
  return result;
}

std::string Communicator::first_text(const std::string& own) {
  const std::int64_t first = -max(own.empty() ? std::int64_t{-size()} : std::int64_t{-rank()});
  return first == size() ? "" : broadcast_text(own, static_cast<int>(first));
}

double Communicator::sum(double value) {
  allreduce_sum(std::span(&value, 1));
  return value;
}

std::int64_t Communicator::sum(std::int64_t value) {
  allreduce_sum(std::span(&value, 1));
  return value;
}

std::int64_t Communicator::max(std::int64_t value) {
  allreduce_max(std::span(&value, 1));
  return value;
}

namespace {

/// Whether all ranks have the same value. Collective; one message of 16 bytes, however many ranks there are.
bool all_have(comm::Communicator& group, std::uint64_t value) {
  const auto own = static_cast<std::int64_t>(value);
  std::array<std::int64_t, 2> most = {own, ~own};  // the largest of all, and the complement of the smallest
  group.allreduce_max(std::span<std::int64_t>(most));
  return most[0] == ~most[1];
}

}  // namespace

void require_same(comm::Communicator& group, const std::string& what, std::uint64_t hash, const std::string& remedy) {
  if (all_have(group, hash)) return;
  const auto texts = group.all_gather_text(fmt::format("{:016x} {}", hash, group.host()));
  std::vector<std::string> hashes;
  for (const std::string& text : texts) hashes.push_back(text.substr(0, 16));
  const auto votes = [&](const std::string& value) { return std::count(hashes.begin(), hashes.end(), value); };
  // The first of the most frequent: a draw goes to the lowest rank's.
  const std::string& common = *std::max_element(hashes.begin(), hashes.end(),
                                                [&](const auto& a, const auto& b) { return votes(a) < votes(b); });
  std::vector<std::string> others;
  for (std::size_t rank = 0; rank < hashes.size(); ++rank) {
    if (hashes[rank] != common) others.push_back(fmt::format("rank {} on {}", rank, texts[rank].substr(17)));
  }
  if (others.empty()) return;
  const auto same = std::find(hashes.begin(), hashes.end(), common) - hashes.begin();
  throw LaunchError(fmt::format("the {} of {} differs from that of rank {} on {}: {}", what, fmt::join(others, ", "),
                                same, texts[static_cast<std::size_t>(same)].substr(17), remedy));
}

namespace {

bool is_sent(const Counter& counter, Shown file) {
  return counter.combine == Combine::sum && is_in(counter.shown, file);
}

/// The values that are to be added up, and then their sums, in the same order.
struct Values {
  std::vector<std::int64_t> counts;
  std::vector<double> numbers;
  std::vector<std::vector<std::int64_t>> histograms;

  void add(std::int64_t value) { counts.push_back(value); }
  void add(double value) { numbers.push_back(value); }
  void add(const Histogram& value) { histograms.push_back(value.counts); }
  void take(std::int64_t& value) { value = counts[count_++]; }
  void take(double& value) { value = numbers[number_++]; }
  void take(Histogram& value) { value.counts = histograms[histogram_++]; }

 private:
  std::size_t count_ = 0, number_ = 0, histogram_ = 0;  ///< how many were taken
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
  Values values;
  std::uint64_t names = 0;
  for_each_counter(all, [&](const Counter& counter, auto& value) {
    names = hash_bytes(counter.name, names);
    if (is_sent(counter, file)) values.add(value);
  });
  if (file == Shown::in_summary) {
    require_same(group, "counters", names, "this is an error in the program; please report it");
  }
  if (!values.counts.empty()) group.allreduce_sum(std::span<std::int64_t>(values.counts));
  if (!values.numbers.empty()) group.allreduce_sum(std::span<double>(values.numbers));
  if (!values.histograms.empty()) sum_histograms(group, values.histograms);
  for_each_counter(all, [&](const Counter& counter, auto& value) {
    if (is_sent(counter, file)) values.take(value);
  });
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
