#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "plan/network.hpp"
#include "plan/prediction.hpp"
#include "plan/profile.hpp"
#include "planned_network.hpp"
#include "scratch_folder.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/planning/planning.hpp"
#include "unisono/settings/config.hpp"

using namespace unisono;
using namespace unisono::planning;
using strategies::Exchange;
using strategies::Pattern;

namespace {

/// Links without latency: 1 GB/s in a host, 100 MB/s between hosts.
Profile profile_of_links() {
  Profile profile{.cpu = "a CPU", .model = "a model"};
  profile.one_rank = {{1, 2}, {0.001, 0.002}, {0.0015, 0.0025}, {0.0005, 0.0005}};
  profile.one_host = profile.all_hosts = profile.one_rank;
  profile.waiting = {{0.001, 0.1}, {1.3, 1.1}};
  profile.in_host.megabytes_per_second = 1000;
  profile.between_hosts.megabytes_per_second = 100;
  profile.sums_in_host = {{1e6, 2e6}, {0.001, 0.002}};
  return profile;
}

/// Of 1 MB.
ExchangeCost cost(const Profile& profile, const Ranks& ranks, const Exchange& exchange) {
  return Network(profile, ranks, /*measured_links=*/false).cost(exchange, 1e6);
}

}  // namespace

TEST_CASE("curves go through what was measured, in straight lines", "[plan]") {
  const Curve curve{{1, 2, 4}, {10, 12, 20}};
  CHECK(curve.at(1) == Approx(10));
  CHECK(curve.at(1.5) == Approx(11));
  CHECK(curve.at(4) == Approx(20));
  CHECK(curve.at(6) == Approx(28));
  CHECK(curve.at(0.5) == Approx(9));
  CHECK(Curve{{2}, {3}}.at(4) == Approx(6));
  // Never less than in proportion before the first size, and never less than the last one behind it.
  CHECK(Curve{{1, 2}, {1, 3}}.at(0.1) == Approx(0.1));
  CHECK(Curve{{1, 2}, {3, 1}}.at(4) == Approx(1));
}

TEST_CASE("exchanges send what their patterns say", "[plan]") {
  const Profile profile = profile_of_links();
  const Ranks alone{1, 1}, three{3, 1}, host{1, 2}, four{2, 2};

  for (const Pattern pattern : {Pattern::sum, Pattern::slices, Pattern::gather, Pattern::neighbours, Pattern::serve}) {
    CHECK(cost(profile, alone, {.pattern = pattern}).seconds() == 0);
  }
  // An allreduce: each of three hosts sends a third of its vector to each of two others, and then the sums.
  CHECK(cost(profile, three, {.pattern = Pattern::sum}).sent_bytes == Approx(2 * 2e6 / 3));
  CHECK(cost(profile, three, {.pattern = Pattern::sum}).seconds() == Approx(2 * 2e6 / 3 / 1e8));
  CHECK(cost(profile, host, {.pattern = Pattern::sum}).seconds() == Approx(0.001));
  CHECK(cost(profile, host, {.pattern = Pattern::sum}).sent_bytes == 0);
  CHECK(cost(profile, four, {.pattern = Pattern::sum}).sent_bytes == Approx(1e6));
  CHECK(cost(profile, four, {.pattern = Pattern::sum}).seconds() == Approx(0.001 + 1e6 / 1e8));
  // Everybody's message to everybody: two ranks, two receivers elsewhere.
  CHECK(cost(profile, four, {.pattern = Pattern::gather}).sent_bytes == Approx(4e6));
  CHECK(cost(profile, four, {.pattern = Pattern::slices}).sent_bytes == Approx(2 * 2 * 2 * 1e6 / 4));
  CHECK(cost(profile, four, {.pattern = Pattern::serve}).sent_bytes == Approx(1e6));

  const Exchange ring{.pattern = Pattern::neighbours, .rounds = 1, .receivers = [](int, int rank) {
                        return std::vector<int>{(rank + 1) % 4, (rank + 3) % 4};
                      }};
  CHECK(cost(profile, four, ring).sent_bytes == Approx(2e6));
  const Exchange drawn{.pattern = Pattern::neighbours};
  CHECK(cost(profile, four, drawn).sent_bytes == Approx(2 * 2.0 / 3 * 1e6));
}

