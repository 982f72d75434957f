// Ranks with devices: collectives on memory that the host cannot reach, by both ways.
#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "devices.hpp"
#include "expect.hpp"
#include "unisono/comm/buckets.hpp"
#include "unisono/comm/device.hpp"
#include "unisono/comm/sum_tree.hpp"
#include "unisono/kernels/cuda.hpp"

namespace unisono {
namespace {

/// A rank, its device, and a communicator that knows it.
struct Rank {
  std::unique_ptr<kernels::Backend> backend;
  std::unique_ptr<comm::Communicator> ranks;

  Rank(comm::Communicator& below, comm::DeviceTransport transport)
      : backend(kernels::make_cuda_backend(transport == comm::DeviceTransport::nccl ? below.rank() : 0,
                                           kernels::Precision::fp32)),
        ranks(comm::make_device_communicator(below, *backend->device(), settings(transport))) {}

  Buffer vector(const std::vector<float>& values) const {
    Buffer buffer(static_cast<Index>(values.size()), ranks->shared_allocator());
    backend->memory().copy(values, buffer.view());
    return buffer;
  }
  std::vector<float> values(View there) const {
    std::vector<float> values(there.size());
    backend->memory().copy(there, values);
    return values;
  }
  /// y ← 2 y, in the device's order.
  void double_it(MutableView y) const { backend->axpby(1, y, 1, y); }

