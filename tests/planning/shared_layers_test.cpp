// Predictions of ranks that share the work of each layer, by hand.
#include "plan/shared_layers.hpp"

#include <array>
#include <catch2/catch.hpp>

#include "planned_network.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/comm/tensor_group.hpp"
#include "unisono/session/memory.hpp"

namespace unisono::planning {
namespace {

constexpr const char* kLanguageModel = R"(
name = "letters"
data.path = "none"
optimizer.learning_rate = 0.1
strategy.kind = "allreduce"
train = { batch_size = 10, threads = 1 }
replica.tensor = 2
[model]
kind = "network"
layers = [
  { kind = "embedding", units = 24 },
  { kind = "residual", layers = [{ kind = "layer_norm" }, { kind = "attention", heads = 4 }] },
  { kind = "residual", layers = [{ kind = "layer_norm" }, { kind = "dense", units = 30 }, { kind = "relu" },
                                 { kind = "dense", units = 24 }] },
  { kind = "unembedding" }]
)";

settings::Config config_of(const char* text, std::vector<std::string> overrides) {
  return settings::parse_config({.path = "net.toml", .text = text, .overrides = std::move(overrides)});
}

Prediction predict_shared(const PlannedNetwork& network, std::vector<std::string> overrides, const Ranks& ranks) {
  return predict_shared_layers(network.planned(),
                               {.name = "asked", .config = PlannedNetwork::config(std::move(overrides))}, ranks);
}

/// What each of two ranks has of a network's layers.
std::vector<std::unique_ptr<models::Model>> halves(const settings::Config& config, const models::Model& whole,
                                                   const data::DatasetInfo& data, kernels::Backend& backend,
                                                   TensorGroup* group = nullptr, int own = 0) {
  static LocalReducer alone;
  return session::make_model_parts(config, session::inputs_of(data), whole,
                                   session::model_context(backend, alone, true, config), group, own);
}

}  // namespace

TEST_CASE("ranks that share layers have their part of the passes, and wait for sums", "[plan]") {
  const PlannedNetwork network;
  const Prediction made = predict_shared(network, {"replica.tensor=2"}, {1, 2});
  CHECK(made.gradient == Approx(32.0 / 2));  // all four layers are divided
  // Each pair of layers adds up its outputs, and the second one the gradient of its inputs: 32 examples of 8 values.
  CHECK(made.layer_bytes == 3 * 32 * 8 * sizeof(float));
  CHECK(made.sent_bytes == 0);
  CHECK(made.tensor == 2);
  CHECK(made.makes_serial_steps);
  CHECK(made.efficiency == Approx(1));

  // Between two hosts, each sends the other one half of each vector, and then the sum of its own half.
  const Prediction apart = predict_shared(network, {"replica.tensor=2"}, {2, 1});
  CHECK(apart.sent_bytes == Approx(made.layer_bytes));
  CHECK(apart.exposed == Approx(made.layer_bytes / 1000));
}

TEST_CASE("sums of layers are as measured on all ranks of a host, else as messages say", "[plan]") {
  Profile profile = slow_profile();
  profile.ranks_per_host = 2;
  profile.sums_of_layers = {{1024, 2048}, {5, 6}};
  CHECK(predict_shared(PlannedNetwork(profile), {"replica.tensor=2"}, {1, 2}).messages == Approx(3 * 5));
  profile.in_host.megabytes_per_second = 1e-3;
  // Half of the ranks of a host: two messages of half of 1024 bytes for each sum.
  profile.ranks_per_host = 4;
  CHECK(predict_shared(PlannedNetwork(profile), {"replica.tensor=2", "train.batch_size=64"}, {1, 4}).messages ==
        Approx(3 * 1.024));
}

TEST_CASE("replicas whose ranks share layers add up the gradients of their parts", "[plan]") {
  const PlannedNetwork network;
  const settings::Config config = PlannedNetwork::config({"replica.tensor=2"});
  const auto parts = halves(config, *network.model, network.data, *network.backend);
  const Prediction two = predict_shared(network, {"replica.tensor=2"}, {2, 2});
  CHECK(two.gradient == Approx(16.0 / 2));
  CHECK(two.layer_bytes == 3 * 16 * 8 * sizeof(float));
  // Two ranks of a host send what they have to those of the other one.
  CHECK(two.sent_bytes == Approx(2 * sizeof(float) * parts.front()->layout().size()));
  CHECK(predict_shared(network, {"replica.tensor=2"}, {1, 4}).sent_bytes == 0);
  CHECK_THROWS_WITH(predict_shared(network, {"replica.tensor=2", "train.batch_size=33"}, {2, 3}),
                    Catch::Contains("neither a part of the 3 of a host nor all of several"));
}

