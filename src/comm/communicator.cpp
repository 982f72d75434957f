#include "unisono/comm/communicator.hpp"

#include <algorithm>
#include <cstring>

#include "unisono/tensor/share.hpp"

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

std::unique_ptr<Communicator> Communicator::alone() { return make_self_communicator(); }

/// On one node a bucket takes some microseconds to start, and should still be in the cache of the core that computed
/// it. Between nodes a message should take much longer than the latency of the network.
Index Communicator::bucket_bytes() const { return node_size() == size() ? Index{1} << 20 : Index{4} << 20; }

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

}  // namespace unisono::comm
