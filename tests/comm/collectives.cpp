#include "collectives.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include "expect.hpp"
#include "unisono/comm/sum_tree.hpp"
#include "unisono/tensor/layout.hpp"

// Values are small integers where a sum is compared, so that no order of additions rounds: results are exact.

namespace unisono::test {
namespace {

using Floats = std::vector<float>;

constexpr Index kSizes[] = {0, 1, 2, 3, 7, 64, 1000, 4099, 300'001};

/// What rank r brings: value i is (r + 1)·(i mod 13 + 1).
Floats values_of(int rank, Index n) {
  Floats values(static_cast<std::size_t>(n));
  for (Index i = 0; i < n; ++i) values[static_cast<std::size_t>(i)] = static_cast<float>((rank + 1) * (i % 13 + 1));
  return values;
}

/// Σ_r of these: P (P + 1) / 2 · (i mod 13 + 1).
Floats sum_of(int ranks, Index n) {
  Floats sum = values_of(0, n);
  for (float& value : sum) value *= static_cast<float>(ranks * (ranks + 1) / 2);
  return sum;
}

/// Normal numbers of very different magnitudes, so that the order of additions shows in the bits.
Floats rough_values(int rank, Index n) {
  std::mt19937 generator(static_cast<unsigned>(17 + rank));
  std::normal_distribution<float> normal;
  Floats values(static_cast<std::size_t>(n));
  for (float& value : values) value = std::ldexp(normal(generator), static_cast<int>(generator() % 20) - 10);
  return values;
}

std::span<const std::byte> bytes_of(const Floats& values) { return std::as_bytes(std::span(values)); }
std::span<std::byte> bytes_of(Floats& values) { return std::as_writable_bytes(std::span(values)); }

void expect_same_bits_everywhere(comm::Communicator& communicator, View values) {
  for (const auto& other : communicator.all_gather_bytes(std::as_bytes(values))) {
    EXPECT(other.size() == values.size_bytes());
    EXPECT(values.empty() || std::memcmp(other.data(), values.data(), other.size()) == 0);
  }
}

void place_in_the_group(comm::Communicator& communicator) {
  EXPECT(communicator.size() >= 1);
  EXPECT(communicator.rank() >= 0 && communicator.rank() < communicator.size());
  EXPECT(communicator.node_rank() >= 0 && communicator.node_rank() < communicator.node_size());
  std::vector<std::int64_t> ranks_of_nodes(static_cast<std::size_t>(communicator.size()));
  ranks_of_nodes.at(static_cast<std::size_t>(communicator.node())) = 1;
  communicator.allreduce_sum(ranks_of_nodes);
  EXPECT(ranks_of_nodes[static_cast<std::size_t>(communicator.node())] == communicator.node_size());
  EXPECT(ranks_of_nodes.front() > 0);
  EXPECT(communicator.is_root() == (communicator.rank() == 0));
  EXPECT(!communicator.host().empty());
  EXPECT(communicator.sum(std::int64_t{1}) == communicator.size());
}

void broadcast_from_every_root(comm::Communicator& communicator) {
  for (int root = 0; root < communicator.size(); ++root) {
    for (const Index n : kSizes) {
      Floats values = values_of(communicator.rank(), n);
      communicator.broadcast(bytes_of(values), root);
      EXPECT(values == values_of(root, n));
    }
  }
}

void allreduce_sums(comm::Communicator& communicator) {
  for (const Index n : kSizes) {
    Floats values = values_of(communicator.rank(), n);
    const std::vector<double> expected_doubles(values.size(), 0.5 * communicator.size());
    communicator.allreduce_sum(values);
    EXPECT(values == sum_of(communicator.size(), n));

    std::vector<double> doubles(values.size(), 0.5);
    communicator.allreduce_sum(doubles);
    EXPECT(doubles == expected_doubles);
  }
}

void allreduce_of_integers_is_exact_beyond_doubles(comm::Communicator& communicator) {
  const std::int64_t large = (std::int64_t{1} << 53) + 1;  // no double
  for (const std::size_t n : {0, 1, 5, 5000}) {
    std::vector<std::int64_t> values(n, communicator.is_root() ? large : 1);
    communicator.allreduce_sum(values);
    EXPECT(values == std::vector<std::int64_t>(n, large + communicator.size() - 1));
  }
}

void allreduce_takes_the_largest(comm::Communicator& communicator) {
  const int ranks = communicator.size(), rank = communicator.rank();
  std::vector<std::int64_t> values(static_cast<std::size_t>(ranks) + 1, std::numeric_limits<std::int64_t>::min());
  values[static_cast<std::size_t>(rank)] = -rank;  // each place has one rank that says more than the others
  communicator.allreduce_max(values);
  for (int r = 0; r < ranks; ++r) EXPECT(values[static_cast<std::size_t>(r)] == -r);
  EXPECT(values.back() == std::numeric_limits<std::int64_t>::min());

  std::vector<double> doubles{-1.5 - rank, 0.25 * rank};
  communicator.allreduce_max(doubles);
  EXPECT(doubles == (std::vector<double>{-1.5, 0.25 * (ranks - 1)}));
}

void every_rank_and_run_gets_the_same_bits(comm::Communicator& communicator) {
  for (const Index n : {1, 17, 1000, 100'003}) {
    Floats first = rough_values(communicator.rank(), n), second = first;
    communicator.allreduce_sum(first);
    communicator.allreduce_sum(second);
    EXPECT(std::memcmp(first.data(), second.data(), first.size() * sizeof(float)) == 0);
    expect_same_bits_everywhere(communicator, first);
  }
}

void started_sums_are_matched_in_the_order_of_their_starts(comm::Communicator& communicator) {
  constexpr int kInFlight = 5;
  std::vector<Floats> values(kInFlight);
  std::vector<comm::RequestPtr> requests;
  for (int k = 0; k < kInFlight; ++k) {
    auto& mine = values[static_cast<std::size_t>(k)];
    mine = values_of(communicator.rank() + k, 1 + 20'000 * k);
    requests.push_back(communicator.start_allreduce_sum(mine));
  }
  EXPECT(communicator.sum(1.0) == communicator.size());  // a blocking collective between start and wait
  for (int k = kInFlight - 1; k >= 0; --k) {             // waited for in another order than started
    requests[static_cast<std::size_t>(k)]->wait_for_arrivals();
    requests[static_cast<std::size_t>(k)]->wait();
    // Σ_r (r + 1 + k) = P (P + 1) / 2 + P k
    Floats expected = values_of(0, 1 + 20'000 * k);
    const int ranks = communicator.size();
    for (float& value : expected) value *= static_cast<float>(ranks * (ranks + 1) / 2 + ranks * k);
    EXPECT(values[static_cast<std::size_t>(k)] == expected);
  }
}

void any_number_of_sums_may_be_in_flight(comm::Communicator& communicator) {
  constexpr Index kSums = 150, kEach = 40;
  Buffer shared(kSums * kEach, communicator.shared_allocator());
  std::fill_n(shared.data(), shared.size(), static_cast<float>(communicator.rank() + 1));
  Floats plain(shared.data(), shared.data() + shared.size());
  std::vector<comm::RequestPtr> requests;
  for (Index k = 0; k < kSums; ++k) {
    for (const MutableView values : {shared.view(), MutableView(plain)}) {
      requests.push_back(communicator.start_allreduce_sum(values.subspan(static_cast<std::size_t>(k * kEach), kEach)));
    }
  }
  for (const auto& request : requests) request->wait();
  const auto sum = static_cast<float>(communicator.size() * (communicator.size() + 1) / 2);
  EXPECT(plain == Floats(plain.size(), sum));
  EXPECT(std::equal(plain.begin(), plain.end(), shared.data()));
}

void a_started_sum_ends_by_testing_alone(comm::Communicator& communicator) {
  Floats values = values_of(communicator.rank(), 50'000);
  const comm::RequestPtr request = communicator.start_allreduce_sum(values);
  while (!request->test()) {
  }
  request->wait();
  EXPECT(values == sum_of(communicator.size(), 50'000));
}

void shared_memory_reduces_like_plain(comm::Communicator& communicator) {
  for (const Index n : {1, 5, 1000, 300'001}) {
    Buffer shared(n, communicator.shared_allocator());
    EXPECT(reinterpret_cast<std::uintptr_t>(shared.data()) % kAlignmentBytes == 0);
    for (const float value : shared.view()) EXPECT(value == 0);
    Floats plain = rough_values(communicator.rank(), n);
    std::copy(plain.begin(), plain.end(), shared.data());
    communicator.allreduce_sum(shared.view());
    expect_same_bits_everywhere(communicator, shared.view());

    const Floats exact = values_of(communicator.rank(), n);
    std::copy(exact.begin(), exact.end(), shared.data());
    communicator.allreduce_sum(shared.view());
    EXPECT(std::equal(shared.data(), shared.data() + n, sum_of(communicator.size(), n).begin()));
  }
}

void parts_of_shared_memory_reduce_alone(comm::Communicator& communicator) {
  const Index n = 10'000;
  Buffer theta(n, communicator.shared_allocator()), gradient(n, communicator.shared_allocator());
  const Floats mine = values_of(communicator.rank(), n), sum = sum_of(communicator.size(), n);
  std::copy(mine.begin(), mine.end(), gradient.data());
  std::vector<comm::RequestPtr> requests;
  for (const comm::Slice part :
       {comm::Slice{7000, n}, comm::Slice{6999, 7000}, comm::Slice{33, 6999}}) {  // [0, 33) is left alone
    requests.push_back(communicator.start_allreduce_sum(gradient.view().subspan(
        static_cast<std::size_t>(part.first), static_cast<std::size_t>(part.last - part.first))));
  }
  for (const auto& request : requests) request->wait();
  EXPECT(std::equal(gradient.data(), gradient.data() + 33, mine.begin()));
  EXPECT(std::equal(gradient.data() + 33, gradient.data() + n, sum.begin() + 33));
  for (const float value : theta.view()) EXPECT(value == 0);
}

/// The value of a node of a tree over rough_values(leaf, n).
Floats value_of(const comm::SumTree& tree, comm::SumTree::Node node, Index n) {
  if (node.level == 0) return rough_values(node.number, n);
  Floats value = value_of(tree, comm::SumTree::left(node), n);
  if (tree.is_empty(comm::SumTree::right(node))) return value;
  const Floats right = value_of(tree, comm::SumTree::right(node), n);
  for (std::size_t i = 0; i < value.size(); ++i) value[i] += right[i];
  return value;
}

void trees_have_the_same_sum_on_any_number_of_ranks(comm::Communicator& communicator) {
  const int ranks = communicator.size();
  for (const auto& [leaves, n] : {std::pair<int, Index>{8, 5000}, {5, 33}, {2, 1}}) {
    const comm::SumTree tree(leaves);
    std::vector<comm::Slice> parts;
    for (int rank = 0; rank < ranks; ++rank) parts.push_back(comm::slice_of(leaves, rank, ranks));
    const comm::TreeSum order(tree, parts);
    const auto own = tree.cover(parts[static_cast<std::size_t>(communicator.rank())]);
    for (const bool shared : {true, false}) {
      std::vector<Buffer> buffers;
      std::vector<std::span<float>> vectors;
      for (int i = 0; i < order.vectors; ++i) {
        buffers.emplace_back(n, shared ? communicator.shared_allocator() : plain_allocator());
        vectors.push_back(buffers.back().view());
      }
      for (std::size_t i = 0; i < own.size(); ++i) {
        std::ranges::copy(value_of(tree, own[i], n),
                          vectors[static_cast<std::size_t>(comm::TreeSum::vector_of(i, own.size()))].begin());
      }
      communicator.start_tree_sum(vectors, order)->wait();
      EXPECT(std::ranges::equal(vectors.front(), value_of(tree, tree.root(), n)));
      communicator.barrier();  // all have looked
    }
  }
}

void shared_memory_is_reused_round_after_round(comm::Communicator& communicator) {
  Buffer shared(2000, communicator.shared_allocator());
  for (int round = 0; round < 200; ++round) {
    for (float& value : shared.view()) value = static_cast<float>(communicator.rank() + round);
    communicator.allreduce_sum(shared.view());
    const int ranks = communicator.size();
    for (const float value : shared.view())
      EXPECT(value == static_cast<float>(ranks * (ranks - 1) / 2 + ranks * round));
  }
}

void slices_are_scattered_and_gathered(comm::Communicator& communicator) {
  for (const bool shared : {false, true}) {
    for (const Index n : kSizes) {
      Buffer buffer(n, shared ? communicator.shared_allocator() : plain_allocator());
      const Floats mine = values_of(communicator.rank(), n), sum = sum_of(communicator.size(), n);
      std::copy(mine.begin(), mine.end(), buffer.data());
      communicator.reduce_scatter_sum(buffer.view());
      const comm::Slice slice = comm::line_slice_of(n, communicator.rank(), communicator.size());
      EXPECT(std::equal(buffer.data() + slice.first, buffer.data() + slice.last, sum.begin() + slice.first));
      communicator.all_gather(buffer.view());
      EXPECT(std::equal(sum.begin(), sum.end(), buffer.data()));
    }
  }
}

/// Each rank writes twice its slice of the sum to memory that the node's ranks share, block by block.
void slices_are_summed_block_by_block(comm::Communicator& communicator) {
  for (const bool shared : {false, true}) {
    for (const Index n : {Index{1}, Index{40}, Index{1000}, Index{100'000}}) {
      Buffer buffer(n, shared ? communicator.shared_allocator() : plain_allocator());
      const Floats mine = values_of(communicator.rank(), n), sum = sum_of(communicator.size(), n);
      const comm::Slice slice = comm::line_slice_of(n, communicator.rank(), communicator.size());
      const auto memory = communicator.allocate_on_node(static_cast<std::size_t>(n) * sizeof(float));
      const bool is_one_node = memory != nullptr && communicator.node_size() == communicator.size();
      auto* const doubled = reinterpret_cast<float*>(memory.get());
      for (int round = 0; round < 3; ++round) {
        std::copy(mine.begin(), mine.end(), buffer.data());
        Index end = slice.first;
        const comm::Communicator::Summed summed = [&](Index first, Index last) {
          EXPECT(first == end && first < last);
          EXPECT(std::equal(buffer.data() + first, buffer.data() + last, sum.begin() + first));
          if (is_one_node)
            std::transform(sum.begin() + first, sum.begin() + last, doubled + first, [](float x) { return 2 * x; });
          end = last;
        };
        communicator.reduce_scatter_in_blocks(buffer.view(), summed);
        EXPECT(end == slice.last);
        // When it is done, all ranks have written.
        if (is_one_node)
          EXPECT(std::equal(sum.begin(), sum.end(), doubled, [](float x, float y) { return 2 * x == y; }));
        communicator.barrier();
        if (is_one_node) std::fill(doubled + slice.first, doubled + slice.last, 0.0F);
        communicator.barrier();
      }
    }
  }
}

/// One copy for a node is no window of collectives, on any of its ranks.
void sums_in_memory_of_the_node_are_those_of_plain_memory(comm::Communicator& communicator) {
  constexpr Index n = 1000;
  const auto memory = communicator.allocate_on_node(n * sizeof(float) * static_cast<std::size_t>(communicator.size()));
  if (communicator.sum(std::int64_t{memory == nullptr}) > 0) return;
  // Each rank has a part of its own.
  const MutableView own(reinterpret_cast<float*>(memory.get()) + communicator.node_rank() * n, n);
  const Floats mine = values_of(communicator.rank(), n);
  std::ranges::copy(mine, own.begin());
  communicator.allreduce_sum(own);
  EXPECT(std::ranges::equal(own, sum_of(communicator.size(), n)));
  communicator.barrier();
}

/// Of spans of one vector, each summed by halves between sums of other spans.
void halves_of_sums_have_the_bits_of_the_whole(comm::Communicator& communicator) {
  constexpr Index kSpans = 40;  // more than may be in flight
  for (const bool shared : {true, false}) {
    for (const Index n : {1, 33, 1000, 20'000}) {
      Allocator& memory = shared ? communicator.shared_allocator() : plain_allocator();
      Buffer whole(kSpans * n, memory), halves(kSpans * n, memory);
      const Floats mine = rough_values(communicator.rank(), kSpans * n);
      std::ranges::copy(mine, whole.data());
      std::ranges::copy(mine, halves.data());
      std::vector<comm::RequestPtr> requests;
      for (Index i = 0; i < kSpans; ++i) {
        const FloatRange span{i * n, (i + 1) * n};
        requests.push_back(communicator.start_reduce_scatter_sum(part(halves.view(), span)));
        requests.push_back(communicator.start_allreduce_sum(part(whole.view(), span)));
      }
      for (const comm::RequestPtr& request : requests) request->wait();
      const comm::Slice own = comm::line_slice_of(n, communicator.rank(), communicator.size());
      for (Index i = 0; i < kSpans; ++i) {
        EXPECT(std::equal(halves.data() + i * n + own.first, halves.data() + i * n + own.last,
                          whole.data() + i * n + own.first));
      }
      requests.clear();
      for (Index i = 0; i < kSpans; ++i) {
        requests.push_back(communicator.start_all_gather(part(halves.view(), {i * n, (i + 1) * n})));
      }
      for (const comm::RequestPtr& request : requests) request->wait();
      EXPECT(std::ranges::equal(halves.view(), whole.view()));
      communicator.barrier();  // all have looked
    }
  }
}

void bytes_of_any_lengths_are_gathered(comm::Communicator& communicator) {
  for (const Index unit : {0, 1, 70'000}) {  // rank r brings r·unit floats: rank 0 nothing
    const auto all =
        communicator.all_gather_bytes(bytes_of(values_of(communicator.rank(), communicator.rank() * unit)));
    EXPECT(static_cast<int>(all.size()) == communicator.size());
    for (int r = 0; r < communicator.size(); ++r) {
      const Floats expected = values_of(r, r * unit);
      const auto& received = all[static_cast<std::size_t>(r)];
      EXPECT(received.size() == expected.size() * sizeof(float));
      EXPECT(expected.empty() || std::memcmp(received.data(), expected.data(), received.size()) == 0);
    }
  }
}

void texts_travel(comm::Communicator& communicator) {
  const auto texts = communicator.all_gather_text(std::string(static_cast<std::size_t>(communicator.rank()), 'x'));
  for (int r = 0; r < communicator.size(); ++r) {
    EXPECT(texts[static_cast<std::size_t>(r)] == std::string(static_cast<std::size_t>(r), 'x'));
  }
  const int last = communicator.size() - 1;
  EXPECT(communicator.broadcast_text(communicator.rank() == last ? "all play the same note" : "", last) ==
         "all play the same note");
}

void a_ring_of_messages_closes(comm::Communicator& communicator) {
  const int ranks = communicator.size(), next = (communicator.rank() + 1) % ranks,
            before = (communicator.rank() + ranks - 1) % ranks;
  for (const Index n : kSizes) {
    const Floats sent = values_of(communicator.rank(), n);
    Floats received(sent.size());
    const comm::RequestPtr sending = communicator.start_send(bytes_of(sent), next, 3);
    communicator.receive(bytes_of(received), before, 3);
    sending->wait();
    EXPECT(received == values_of(before, n));
  }
}

void messages_keep_their_order_and_their_tags(comm::Communicator& communicator) {
  if (communicator.size() < 2 || communicator.rank() > 1) return;
  const std::vector<int> tags{1, 2, 1, 2};
  std::vector<std::int64_t> numbers{10, 20, 11, 21};
  std::vector<comm::RequestPtr> requests;
  const auto one = [&](std::size_t i) { return std::as_writable_bytes(std::span(&numbers[i], 1)); };
  if (communicator.rank() == 0) {
    for (std::size_t i = 0; i < 4; ++i) requests.push_back(communicator.start_send(one(i), 1, tags[i]));
  } else {
    numbers.assign(4, 0);
    for (const std::size_t i : {1, 3, 0, 2}) requests.push_back(communicator.start_receive(one(i), 0, tags[i]));
  }
  for (const auto& request : requests) request->wait();
  EXPECT(numbers == (std::vector<std::int64_t>{10, 20, 11, 21}));
}

void a_wait_for_a_message_can_be_ended(comm::Communicator& communicator) {
  if (communicator.size() < 2 || communicator.rank() > 1) return;
  const int peer = 1 - communicator.rank();
  std::int64_t sent = 5, received = 0;
  const auto bytes = [](std::int64_t& number) { return std::as_writable_bytes(std::span(&number, 1)); };
  if (communicator.rank() == 0) {
    const comm::RequestPtr request = communicator.start_receive(bytes(received), peer, 4);
    int asked = 0;
    EXPECT(!request->wait_unless([&] { return ++asked == 3; }));  // before the peer is asked to send
    EXPECT(asked == 3 && received == 0);
    communicator.send(bytes(sent), peer, 4);
    EXPECT(request->wait_unless([] { return false; }));
    request->wait();
    EXPECT(received == 5);
  } else {
    communicator.receive(bytes(received), peer, 4);
    const comm::RequestPtr request = communicator.start_send(bytes(received), peer, 4);
    EXPECT(request->wait_unless([] { return false; }));
    request->wait();
  }
}

void weighted_means_count_examples(comm::Communicator& communicator) {
  // Rank r of P has r examples of value 3 + r: rank 0 has none, and no number in its place.
  const int ranks = communicator.size(), rank = communicator.rank();
  Floats values(100, rank == 0 ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(3 + rank));
  communicator.allreduce_weighted_mean(values, rank);
  double weights = 0, sum = 0;
  for (int r = 1; r < ranks; ++r) {
    weights += r;
    sum += r * (3.0 + r);
  }
  for (const float value : values) {
    if (weights == 0) {
      EXPECT(std::isnan(value));  // nobody has examples: untouched
    } else {
      // One rounding of each share, of the P products, and of P − 1 sums, none larger than the mean.
      EXPECT(std::abs(value - sum / weights) <= 2 * ranks * 0x1p-24 * sum / weights);
    }
  }
  expect_same_bits_everywhere(communicator, values);
}

void groups_split_by_colour_and_key(comm::Communicator& communicator) {
  const int ranks = communicator.size(), rank = communicator.rank();
  const auto part = communicator.split(rank % 2, -rank);  // even and odd ranks, each in reverse
  const int members = (ranks + 1 - rank % 2) / 2;
  EXPECT(part->size() == members);
  EXPECT(part->rank() == members - 1 - rank / 2);
  Floats values(1000, static_cast<float>(rank));
  part->allreduce_sum(values);
  int expected = 0;
  for (int r = rank % 2; r < ranks; r += 2) expected += r;
  EXPECT(values == Floats(1000, static_cast<float>(expected)));
  Buffer shared(1000, part->shared_allocator());
  for (float& value : shared.view()) value = static_cast<float>(rank);
  part->allreduce_sum(shared.view());
  EXPECT(std::equal(values.begin(), values.end(), shared.data()));
  EXPECT(communicator.sum(std::int64_t{1}) == ranks);  // the parent goes on
}

void sums_of_two_groups_may_be_in_flight_together(comm::Communicator& communicator) {
  const auto other = communicator.split(0, communicator.rank());
  Floats gradient = values_of(communicator.rank(), 100'000);
  const comm::RequestPtr request = communicator.start_allreduce_sum(gradient);
  comm::CommunicatorReducer reducer(*other);
  std::vector<double> statistics(32, 1.0);
  reducer.sum(statistics);
  EXPECT(statistics == std::vector<double>(32, communicator.size()));
  request->wait();
  EXPECT(gradient == sum_of(communicator.size(), 100'000));
}

void a_node_shares_one_copy(comm::Communicator& communicator) {
  constexpr Index kEach = 1000;
  const auto memory =
      communicator.allocate_on_node(static_cast<std::size_t>(communicator.node_size() * kEach) * sizeof(std::int64_t));
  if (memory == nullptr) return;  // no window to be had
  auto* const copy = reinterpret_cast<std::int64_t*>(memory.get());
  EXPECT(reinterpret_cast<std::uintptr_t>(copy) % kAlignmentBytes == 0);
  for (Index i = 0; i < kEach; ++i) EXPECT(copy[communicator.node_rank() * kEach + i] == 0);
  for (Index i = 0; i < kEach; ++i) copy[communicator.node_rank() * kEach + i] = communicator.node_rank();
  communicator.node_barrier();
  for (int r = 0; r < communicator.node_size(); ++r) {
    for (Index i = 0; i < kEach; ++i) EXPECT(copy[r * kEach + i] == r);
  }
}

}  // namespace

const std::vector<Promise>& promises() {
  static const std::vector<Promise> all{
      {"every rank knows its place", place_in_the_group},
      {"broadcast reaches all from any root", broadcast_from_every_root},
      {"allreduce sums", allreduce_sums},
      {"integers are summed exactly", allreduce_of_integers_is_exact_beyond_doubles},
      {"allreduce takes the largest", allreduce_takes_the_largest},
      {"a sum has the same bits on every rank and in every run", every_rank_and_run_gets_the_same_bits},
      {"started sums are matched in the order of their starts", started_sums_are_matched_in_the_order_of_their_starts},
      {"any number of sums may be in flight", any_number_of_sums_may_be_in_flight},
      {"a started sum ends by testing alone", a_started_sum_ends_by_testing_alone},
      {"the two halves of a sum have the bits of the whole", halves_of_sums_have_the_bits_of_the_whole},
      {"shared memory reduces like plain memory", shared_memory_reduces_like_plain},
      {"parts of shared memory reduce alone", parts_of_shared_memory_reduce_alone},
      {"trees have the same sum on any number of ranks", trees_have_the_same_sum_on_any_number_of_ranks},
      {"shared memory is reused round after round", shared_memory_is_reused_round_after_round},
      {"slices are scattered and gathered", slices_are_scattered_and_gathered},
      {"slices are summed block by block", slices_are_summed_block_by_block},
      {"sums in memory of the node are those of plain memory", sums_in_memory_of_the_node_are_those_of_plain_memory},
      {"bytes of any lengths are gathered", bytes_of_any_lengths_are_gathered},
      {"texts travel", texts_travel},
      {"a ring of messages closes", a_ring_of_messages_closes},
      {"messages keep their order and their tags", messages_keep_their_order_and_their_tags},
      {"a wait for a message can be ended", a_wait_for_a_message_can_be_ended},
      {"weighted means count examples", weighted_means_count_examples},
      {"groups split by colour and key", groups_split_by_colour_and_key},
      {"sums of two groups may be in flight together", sums_of_two_groups_may_be_in_flight_together},
      {"a node shares one copy", a_node_shares_one_copy},
      {"process grids of every shape have their groups", groups_of_every_shape},
      {"what one rank throws ends a grid's groups, and the ranks go on", what_one_rank_throws_ends_the_groups},
  };
  return all;
}

}  // namespace unisono::test