TEST_CASE("short sums are sent whole, in one message to each host", "[plan]") {
  Profile profile = profile_of_links();
  profile.between_hosts.microseconds = 100;
  const Network network(profile, {3, 1}, false);
  CHECK(network.cost({.pattern = Pattern::sum}, 1000).seconds() == Approx(100e-6 + 2000 / 1e8));
  CHECK(network.cost({.pattern = Pattern::sum}, 1000).sent_bytes == Approx(2000));
}

TEST_CASE("sums of all ranks are as measured on the ranks that were measured", "[plan]") {
  Profile profile = profile_of_links();
  profile.hosts = 3;
  profile.sums_of_all = {{1e6, 2e6}, {0.05, 0.1}};
  const Exchange sum{.pattern = Pattern::sum};
  CHECK(Network(profile, {3, 1}, true).cost(sum, 1e6).seconds() == Approx(0.05));
  CHECK(Network(profile, {3, 1}, false).cost(sum, 1e6).seconds() == Approx(2 * 2e6 / 3 / 1e8));
  CHECK(Network(profile, {2, 1}, true).cost(sum, 1e6).seconds() == Approx(1e6 / 1e8));
}

TEST_CASE("threads that wait take the more from a computation, the shorter their waits are", "[plan]") {
  Profile profile = profile_of_links();
  const auto gradient = [&profile](std::vector<strategies::Wait> waits) {
    const strategies::Traffic traffic{.waits = std::move(waits)};
    return computing_seconds(profile, {1, 2}, 1, &traffic).gradient;
  };
  profile.waiting = {{0.0001, 0.01}, {2, 1.2}};
  CHECK(profile.waiting.factor_at(0.00001) == Approx(2));
  CHECK(profile.waiting.factor_at(0.001) == Approx(1.6));  // half-way in the logarithm
  CHECK(profile.waiting.factor_at(1) == Approx(1.2));
  CHECK(gradient({}) == Approx(0.001));
  CHECK(gradient({{}}) == Approx(0.0016));
  CHECK(gradient({{.per_step = 10}}) == Approx(0.002));
  CHECK(gradient({{.per_step = 0.1}}) == Approx(0.0012));
  CHECK(gradient({{.threads = 0.5}, {.threads = 0.5}}) == Approx(0.0016));
  profile.waiting = {{1}, {1.5}};
  CHECK(gradient({{}}) == Approx(0.0015));
  profile.waiting = {};
  CHECK(gradient({{}}) == Approx(0.001));
}

TEST_CASE("what computing hides of an exchange depends on the link's share beside it", "[plan]") {
  const Exchange beside{.every_steps = 2, .during = strategies::During::gradient};
  CHECK(exposed(beside, 10, {.passes = 4}) == Approx(3));
  CHECK(exposed(beside, 10, {.link_share = 0.5, .passes = 4}) == Approx(4));
  CHECK(exposed({}, 10, {.link_share = 0.5, .passes = 4}) == Approx(10));
}