 private:
  static comm::CommunicationSettings settings(comm::DeviceTransport transport) {
    comm::CommunicationSettings settings;
    settings.device_transport = transport;
    return settings;
  }
};

/// rank · 1000 + i
std::vector<float> own_values(int rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(1000 * rank) + static_cast<float>(i);
  return values;
}

using Body = std::function<void(Rank&)>;

/// On 1, 2 and 3 ranks: a device each with NCCL, and one for all of them through plain memory.
void on_ranks(const Body& body) {
  for (const auto transport : {comm::DeviceTransport::nccl, comm::DeviceTransport::staged}) {
    for (const int count : {1, 2, 3}) {
      DYNAMIC_SECTION((transport == comm::DeviceTransport::nccl ? "nccl" : "staged") << " on " << count << " ranks") {
        const Devices devices(3);
        comm::run_as_threads(count, [&](comm::Communicator& below) {
          Rank rank(below, transport);
          body(rank);
          rank.backend->device()->synchronise();
          below.barrier();  // a group is ended when all have done with it
        });
      }
    }
  }
}

TEST_CASE("sums over ranks take their place in the device's order", "[gpu][comm]") {
  on_ranks([](Rank& rank) {
    comm::Communicator& ranks = *rank.ranks;
    for (int time = 0; time < 4; ++time) {
      Buffer buffer = rank.vector(own_values(ranks.rank(), 1000));
      rank.double_it(buffer.view());
      ranks.allreduce_sum(buffer.view());
      rank.double_it(buffer.view());
      const std::vector<float> values = rank.values(buffer.view());
      for (std::size_t i = 0; i < values.size(); ++i) {
        float expected = 0;
        for (int r = 0; r < ranks.size(); ++r) expected += 4 * own_values(r, i + 1)[i];
        EXPECT(values[i] == expected);
      }
    }
  });
}

TEST_CASE("sums of doubles, broadcasts, parts of sums and their gathering", "[gpu][comm]") {
  on_ranks([](Rank& rank) {
    comm::Communicator& ranks = *rank.ranks;
    const int size = ranks.size();
    std::vector<double> doubles = {1.0 / (ranks.rank() + 3), 2};
    Buffer buffer(64, rank.backend->memory());
    const MutableView two_doubles = buffer.view().first(4);
    rank.backend->memory().copy({reinterpret_cast<const float*>(doubles.data()), 4}, two_doubles);
    ranks.allreduce_sum(as_doubles(two_doubles));
    rank.backend->memory().copy(two_doubles, {reinterpret_cast<float*>(doubles.data()), 4});
    double expected = 0;
    for (int r = 0; r < size; ++r) expected += 1.0 / (r + 3);
    EXPECT(std::abs(doubles[0] - expected) < 1e-15);
    EXPECT(doubles[1] == 2 * size);

    for (const std::size_t count : {std::size_t{192}, std::size_t{61}}) {
      Buffer values = rank.vector(own_values(ranks.rank(), count));
      ranks.reduce_scatter_sum(values.view());
      const comm::Slice own = comm::line_slice_of(static_cast<Index>(count), ranks.rank(), size);
      const auto parts = rank.values(values.view());
      for (Index i = own.first; i < own.last; ++i) {
        EXPECT(parts[static_cast<std::size_t>(i)] ==
               static_cast<float>(size) * (500.0F * static_cast<float>(size - 1) + static_cast<float>(i)));
      }
      Buffer whole = rank.vector(own_values(ranks.rank(), count));
      ranks.all_gather(whole.view());
      const auto gathered = rank.values(whole.view());
      for (int r = 0; r < size; ++r) {
        const comm::Slice part = comm::line_slice_of(static_cast<Index>(count), r, size);
        for (Index i = part.first; i < part.last; ++i) {
          EXPECT(gathered[static_cast<std::size_t>(i)] == 1000.0F * static_cast<float>(r) + static_cast<float>(i));
        }
      }
      Buffer sent = rank.vector(own_values(ranks.rank(), count));
      ranks.broadcast(std::as_writable_bytes(sent.view()), size - 1);
      EXPECT(rank.values(sent.view()) == own_values(size - 1, count));
    }
  });
}

TEST_CASE("a mean over ranks leaves out what has no weight, whatever it is", "[gpu][comm]") {
  on_ranks([](Rank& rank) {
    comm::Communicator& ranks = *rank.ranks;
    if (ranks.size() == 1) return;
    std::vector<float> own(40, static_cast<float>(ranks.rank() + 1));
    if (ranks.rank() == 0) own.assign(40, std::numeric_limits<float>::quiet_NaN());
    Buffer buffer = rank.vector(own);
    ranks.allreduce_weighted_mean(buffer.view(), ranks.rank());  // rank 0 has none
    double sum = 0, weights = 0;
    for (int r = 1; r < ranks.size(); ++r) {
      sum += r * (r + 1);
      weights += r;
    }
    for (const float value : rank.values(buffer.view())) EXPECT(std::abs(value - sum / weights) < 1e-6);
    Buffer kept = rank.vector(own_values(ranks.rank(), 10));
    ranks.allreduce_weighted_mean(kept.view(), 0);
    EXPECT(rank.values(kept.view()) == own_values(ranks.rank(), 10));
  });
}

TEST_CASE("buckets of a gradient are summed while others are computed", "[gpu][comm]") {
  on_ranks([](Rank& rank) {
    comm::Communicator& ranks = *rank.ranks;
    constexpr Index kSize = 10'000;
    Buffer gradient = rank.vector(own_values(ranks.rank(), kSize));
    comm::GradientBuckets buckets(ranks, gradient.view(), 4096);
    for (int step = 0; step < 4; ++step) {
      rank.backend->memory().copy(own_values(ranks.rank(), kSize), gradient.view());
      for (Index last = kSize; last > 0; last -= 1000) {
        rank.double_it(gradient.view().subspan(static_cast<std::size_t>(last - 1000), 1000));
        buckets.ready(last - 1000, last);
      }
      buckets.finish();
      rank.double_it(gradient.view());
      const auto values = rank.values(gradient.view());
      for (std::size_t i = 0; i < values.size(); i += 97) {
        float expected = 0;
        for (int r = 0; r < ranks.size(); ++r) expected += 4 * (static_cast<float>(1000 * r) + static_cast<float>(i));
        EXPECT(values[i] == expected);
      }
    }
  });
}

TEST_CASE("what is submitted while buckets are under way changes nothing", "[gpu][comm]") {
  on_ranks([](Rank& rank) {
    comm::Communicator& ranks = *rank.ranks;
    constexpr Index kSize = 2000, kExamples = 8192;
    const kernels::Extent extent{1, 1, 1};
    const std::vector<std::uint64_t> examples(static_cast<std::size_t>(kExamples));  // 64 KB in each dropout
    Buffer gradient = rank.vector(own_values(ranks.rank(), kSize));
    Buffer x(rank.backend->activation_size(extent, kExamples), rank.backend->memory());
    comm::GradientBuckets buckets(ranks, gradient.view(), 4000);
    for (int step = 0; step < 6; ++step) {
      rank.backend->memory().copy(own_values(ranks.rank(), kSize), gradient.view());
      buckets.ready(1000, kSize);
      for (std::uint32_t layer = 0; layer < 10; ++layer) {
        rank.backend->dropout({.layer = layer, .rate = 0.5F}, extent, examples, x.view(), x.view());
      }
      buckets.ready(0, 1000);
      buckets.finish();
      const std::vector<float> sums = rank.values(gradient.view());
      for (std::size_t i = 0; i < sums.size(); i += 97) {
        float expected = 0;
        for (int r = 0; r < ranks.size(); ++r) expected += own_values(r, i + 1)[i];
        EXPECT(sums[i] == expected);
      }
    }
  });
}

TEST_CASE("messages between devices, and a group of some ranks", "[gpu][comm]") {
  on_ranks([](Rank& rank) {
    comm::Communicator& ranks = *rank.ranks;
    const int next = (ranks.rank() + 1) % ranks.size(), before = (ranks.rank() + ranks.size() - 1) % ranks.size();
    Buffer own = rank.vector(own_values(ranks.rank(), 100)), other(100, rank.backend->memory());
    rank.double_it(own.view());
    const comm::RequestPtr receive = ranks.start_receive(std::as_writable_bytes(other.view()), before, 3);
    const comm::RequestPtr send = ranks.start_send(std::as_bytes(View(own.view())), next, 3);
    std::vector<comm::Request*> messages = {receive.get()};
    EXPECT(ranks.wait_any(messages, [] { return false; }) == std::vector<std::size_t>{0});
    receive->wait();
    send->wait();
    rank.double_it(other.view());
    std::vector<float> expected = own_values(before, 100);
    for (float& value : expected) value *= 4;
    EXPECT(rank.values(other.view()) == expected);

    Buffer ones = rank.vector(std::vector<float>(16, 1));
    {
      const auto group = ranks.split(ranks.rank() == 0 ? 0 : 1, ranks.rank());
      group->allreduce_sum(ones.view());
      EXPECT(rank.values(ones.view())[7] == static_cast<float>(group->size()));
      rank.backend->device()->synchronise();
    }
    Buffer more = rank.vector(std::vector<float>(16, 1));  // all of them go on without the group
    ranks.allreduce_sum(more.view());
    EXPECT(rank.values(more.view())[7] == static_cast<float>(ranks.size()));
  });
}

TEST_CASE("sums in the order of a tree, each rank with the nodes that it has", "[gpu][comm]") {
  constexpr int kLeaves = 6;
  constexpr std::size_t kSize = 1000;
  const auto leaf = [](int number, std::size_t i) {
    return 1.0F / static_cast<float>(number + 3 + static_cast<int>(i));
  };
  on_ranks([&](Rank& rank) {
    comm::Communicator& ranks = *rank.ranks;
    const comm::SumTree tree(kLeaves);
    std::vector<comm::Slice> shares;
    for (int r = 0; r < ranks.size(); ++r) shares.push_back(comm::slice_of(kLeaves, r, ranks.size()));
    const comm::TreeSum order(tree, shares);
    const std::function<float(comm::SumTree::Node, std::size_t)> value = [&](comm::SumTree::Node node, std::size_t i) {
      if (node.level == 0) return leaf(node.number, i);
      const float left = value(comm::SumTree::left(node), i);
      const comm::SumTree::Node right = comm::SumTree::right(node);
      return tree.is_empty(right) ? left : left + value(right, i);
    };
    for (int time = 0; time < 3; ++time) {
      std::vector<Buffer> buffers;
      for (int i = 0; i < order.vectors; ++i) buffers.emplace_back(kSize, ranks.shared_allocator());
      const auto nodes = tree.cover(shares[static_cast<std::size_t>(ranks.rank())]);
      for (std::size_t n = 0; n < nodes.size(); ++n) {
        std::vector<float> values(kSize);
        for (std::size_t i = 0; i < kSize; ++i) values[i] = value(nodes[n], i) / 2;
        Buffer& own = buffers[static_cast<std::size_t>(comm::TreeSum::vector_of(n, nodes.size()))];
        rank.backend->memory().copy(values, own.view());
        rank.double_it(own.view());
      }
      std::vector<comm::RequestPtr> parts;
      for (const std::size_t first : {std::size_t{500}, std::size_t{0}}) {
        std::vector<std::span<float>> vectors;
        for (Buffer& buffer : buffers) vectors.push_back(buffer.view().subspan(first, 500));
        parts.push_back(ranks.start_tree_sum(vectors, order));
      }
      for (const comm::RequestPtr& part : parts) part->wait();
      rank.double_it(buffers.front().view());
      const std::vector<float> sum = rank.values(buffers.front().view());
      for (std::size_t i = 0; i < kSize; ++i) EXPECT(sum[i] == 2 * value(tree.root(), i));
    }
  });
}

TEST_CASE("messages in the order of the devices' work go there and back", "[gpu][comm]") {
  on_ranks([](Rank& rank) {
    comm::Communicator& ranks = *rank.ranks;
    comm::DeviceMessages* const messages = comm::device_messages(ranks);
    if (messages == nullptr || ranks.size() == 1) return;
    constexpr std::size_t kSize = 300;
    const int own = ranks.rank(), last = ranks.size() - 1;
    Buffer buffer(static_cast<Index>(kSize), rank.backend->memory());
    // Each rank passes on what it gets, doubled: to the last one, and back.
    for (int round = 0; round < 5; ++round) {
      if (own == 0) rank.backend->memory().copy(own_values(round, kSize), buffer.view());
      if (own > 0) messages->start_receive(buffer.view(), own - 1)->wait();
      rank.double_it(buffer.view());
      if (own < last) {
        messages->start_send(buffer.view(), own + 1)->wait();
        messages->start_receive(buffer.view(), own + 1)->wait();
      }
      rank.double_it(buffer.view());
      if (own > 0) messages->start_send(buffer.view(), own - 1)->wait();
      if (own > 0) continue;
      const float factor = std::exp2(2.0F * static_cast<float>(ranks.size()));
      const std::vector<float> values = rank.values(buffer.view());
      for (std::size_t i = 0; i < kSize; ++i) EXPECT(values[i] == factor * own_values(round, kSize)[i]);
    }
  });
}

TEST_CASE("a rank that fails does not leave the others waiting for their devices", "[gpu][comm]") {
  const Devices devices(2);
  std::atomic<bool> other_stopped = false;
  const auto body = [&](comm::Communicator& below) {
    Rank rank(below, comm::DeviceTransport::nccl);
    const auto group = rank.ranks->split(0, below.rank());
    if (below.rank() == 1) throw DataError("no more examples");
    try {
      Buffer buffer = rank.vector(own_values(0, 100)), other = rank.vector(own_values(0, 100));
      rank.ranks->allreduce_sum(buffer.view());
      group->allreduce_sum(other.view());
      rank.backend->device()->synchronise();
    } catch (const comm::PeerFailure&) {
      other_stopped = true;
      throw;
    }
  };
  CHECK_THROWS_AS(comm::run_as_threads(2, body, 20), DataError);
  CHECK(other_stopped);
}

}  // namespace
}  // namespace unisono
