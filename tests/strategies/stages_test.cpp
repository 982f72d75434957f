#include "unisono/parallel/placement.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "divisions.hpp"
#include "layers.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/models/factory.hpp"

namespace unisono::strategies {
namespace {

// --- Cuts ------------------------------------------------------------------------------------------------------------

/// The largest sum of costs of a piece, and the sum of the boundaries.
std::pair<double, Index> price(const std::vector<int>& cuts, const std::vector<double>& costs,
                               const std::vector<Index>& boundaries) {
  std::pair<double, Index> price = {0, 0};
  for (std::size_t p = 0; p + 1 < cuts.size(); ++p) {
    double sum = 0;
    for (int i = cuts[p]; i < cuts[p + 1]; ++i) sum += costs[static_cast<std::size_t>(i)];
    price.first = std::max(price.first, sum);
    if (p > 0) price.second += boundaries[static_cast<std::size_t>(cuts[p]) - 1];
  }
  return price;
}

/// The least price of all ways to cut, by trying each.
std::pair<double, Index> least_price(const std::vector<double>& costs, const std::vector<Index>& boundaries,
                                     int pieces) {
  const int n = static_cast<int>(costs.size());
  std::pair<double, Index> least = {1e300, 0};
  for (unsigned chosen = 0; chosen < 1U << (n - 1); ++chosen) {
    std::vector<int> cuts = {0};
    for (int i = 1; i < n; ++i) {
      if ((chosen >> (i - 1) & 1U) != 0) cuts.push_back(i);
    }
    cuts.push_back(n);
    if (static_cast<int>(cuts.size()) == pieces + 1) least = std::min(least, price(cuts, costs, boundaries));
  }
  return least;
}

TEST_CASE("cuts make the most expensive piece as cheap as possible", "[stages]") {
  using Cuts = std::vector<int>;
  const std::vector<double> costs = {4, 1, 1, 4, 2};
  CHECK(parallel::balanced_cuts(costs, std::vector<Index>(4, 1), 1) == Cuts{0, 5});
  CHECK(parallel::balanced_cuts(costs, std::vector<Index>(4, 1), 2) == Cuts{0, 3, 5});  // 6 + 6
  CHECK(parallel::balanced_cuts(costs, std::vector<Index>(4, 1), 5) == Cuts{0, 1, 2, 3, 4, 5});
  // A layer without flops may be on either side of a cut: where the smaller tensor crosses.
  CHECK(parallel::balanced_cuts(std::vector<double>{4, 0, 4}, std::vector<Index>{9, 3}, 2) == Cuts{0, 2, 3});
  CHECK(parallel::balanced_cuts(std::vector<double>{4, 0, 4}, std::vector<Index>{3, 9}, 2) == Cuts{0, 1, 3});
  CHECK(parallel::balanced_cuts(std::vector<double>{7}, {}, 1) == Cuts{0, 1});
}

TEST_CASE("no other cuts are better, for any costs", "[stages]") {
  std::mt19937 random(3);
  for (int trial = 0; trial < 200; ++trial) {
    const std::size_t n = 1 + random() % 9;
    std::vector<double> costs(n);
    std::vector<Index> boundaries(n - 1);
    for (double& cost : costs) cost = static_cast<double>(random() % 7);
    for (Index& boundary : boundaries) boundary = static_cast<Index>(random() % 5);
    const int pieces = 1 + static_cast<int>(random() % n);
    const std::vector<int> cuts = parallel::balanced_cuts(costs, boundaries, pieces);
    REQUIRE(cuts.size() == static_cast<std::size_t>(pieces) + 1);
    REQUIRE(cuts.front() == 0);
    REQUIRE(cuts.back() == static_cast<int>(n));
    REQUIRE(std::ranges::adjacent_find(cuts, std::greater_equal<>()) == cuts.end());
    REQUIRE(price(cuts, costs, boundaries) == least_price(costs, boundaries, pieces));
  }
}

// --- Stages of networks ----------------------------------------------------------------------------------------------

using Layers = std::vector<nn::LayerSettings>;

struct Network {
  explicit Network(const Layers& layers, const models::ModelInputs& inputs = {.features = {2, 6, 6}, .classes = 5}) {
    models::ModelSettings settings;
    settings.network.layers = layers;
    model = models::make_model(settings, inputs, {.backend = *backend, .reducer = reducer});
  }
  const models::Staged& staged() const { return *model->staged(); }