TEST_CASE("between hosts that keep their own pace, messages meet those of others, and others compute meanwhile",
          "[plan]") {
  Profile profile = slow_profile();
  profile.one_rank = profile.one_host = profile.all_hosts = {{1, 32}, {0.1, 3.2}, {0.1, 3.2}, {1e-12, 1e-12}};
  profile.busy_link_share = 0.6;
  profile.crowded_link_share = 0.8;
  PlannedNetwork network(profile);
  const auto predicted = [&](const std::string& kind) {
    const Way way{.name = kind, .config = PlannedNetwork::config({"strategy.kind=\"" + kind + "\""})};
    return predict(network.planned(), way, {3, 1});
  };
  const double theta = 4 * 80 * sizeof(float) / 1000.0;  // seconds of it on a link
  const auto speed = [](const Prediction& step) {
    const double busy = (step.gradient + step.update + step.messages) / step.seconds();
    return 1 - busy * (1 - 0.6);
  };

  // Two thirds of θ are pulled, and as much is pushed meanwhile. While a host pulls, others push to it for a share of
  // the time, and the other way round.
  const Prediction served = predicted("parameter_server");
  const double pull = served.exposed, share = pull / served.seconds();
  const auto lasts = [&](double own, double others) {
    return theta * 2 / 3 * (1 + others) / (1 - own * (1 - 0.8)) / speed(served);
  };
  double push = 0;
  for (int round = 0; round < 100; ++round) push = lasts(push / served.seconds(), share);
  CHECK(pull == Approx(lasts(share, push / served.seconds())).epsilon(1e-6));
  CHECK(push < served.seconds());
  CHECK(pull > 1.2 * theta * 2 / 3);

  // Of three ranks, two begin exchanges, which the third one answers in turn.
  const Prediction gossip = predicted("gossip_async");
  const double exchange = gossip.exposed + 0.6 * gossip.gradient / speed(gossip);  // a part is hidden
  CHECK(exchange == Approx(theta * (1 + exchange / gossip.seconds()) / speed(gossip)).epsilon(1e-6));
  CHECK(exchange > 1.8 * theta);
  CHECK(gossip.sent_bytes == Approx(2 * served.sent_bytes * 3 / 4));  // θ twice, where servers get 2/3 of it twice
  CHECK(cost(profile, {2, 1}, {.pattern = Pattern::serve}).link == Approx(500));  // there is only one other host

  // Gradients take longer only while others compute, too.
  const double alone_on_cores = served.gradient;
  network.profile.all_hosts.gradient = network.profile.all_hosts.whole = {0.3, 9.6};
  const Prediction shared = predicted("parameter_server");
  const double busy = (shared.gradient + shared.update + shared.messages) / shared.seconds();
  CHECK(busy < 1);
  CHECK(shared.gradient == Approx(alone_on_cores * (1 + 2 * busy)).epsilon(1e-6));
}

TEST_CASE("compressed sums add to a step what was measured, or what they are made of and the rest of it", "[plan]") {
  constexpr double kNanosecond = 1e-9;
  Profile profile = slow_profile();
  profile.ranks_per_host = 2;
  profile.encoders = {{.of = "bf16", .encode_ns = 100, .add_ns = 50, .bytes_per_float = 2, .in_host_ns = 1000}};
  const PlannedNetwork network(profile);
  const Way way{
      .name = "bf16",
      .config = PlannedNetwork::config({"strategy.kind=\"allreduce\"", "strategy.compression.kind=\"bf16\""})};
  const auto traffic = strategies::make_strategy(way.config.strategy)->traffic(*network.model, 2, 0, network.data);
  const auto floats = static_cast<double>(traffic->exchanges.front().floats);
  CHECK(predict(network.planned(), way, {1, 2}).messages == Approx(1000 * kNanosecond * floats));
  // Each encodes it and its slice of the sum, and adds up slices and sums; the host's ranks took the rest longer.
  const double modelled = 100 * 1.25 + 50 * 2, rest = 1000 - 100 * 1.5 - 50 * 2;
  CHECK(predict(network.planned(), way, {2, 2}).messages == Approx((modelled + rest) * kNanosecond * floats));
}

