#include "unisono/session/abilities.hpp"

#include <catch2/catch.hpp>

namespace unisono::session {
namespace {

using Catch::Matchers::Contains;

settings::Config config_of_kinds(const std::string& model, const std::string& strategy) {
  settings::Config config;
  config.model.kind = model;
  config.strategy.kind = strategy;
  return config;
}

TEST_CASE("networks have a way to GPUs under every strategy that needs no shared memory", "[device]") {
  for (const char* strategy : {"serial", "allreduce", "averaging", "elastic_averaging", "gossip", "parameter_server"}) {
    CHECK(obstacle_to_gpus(config_of_kinds("network", strategy)).empty());
  }
  CHECK_THAT(obstacle_to_gpus(config_of_kinds("network", "hogwild")), Contains("hogwild"));
  CHECK_THAT(obstacle_to_gpus(config_of_kinds("network", "gossip_async")), Contains("gossip_async"));
  for (const char* model : {"linear", "factorization", "word2vec", "glove"}) {
    CHECK_THAT(obstacle_to_gpus(config_of_kinds(model, "allreduce")), Contains(model) && Contains("only on CPUs"));
  }
  settings::Config repeated = config_of_kinds("network", "parameter_server");
  repeated.strategy.replayed_workers = 2;
  CHECK_THAT(obstacle_to_gpus(repeated), Contains("repeated"));
}

TEST_CASE("every rank needs a GPU of its own, unless it may be shared", "[device]") {
  const FoundDevice a{"north", "gpu 1", ""}, b{"north", "gpu 2", ""}, other_host{"south", "gpu 1", ""};
  CHECK(obstacle_to_found({a, b, other_host}, false).empty());
  CHECK_THAT(obstacle_to_found({a, b, a}, false),
             Contains("ranks 0 and 2") && Contains("north") && Contains("allow_shared_device"));
  CHECK(obstacle_to_found({a, b, a}, true).empty());
  CHECK_THAT(obstacle_to_found({a, {"south", "", "no driver"}}, true), Contains("rank 1 (host south): no driver"));
}

TEST_CASE("the CPU computes where nothing else is asked for", "[device]") {
  const auto world = comm::make_self_communicator();
  Log log;
  const auto backend = make_backend(*world, settings::Config{}, {}, log);
  CHECK(backend->device() == nullptr);
  CHECK(backend->memory().is_plain());
}

}  // namespace
}  // namespace unisono::session