TEST_CASE("the share of the passes goes by the flops and the measured passes of the segments", "[plan]") {
  const PlannedNetwork network;
  const std::vector<parallel::PassSeconds> equal = network.profile.segments.passes();
  const auto share = [&](int layers, std::vector<parallel::PassSeconds> seconds) {
    std::string of_layers;
    for (int i = 0; i < layers; ++i) of_layers += "{ kind = \"dense\", units = 8 },";
    const settings::Config config = PlannedNetwork::config({"model.layers=[" + of_layers + "]", "replica.tensor=2"});
    LocalReducer alone;
    const auto whole = models::make_model(config.model, session::inputs_of(network.data),
                                          session::model_context(*network.backend, alone, true, config));
    const auto parts = halves(config, *whole, network.data, *network.backend);
    return share_of_passes(whole->staged()->network(), parts.front()->staged()->network(), seconds);
  };
  CHECK(share(4, equal) == Approx(0.5));
  CHECK(share(2, {}) == Approx(0.5));
  // Of three layers, two are divided; the first one needs no gradient of its inputs: 2, 3 and 3 products.
  CHECK(share(3, {}) == Approx((2.5 + 3) / 8));
  CHECK(share(3, {{1, 0, 0}, {0, 1, 0}, {1, 1, 0}}) == Approx((1 + 2) / 4.0));
}

TEST_CASE("what layers add up is what they add up in a step", "[plan]") {
  LocalReducer alone;
  const auto backend = kernels::make_cpu_backend(1);
  for (const Index context : {7, 64}) {  // tokens of an example, which fill registers, or do not
    const settings::Config config = config_of(kLanguageModel, {});
    const models::ModelInputs inputs{.kind = data::SetKind::tokens, .rows = 23, .context = context};
    const data::DatasetInfo data = session::set_like(inputs);
    const auto whole = models::make_model(config.model, inputs, session::model_context(*backend, alone, true, config));
    Profile profile = slow_profile();
    profile.segments = {};
    const Planned planned{profile, *whole, *backend, data, 0, /*measured_links=*/false};
    for (const Index batch : {3, 10, 151}) {
      settings::Config step = config;
      step.train.batch_size = batch;
      const Prediction made = predict_shared_layers(planned, {.name = "asked", .config = step}, {1, 2});
      std::array<std::int64_t, 2> counted = {};
      comm::run_as_threads(2, [&](comm::Communicator& ranks) {
        const auto own = kernels::make_cpu_backend(1);
        comm::CommunicatorTensorGroup group(ranks);
        const auto parts = halves(step, *whole, data, *own, &group, ranks.rank());
        session::try_pass(*parts[static_cast<std::size_t>(ranks.rank())], *own, data, batch);
        counted[static_cast<std::size_t>(ranks.rank())] = group.bytes();
      });
      CHECK(static_cast<std::int64_t>(made.layer_bytes) == counted[0]);
      CHECK(counted[0] == counted[1]);
    }
  }
}

TEST_CASE("the memory of a rank that shares layers is what info says of it", "[plan]") {
  const PlannedNetwork network;
  const settings::Config config = PlannedNetwork::config({"replica.tensor=2", "optimizer.momentum=0.9"});
  const auto strategy = strategies::make_strategy(config.strategy);
  const auto backend = kernels::make_cpu_backend(1);
  const auto parts = halves(config, *network.model, network.data, *backend);
  const auto memory = session::predict_memory({.config = config,
                                               .model = *parts.front(),
                                               .backend = *backend,
                                               .data = network.data,
                                               .ranks = 2,
                                               .one_node = true,
                                               .strategy = *strategy,
                                               .process_bytes = PlannedNetwork::kProcessBytes});
  const Prediction made = predict_shared_layers(network.planned(), {.name = "asked", .config = config}, {1, 4});
  CHECK(made.memory_bytes == session::sum(memory));
}

TEST_CASE("a rank that could not hold its part of the layers is not predicted", "[plan]") {
  Profile profile = slow_profile();
  profile.memory_mebibytes = 1e-3;
  CHECK_THROWS_WITH(predict_shared(PlannedNetwork(profile), {"replica.tensor=2"}, {1, 2}),
                    Catch::Contains("a rank may take 1.0 KiB"));
}

TEST_CASE("a proposal of shared layers is the config with the keys that it names", "[plan]") {
  const PlannedNetwork network;
  const Way base{.name = "base", .config = PlannedNetwork::config({})};
  const Way shared = share_layers(base, {2, 2}, 2);
  CHECK(shared.name == "allreduce, layers shared by 2 ranks");
  CHECK(share_layers(base, {1, 2}, 2).name == "layers shared by 2 ranks");
  CHECK(shared.settings == std::vector<std::string>{"replica.tensor=2"});
  CHECK(settings::effective_config(PlannedNetwork::config(shared.settings)) ==
        settings::effective_config(shared.config));
  CHECK(has_layers_to_share(network.planned(), base.config));
  using Numbers = std::vector<int>;
  CHECK(tensor_ranks_to_propose({4, 1}) == Numbers{});
  CHECK(tensor_ranks_to_propose({1, 2}) == Numbers{2});
  CHECK(tensor_ranks_to_propose({1, 3}) == Numbers{3});
  CHECK(tensor_ranks_to_propose({2, 8}) == Numbers{2, 8});
}

}  // namespace unisono::planning
