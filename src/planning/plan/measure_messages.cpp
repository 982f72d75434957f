#include "plan/measure_messages.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "unisono/base/clock.hpp"
#include "unisono/base/median.hpp"
#include "unisono/base/random.hpp"
#include "unisono/optim/optimizer.hpp"
#include "unisono/parallel/exchange.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::planning {
namespace {

constexpr double kSecondsOfSums = 0.5;  // of a round, if one sum is shorter
constexpr int kRepeats = 5;             // of which the median counts

// Messages ------------------------------------------------------------------------------------------------------------

/// Bytes of vectors whose sums are timed, about four to a factor of ten.
std::vector<double> sizes_of_sums(double most) {
  std::vector<double> sizes;
  for (double size = 256; size < most; size *= 4) sizes.push_back(size);
  sizes.push_back(most);
  return sizes;
}

/// Seconds of one of so many exchanges that follow each other, on the slowest rank. Collective.
double slowest_seconds(comm::Communicator& ranks, int times, const std::function<void()>& exchange) {
  ranks.barrier();
  const Stopwatch watch;
  for (int i = 0; i < times; ++i) exchange();
  std::array<double, 1> slowest = {watch.seconds() / times};
  ranks.allreduce_max(std::span<double>(slowest));
  return slowest[0];
}

/// The median of some rounds of them.
double median_seconds(comm::Communicator& ranks, int times, const std::function<void()>& exchange) {
  std::vector<double> rounds;
  for (int round = 0; round < kRepeats; ++round) rounds.push_back(slowest_seconds(ranks, times, exchange));
  return median_of(rounds);
}

SumCurve time_sums(comm::Communicator& group, double most_bytes, Allocator& memory) {
  SumCurve curve;
  Buffer values(static_cast<Index>(most_bytes / sizeof(float)), memory);
  for (const double bytes : sizes_of_sums(most_bytes)) {
    const auto span = values.view().first(static_cast<std::size_t>(bytes / sizeof(float)));
    const auto sum = [&] { group.allreduce_sum(span); };
    // Several calls follow each other, as those of steps do: links are slow at first.
    const double first = std::max(slowest_seconds(group, 1, sum), 1e-9);
    const int calls = static_cast<int>(std::clamp(kSecondsOfSums / first, 1.0, 8.0));
    curve.bytes.push_back(bytes);
    curve.seconds.push_back(std::max(median_seconds(group, calls, sum), 1e-9));
  }
  return curve;
}

/// Each rank of a ring sends as many bytes to the next one.
void pass_on(comm::Communicator& ring, std::span<const std::byte> sent, std::span<std::byte> received) {
  constexpr int kTag = 1;
  const int next = (ring.rank() + 1) % ring.size(), before = (ring.rank() + ring.size() - 1) % ring.size();
  const auto receive = ring.start_receive(received, before, kTag);
  ring.send(sent, next, kTag);
  receive->wait();
}

/// Each rank of a ring sends to the next one, all at once. The speed is that of what a long message has more than a
/// shorter one: links and buffers take the first part of it faster. \param longest bytes of the exchanges that follow
Link time_ring(comm::Communicator& ring, double longest) {
  constexpr std::size_t kShort = 8;
  constexpr int kShortOnes = 16;
  const auto most = static_cast<std::size_t>(std::clamp(longest, 1e6, 16e6)), less = most / 4;
  std::vector<std::byte> sent(most), received(most);
  const auto seconds = [&](std::size_t bytes, int times = 1) {
    return median_seconds(ring, times,
                          [&] { pass_on(ring, std::span(sent).first(bytes), std::span(received).first(bytes)); });
  };
  const double latency = seconds(kShort, kShortOnes), whole = std::max(seconds(most), 1e-9);
  const double more =
      std::max(whole - seconds(less), whole / 4);  // three quarters of the bytes, however it is disturbed
  return {.microseconds = 1e6 * latency, .megabytes_per_second = 1e-6 * static_cast<double>(most - less) / more};
}

/// The share of a link's speed that messages get while each rank sends to all others, all at once. Collective.
/// \param ranks more than two, each on a host of its own \param longest bytes of the exchanges that follow
double time_crowded_link(comm::Communicator& ranks, const Link& ring, double longest) {
  constexpr int kTag = 1, kTimes = 4;
  const auto peers = static_cast<std::size_t>(ranks.size()), others = peers - 1;
  const std::size_t bytes = static_cast<std::size_t>(std::clamp(longest, 1e6, 16e6)) / others;
  std::vector<std::byte> sent(bytes), received(bytes * peers);
  const auto exchange = [&] {
    std::vector<comm::RequestPtr> requests;
    for (std::size_t i = 1; i < peers; ++i) {
      const auto peer = (static_cast<std::size_t>(ranks.rank()) + i) % peers;
      const auto room = std::span(received).subspan(peer * bytes, bytes);
      requests.push_back(ranks.start_receive(room, static_cast<int>(peer), kTag));
      requests.push_back(ranks.start_send(sent, static_cast<int>(peer), kTag));
    }
    for (const comm::RequestPtr& request : requests) request->wait();
  };
  const double alone = ring.latency() + static_cast<double>(bytes * others) / ring.bytes_per_second();
  return std::min(alone / median_seconds(ranks, kTimes, exchange), 1.0);
}

/// The share of the speed between hosts that messages get while all ranks compute: sending takes time of their cores,
/// too. One rank of each host sends. Collective. \param ring of these \param longest bytes of the exchanges that follow
double time_busy_link(comm::Communicator& world, comm::Communicator& ring, const std::function<void()>& compute,
                      const Link& idle, double longest) {
  constexpr int kMost = 1000;
  constexpr double kSeconds = 0.5;  // if the link were idle
  const auto bytes = static_cast<std::size_t>(std::clamp(longest, 1e6, 4e6));
  const double alone = idle.latency() + static_cast<double>(bytes) / idle.bytes_per_second();
  const int count = static_cast<int>(std::clamp(kSeconds / alone, 2.0, 1.0 * kMost));
  std::vector<std::byte> sent(bytes), received(bytes);
  std::array<double, 1> slowest = {0};
  parallel::Background thread("messages beside steps");
  world.barrier();
  const auto messages = thread.start([&] {
    if (world.node_rank() != 0) return;
    const Stopwatch watch;
    for (int i = 0; i < count; ++i) pass_on(ring, sent, received);
    slowest[0] = watch.seconds();
  });
  do compute();
  while (!messages->test());
  messages->wait();
  world.barrier();
  world.allreduce_max(std::span<double>(slowest));
  return std::min(count * alone / slowest[0], 1.0);
}

// Encoders ------------------------------------------------------------------------------------------------------------

/// Values that are distributed as gradients roughly are, as many as a bucket has at most: sums are made of buckets.
std::vector<float> drawn_gradient(const comm::Communicator& world, Index floats) {
  const Index bucket = world.bucket_bytes() / Index{sizeof(float)};
  std::vector<float> drawn(static_cast<std::size_t>(std::min(floats, bucket)));
  RandomStream random(1, Purpose::compression);
  for (float& value : drawn) value = random.normal();
  return drawn;
}

EncoderSpeed time_encoder(kernels::Encoder& encoder, const std::string& of, const std::vector<float>& drawn) {
  const auto n = static_cast<Index>(drawn.size());
  std::vector<float> values, sum(drawn.size());
  std::vector<std::byte> message(static_cast<std::size_t>(encoder.most_bytes(n)));
  std::vector<double> encode, add;
  Index bytes = 0;
  for (int round = 0; round < kRepeats; ++round) {
    values = drawn;
    const Stopwatch encoding;
    bytes = encoder.encode(values, {.step = static_cast<std::uint64_t>(round)}, message);
    encode.push_back(encoding.seconds());
    const Stopwatch adding;
    encoder.add(std::span(std::as_const(message)).first(static_cast<std::size_t>(bytes)), sum);
    add.push_back(adding.seconds());
  }
  const auto count = static_cast<double>(n);
  return {.of = of,
          .encode_ns = std::max(1e9 * median_of(encode) / count, EncoderSpeed::kLeast),
          .add_ns = std::max(1e9 * median_of(add) / count, EncoderSpeed::kLeast),
          .bytes_per_float = static_cast<double>(bytes) / count};
}

/// Bytes of the largest sum that a whole-batch method makes over ranks: of small models, more than θ has.
double bytes_of_sums_of_methods(const Measured& measured, int ranks) {
  if (!measured.config.whole_batch()) return 0;
  const int states = optim::optimizer_state_vectors(measured.config.optimizer);
  const auto traffic =
      strategies::make_strategy(measured.config.strategy)->traffic(measured.model, ranks, states, measured.data);
  Index most = 0;
  for (const strategies::Exchange& exchange : traffic->exchanges) {
    if (exchange.pattern == strategies::Pattern::sum) most = std::max(most, exchange.floats);
  }
  return sizeof(float) * static_cast<double>(most);
}

}  // namespace