  std::unique_ptr<kernels::Backend> backend = kernels::make_cpu_backend(1);
  LocalReducer reducer;
  std::unique_ptr<models::Model> model;
};

/// Can be cut after convolution1, batch_norm1, residual1, dense1, tanh1 and dropout1.
Layers convolutional() {
  const nn::LayerSettings relu = nn::layer("relu");
  return {nn::convolution(7, {3}),
          nn::layer("batch_norm"),
          relu,
          nn::residual({nn::convolution(7, {3}, {1}), nn::layer("batch_norm"), relu, nn::convolution(7, {3}, {1})}),
          nn::layer("flatten"),
          nn::dense(9),
          nn::layer("tanh"),
          nn::dropout(0.5),
          nn::dense(5)};
}

parallel::ReplicaSettings settings_of(std::int64_t stages, std::int64_t chunks = 1,
                                      std::vector<std::string> first_layers = {}) {
  return {.stages = stages, .chunks = chunks, .placement = {.first_layers = std::move(first_layers)}};
}

std::vector<std::string> names_of(const parallel::Stages& stages) {
  std::vector<std::string> names;
  for (int p = 0; p < stages.pieces(); ++p) names.push_back(stages.layers_of(p));
  return names;
}

/// Whether a piece finds all numbers of its blocks where its passes look for them in its rank's vector.
bool finds_its_blocks(const ShardMap& map, int rank, Index local, const FloatRange& range) {
  for (std::size_t i = 0; i < map.layout().blocks().size(); ++i) {
    const Block& block = map.layout().blocks()[i];
    if (block.offset < range.first || block.offset >= range.last) continue;
    for (Index position = 0; position < block.size(); ++position) {
      const Index offset = test::offset_of(test::whole(map.layout(), 1), 0, {i, position}).value();
      if (test::offset_of(map, rank, {i, position}) != local + offset - range.first) return false;
    }
  }
  return local + (range.last - range.first) <= map.local(rank).size();
}

TEST_CASE("each piece finds its parameters and statistics in its rank's vectors, whatever else the rank has",
          "[long][stages]") {
  const Network network(convolutional());
  for (const int replicas : {1, 2}) {
    for (const auto& [count, chunks] : {std::pair{2, 1}, {3, 1}, {7, 1}, {2, 2}, {2, 3}, {3, 2}, {1, 4}}) {
      INFO(replicas << " replicas of " << count << " stages × " << chunks << " chunks");
      const parallel::Stages stages(network.staged(), settings_of(count, chunks), replicas);
      REQUIRE(stages.stages() == count);
      REQUIRE(stages.chunks() == chunks);
      REQUIRE(stages.replicas() == replicas);
      CHECK(stages.parameters().ranks() == replicas * count);
      Index parameters = 0;
      for (int p = 0; p < stages.pieces(); ++p) {
        const int stage = stages.stage_of(p);
        CHECK(stages.piece_of(stage, p / count) == p);
        parameters += stages.piece(p).cost().parameters;
        for (int replica = 0; replica < replicas; ++replica) {
          const int rank = replica * count + stage;
          CHECK(finds_its_blocks(stages.parameters(), rank, stages.local_parameter(p), stages.piece(p).parameters()));
          CHECK(finds_its_blocks(stages.statistics(), rank, stages.local_statistic(p), stages.piece(p).statistics()));
        }
      }
      CHECK(parameters == network.model->layout().parameters());
    }
  }
}

TEST_CASE("every replica has a copy of each block, on the stage of its piece", "[stages]") {
  const Network network(convolutional());
  const parallel::Stages stages(network.staged(), settings_of(2, 2), 3);
  CHECK(stages.parameters().copies() == 3);
  for (int rank = 0; rank < 6; ++rank) {
    Index held = 0;
    for (const Shard& shard : stages.parameters().shards_of(rank)) {
      CHECK(shard.copy == rank / 2);
      held += size_of(shard.box);
    }
    CHECK(held == stages.cost_of(rank % 2).parameters);
  }
}

TEST_CASE("the automatic cuts balance flops", "[stages]") {
  const Network network({nn::dense(40), nn::layer("tanh"), nn::dense(40), nn::layer("tanh"), nn::dense(40),
                         nn::layer("tanh"), nn::dense(40)},
                        {.features = {40, 1, 1}, .classes = 40});
  // The first layer has no gradient of its inputs to compute: 2 of 3 products.
  const parallel::Stages stages(network.staged(), settings_of(2), 1);
  CHECK(names_of(stages) == std::vector<std::string>{"dense1 to tanh2", "dense3 to dense4"});
  CHECK(stages.cost_of(0).flops() == 5.0 / 6 * stages.cost_of(1).flops());
}

TEST_CASE("pieces begin with the layers that the config names", "[stages]") {
  const Network network(convolutional());
  using Names = std::vector<std::string>;
  const parallel::Stages stages(network.staged(), settings_of(3, 1, {"convolution1", "residual1", "dense2"}), 1);
  CHECK(stages.cuts() == std::vector<int>{0, 2, 6, 7});
  CHECK(names_of(stages) == Names{"convolution1 to relu1", "residual1 to dropout1", "dense2"});
  CHECK(stages.text_of(1) == "residual1 to dropout1");

  // flatten computes nothing: it stands for the layer behind it.
  const parallel::Stages flat(network.staged(), settings_of(2, 1, {"convolution1", "flatten1"}), 1);
  CHECK(names_of(flat) == Names{"convolution1 to residual1", "flatten1 to dense2"});
  const Network row({nn::layer("flatten"), nn::dense(3), nn::layer("tanh"), nn::dense(5)});
  CHECK(names_of(parallel::Stages(row.staged(), settings_of(2, 1, {"flatten1", "dense2"}), 1)) ==
        Names{"flatten1 to tanh1", "dense2"});
  CHECK(names_of(parallel::Stages(row.staged(), settings_of(2, 1, {"dense1", "tanh1"}), 1)) ==
        Names{"flatten1 to dense1", "tanh1 to dense2"});

  const parallel::Stages chunks(network.staged(),
                                settings_of(2, 2, {"convolution1", "batch_norm1", "residual1", "dense1"}), 1);
  CHECK(chunks.text_of(0) == "convolution1, and residual1");
  CHECK(chunks.text_of(1) == "batch_norm1 to relu1, and flatten1 to dense2");
}

TEST_CASE("layers with which no piece can begin are refused, with those that are possible", "[stages]") {
  const Network network(convolutional());
  const auto message = [&](const parallel::ReplicaSettings& settings) -> std::string {
    try {
      const parallel::Stages stages(network.staged(), settings, 1);
      return "";
    } catch (const ConfigError& error) {
      return error.what();
    }
  };
  const std::string key = "replica.placement.first_layers: ";
  const std::string possible = "; choose from convolution1, batch_norm1, residual1, dense1, tanh1, dropout1, dense2";
  CHECK(message(settings_of(2, 1, {"convolution1", "dense3"})) == key + "the network has no layer 'dense3'" + possible);
  for (const std::string inside : {"relu1", "residual1.convolution1", "residual1.batch_norm1"}) {
    CHECK(message(settings_of(2, 1, {"convolution1", inside})) ==
          key + "no stage can begin with '" + inside +
              "', which is inside a residual block, or computed together with the layer before it" + possible);
  }
  CHECK(message(settings_of(2, 1, {"batch_norm1", "dense1"})) ==
        key + "the first stage begins with the network's first layer, 'convolution1', not with 'batch_norm1'");
  CHECK(message(settings_of(3, 1, {"convolution1", "dense1", "residual1"})) ==
        key + "'residual1' does not come after 'dense1' in the network; list the layers in their order");
  CHECK(message(settings_of(3, 1, {"convolution1", "dense1", "dense1"})) ==
        key + "'dense1' does not come after 'dense1' in the network; list the layers in their order");
  CHECK(message(settings_of(3, 1, {"convolution1", "dense1"})) == key + "2 layers are named for 3 pieces");
  CHECK(message(settings_of(8)) ==
        "replica.stages: 8 stages make 8 pieces, but this network can be cut into at most 7, since a cut lies where "
        "exactly one tensor passes from layer to layer; lower it");
  CHECK(message(settings_of(4, 2)) ==
        "replica.stages: 4 stages × 2 chunks make 8 pieces, but this network can be cut into at most 7, since a cut "
        "lies where exactly one tensor passes from layer to layer; lower it, or replica.chunks");
}

// --- Memory ----------------------------------------------------------------------------------------------------------

/// Four equal layers: stage s of four holds layer s.
Layers equal_layers() {
  Layers layers;
  for (int i = 0; i < 4; ++i) layers.push_back(nn::dense(32, "bias = false"));
  return layers;
}

TEST_CASE("a stage has a workspace for each of its flights, and messages to its neighbours", "[stages]") {
  constexpr Index kBatch = 16, kBoundary = kBatch * 32;
  const Network network(equal_layers(), {.features = {32, 1, 1}, .classes = 32});
  parallel::ReplicaSettings settings = settings_of(4, 1, {"dense1", "dense2", "dense3", "dense4"});
  const parallel::Stages stages(network.staged(), settings, 1);
  const auto memory = [&](int stage) {
    return parallel::memory_of(stages, stage, settings, *network.backend, kBatch, 6);
  };
  const auto workspace = [&](int stage, nn::PassKind kind) { return stages.piece(stage).plan(kBatch, kind).floats; };
  for (const auto& [schedule, flights] : {std::pair{parallel::PipelineSchedule::naive, std::vector{1, 1, 1, 1}},
                                          {parallel::PipelineSchedule::gpipe, {6, 6, 6, 6}},
                                          {parallel::PipelineSchedule::one_forward_one_backward, {4, 3, 2, 1}}}) {
    settings.schedule = schedule;
    for (int stage = 0; stage < 4; ++stage) {
      CHECK(memory(stage).flights == flights[static_cast<std::size_t>(stage)]);
      CHECK(memory(stage).activations ==
            flights[static_cast<std::size_t>(stage)] * workspace(stage, nn::PassKind::training));
      CHECK(memory(stage).boundaries == (stage == 0 || stage == 3 ? 2 : 4) * kBoundary);
    }
  }
  settings.schedule = parallel::PipelineSchedule::zero_bubble;  // whose passes are split
  CHECK(memory(3).activations == memory(3).flights * workspace(3, nn::PassKind::halves));
  settings.schedule = parallel::PipelineSchedule::gpipe;
  settings.recompute = parallel::Recompute::all;  // only inputs are kept
  CHECK(memory(1).activations == 6 * kBoundary + workspace(1, nn::PassKind::training));
  CHECK(memory(0).activations == 6 * kBatch * 32 + workspace(0, nn::PassKind::training));
}

TEST_CASE("the memory of a stage with several pieces is that of all of them", "[stages]") {
  constexpr Index kBatch = 16, kBoundary = kBatch * 32;
  const Network network(equal_layers(), {.features = {32, 1, 1}, .classes = 32});
  parallel::ReplicaSettings settings = settings_of(2, 2, {"dense1", "dense2", "dense3", "dense4"});
  settings.schedule = parallel::PipelineSchedule::interleaved;
  const parallel::Stages stages(network.staged(), settings, 1);
  const parallel::StageMemory memory = parallel::memory_of(stages, 0, settings, *network.backend, kBatch, 4);
  CHECK(memory.flights == 5);                 // (v − 1) S + 2 (S − s) − 1
  CHECK(memory.boundaries == 6 * kBoundary);  // piece 0 has one neighbour, piece 2 has two
  const Index of_one = stages.piece(2).plan(kBatch, nn::PassKind::training).floats;
  CHECK(memory.activations >= memory.flights * of_one / 2);
}

}  // namespace
}  // namespace unisono::strategies