TEST_CASE("a profile's text gives the same profile", "[plan]") {
  Profile profile = profile_of_links();
  profile.encoders = {{"allreduce, bf16", 1.5, 0.5, 2}};
  profile.segments = {{1e-6, 2e-6}, {3e-6, 4e-6}, {5e-6, 6e-6}};
  profile.memory_mebibytes = 512;
  profile.busy_link_share = 0.5;
  profile.crowded_link_share = 0.75;
  const testing::ScratchFolder folder;
  const auto read = [&](const std::string& written) { return read_profile(folder.file("profile.toml", written)); };
  const std::string text = text_of(profile);
  CHECK(text_of(read(text)) == text);
  CHECK(read(text).busy_link_share == 0.5);
  CHECK(read(text).crowded_link_share == 0.75);

  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const auto at = changed.find(from);
    REQUIRE(at != std::string::npos);
    return changed.replace(at, from.size(), to);
  };
  CHECK_THROWS_WITH(read(replaced("hosts = 1", "hosts = 2")), Catch::Contains("sums_of_all"));
  CHECK_THROWS_WITH(read(replaced("gradient = [0.001, 0.002]", "gradient = [0.001]")), Catch::Contains("examples"));
  CHECK_THROWS_WITH(read(replaced("gradient = [0.001, 0.002]", "gradient = [0.001, -1.0]")),
                    Catch::Contains("above 0"));
  CHECK_THROWS_WITH(read(replaced("examples = [1.0, 2.0]", "examples = [2.0, 1.0]")), Catch::Contains("ascend"));
  CHECK_THROWS_WITH(read(replaced("forward = [1e-06, 2e-06]", "forward = [1e-06]")), Catch::Contains("segment"));
  CHECK_THROWS_WITH(read(replaced("memory_mebibytes = 512", "memory_mebibytes = -1")), Catch::Contains("memory"));
  CHECK_THROWS_WITH(read(replaced("crowded_link_share = 0.75", "crowded_link_share = 0.0")),
                    Catch::Contains("crowded_link_share"));
  CHECK_THROWS_AS(read("model = \"x\"\n"), ConfigError);
}

namespace {

/// The profile of a small network, measured on hosts of so many threads as ranks.
Profile measured_on_hosts(int hosts, int ranks_per_host) {
  const settings::Config config = settings::parse_config({.path = "net.toml",
                                                          .text = R"(
name = "net"
data.path = "none"
model = { kind = "network", layers = [{ kind = "dense", units = 8 }, { kind = "relu" }, { kind = "dense", units = 4 }] }
optimizer.learning_rate = 0.1
train = { batch_size = 16, threads = 1 }
)",
                                                          .overrides = {}});
  const testing::ScratchFolder folder;
  comm::run_as_threads(
      hosts * ranks_per_host,
      [&](comm::Communicator& world) {
        Log log(world.rank(), /*terminal=*/false);
        PlanOptions options{.data = SyntheticShape{.features = {.channels = 6, .height = 1, .width = 1}, .classes = 4}};
        options.save_profile = folder.path("profile.toml");
        plan(world, config, options, log);
      },
      60, ranks_per_host);
  return read_profile(folder.path("profile.toml"));
}

}  // namespace

TEST_CASE("several hosts are measured, links between them included", "[plan]") {
  const Profile profile = measured_on_hosts(2, 2);
  CHECK(profile.hosts == 2);
  CHECK(profile.ranks_per_host == 2);
  CHECK(profile.one_rank.examples == std::vector<double>{1, 2, 4, 8, 16});
  CHECK(profile.sums_of_all.bytes.size() > 1);
  CHECK(profile.sums_in_host.bytes == profile.sums_of_all.bytes);
  CHECK(profile.between_hosts.megabytes_per_second > 0);
  CHECK(profile.in_host.megabytes_per_second > 0);
  REQUIRE(profile.waiting.seconds.size() > 1);
  for (const double factor : profile.waiting.factor) CHECK(factor >= 1);
  CHECK(profile.segments.forward.size() == 2);  // a ReLU is computed with its layer
  CHECK(profile.memory_mebibytes > 0);
  REQUIRE(!profile.encoders.empty());
  for (const EncoderSpeed& encoder : profile.encoders) {
    CHECK(encoder.in_host_ns > 0);
    CHECK(encoder.of_all_ns > 0);
  }
  CHECK(profile.crowded_link_share == 1);  // there is only one other host to send to
}

TEST_CASE("three hosts or more are measured while each sends to all others, too", "[plan]") {
  const Profile profile = measured_on_hosts(3, 1);
  CHECK(profile.hosts == 3);
  CHECK(profile.crowded_link_share > 0);
  CHECK(profile.crowded_link_share <= 1);
}
