#include <catch2/catch.hpp>
#include <functional>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

#include "unisono/base/virtual_runtime.hpp"
#include "unisono/comm/simulated.hpp"

// The network of simulated ranks beside SimGrid's fluid model (CM02: latency, then an equal share of each link): when
// is the last message there? Messages that want a link at the same time share it packet by packet here, and fluidly
// there.

namespace {

using namespace unisono;
namespace s4u = simgrid::s4u;

constexpr double kBytesPerSecond = 1e6, kLatency = 1e-3, kPacket = 65536;
constexpr double kApart = 1000;  // seconds between the cases, which SimGrid simulates in one go

/// A message of rank `from`, whose sender starts it at a moment.
struct Sent {
  int from, to;
  std::size_t bytes;
  double at = 0;
};

struct Case {
  std::string name;
  int hosts;
  std::vector<Sent> messages;
  int late_packets = 0;  ///< for which the last one waits here while a link is idle that a fluid would use
};

std::vector<Case> cases() {
  std::vector<Case> all = {
      {"one message", 2, {{0, 1, 1'000'000}}},
      {"two messages to one host", 3, {{0, 2, 1'000'000}, {1, 2, 500'000}}},
      {"two messages from one host", 3, {{0, 1, 1'000'000}, {0, 2, 1'000'000}}},
      {"a ring", 4, {{0, 1, 1'000'000}, {1, 2, 1'000'000}, {2, 3, 1'000'000}, {3, 0, 1'000'000}}},
      {"one that begins while another is under way", 3, {{0, 2, 1'000'000}, {1, 2, 1'000'000, 0.4}}},
      {"slices from all to all", 4, {}},
      {"slices from all to all, to the lowest host first", 4, {}, 3}};
  for (int from = 0; from < 4; ++from) {
    for (int step = 1; step < 4; ++step) all[5].messages.push_back({from, (from + step) % 4, 250'000});
    for (int to = 0; to < 4; ++to) {
      if (to != from) all[6].messages.push_back({from, to, 250'000});
    }
  }
  return all;
}

/// When the last message of a case is there, by unisono's network.
double ours(const Case& one) {
  VirtualRuntime runtime(1, [](int, std::int64_t, std::uint64_t) { return 0.0; });
  const comm::SimulatedNetwork network{.between_hosts = {.bytes_per_second = kBytesPerSecond, .seconds = kLatency},
                                       .in_host = {.bytes_per_second = 1e9, .seconds = 1e-6}};
  double last = 0;
  comm::run_simulated(runtime, one.hosts, network, [&](comm::Communicator& world) {
    std::vector<std::vector<std::byte>> received;
    std::vector<comm::RequestPtr> requests;
    for (std::size_t i = 0; i < one.messages.size(); ++i) {
      if (one.messages[i].to != world.rank()) continue;
      received.emplace_back(one.messages[i].bytes);
      requests.push_back(world.start_receive(received.back(), one.messages[i].from, static_cast<int>(i)));
    }
    world.barrier();  // long messages wait until they are received
    const double begin = runtime.seconds();
    const std::vector<std::byte> sent(1'000'000);
    for (std::size_t i = 0; i < one.messages.size(); ++i) {
      const Sent& message = one.messages[i];
      if (message.from != world.rank()) continue;
      if (message.at > 0) runtime.sleep(begin + message.at - runtime.seconds());
      requests.push_back(world.start_send(std::span(sent).first(message.bytes), message.to, static_cast<int>(i)));
    }
    for (const comm::RequestPtr& request : requests) request->wait();
    last = std::max(last, runtime.seconds() - begin);
  });
  return last;
}

/// Hosts whose links have two directions, as ours have.
std::vector<s4u::Host*> hosts_of(s4u::NetZone& zone, const std::string& name, int count) {
  std::vector<s4u::Host*> hosts;
  std::vector<s4u::Link*> out, in;
  for (int i = 0; i < count; ++i) {
    const std::string own = name + std::to_string(i);
    hosts.push_back(zone.create_host(own, 1e9));
    out.push_back(zone.create_link(own + "-out", kBytesPerSecond)->set_latency(kLatency));
    in.push_back(zone.create_link(own + "-in", kBytesPerSecond)->set_latency(0));
  }
  for (std::size_t from = 0; from < hosts.size(); ++from) {
    for (std::size_t to = 0; to < hosts.size(); ++to) {
      if (from == to) continue;
      zone.add_route(hosts[from]->get_netpoint(), hosts[to]->get_netpoint(), nullptr, nullptr,
                     {s4u::LinkInRoute(out[from]), s4u::LinkInRoute(in[to])}, /*symmetrical=*/false);
    }
  }
  return hosts;
}

/// The same of all cases, by SimGrid, whose engine runs once in a process.
std::vector<double> simgrids(const std::vector<Case>& all) {
  std::vector<std::string> words = {"simgrid_tests", "--cfg=network/model:CM02", "--cfg=network/crosstraffic:0",
                                    "--log=root.thres:error"};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  int count = static_cast<int>(arguments.size());
  s4u::Engine engine(&count, arguments.data());
  auto* const zone = s4u::create_full_zone("all");
  std::vector<double> last(all.size());
  for (std::size_t number = 0; number < all.size(); ++number) {
    const std::vector<s4u::Host*> hosts = hosts_of(*zone, "case" + std::to_string(number) + "-", all[number].hosts);
    const double begin = kApart * static_cast<double>(number);
    for (std::size_t i = 0; i < all[number].messages.size(); ++i) {
      const Sent message = all[number].messages[i];
      const std::string box = std::to_string(number) + "-" + std::to_string(i);
      s4u::Actor::create("from-" + box, hosts[static_cast<std::size_t>(message.from)], [=] {
        static int nothing = 0;
        s4u::this_actor::sleep_until(begin + message.at);
        s4u::Mailbox::by_name(box)->put(&nothing, message.bytes);
      });
      s4u::Actor::create("to-" + box, hosts[static_cast<std::size_t>(message.to)], [=, &last] {
        s4u::Mailbox::by_name(box)->get<int>();
        last[number] = std::max(last[number], s4u::Engine::get_clock() - begin);
      });
    }
  }
  zone->seal();
  engine.run();
  return last;
}

TEST_CASE("the last message of a case is there when SimGrid says so") {
  const std::vector<Case> all = cases();
  const std::vector<double> theirs = simgrids(all);
  for (std::size_t i = 0; i < all.size(); ++i) {
    INFO(all[i].name);
    CHECK(theirs[i] > 0.5);
    CHECK(ours(all[i]) > 0.995 * theirs[i]);  // latencies overlap, or follow each other
    CHECK(ours(all[i]) < 1.005 * (theirs[i] + all[i].late_packets * kPacket / kBytesPerSecond));
  }
}

}  // namespace