void time_messages(comm::Communicator& world, const Measured& measured, const std::function<void()>& compute,
                   Profile& profile) {
  const auto whole = static_cast<double>(sizeof(float)) * static_cast<double>(measured.model.layout().size());
  double bytes = std::min(whole, std::max(1e6, profile.memory_limit() / 8));
  bytes = std::max(bytes, bytes_of_sums_of_methods(measured, world.size()));
  const auto host = world.split(world.node(), world.rank());
  if (host->size() > 1) {
    profile.sums_in_host = time_sums(*host, bytes, host->shared_allocator());
    profile.sums_of_layers = time_sums(*host, bytes, page_allocator());
    profile.in_host = time_ring(*host, bytes);
  }
  if (profile.hosts > 1) {
    profile.sums_of_all = time_sums(world, bytes, world.shared_allocator());
    const auto same_place = world.split(world.node_rank(), world.rank());
    if (world.node_rank() == 0) profile.between_hosts = time_ring(*same_place, bytes);
    if (profile.hosts > 2 && world.node_rank() == 0) {
      profile.crowded_link_share = time_crowded_link(*same_place, profile.between_hosts, bytes);
    }
    world.barrier();
    if (compute) {
      profile.busy_link_share = time_busy_link(world, *same_place, compute, profile.between_hosts, bytes);
    }
  }
  const std::vector<float> drawn = drawn_gradient(world, measured.model.layout().size());
  for (const Way& way : measured.ways) {
    const auto traffic = strategies::make_strategy(way.config.strategy)->traffic(measured.model, 2, 0, measured.data);
    if (!traffic || std::ranges::none_of(traffic->exchanges, &strategies::Exchange::encoded)) continue;
    profile.encoders.push_back(traffic->encoder ? time_encoder(*traffic->encoder, way.name, drawn)
                                                : EncoderSpeed{.of = way.name,
                                                               .encode_ns = EncoderSpeed::kLeast,
                                                               .add_ns = EncoderSpeed::kLeast,
                                                               .bytes_per_float = sizeof(float)});
  }
}

}  // namespace unisono::planning
