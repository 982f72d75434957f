// What the ranks of pipelines hold of a run's vectors, against one rank that holds all of them.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "expect.hpp"
#include "holding_checks.hpp"
#include "sample_checkpoint.hpp"
#include "scratch_folder.hpp"
#include "small_runs.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/session/model_parts.hpp"
#include "unisono/session/run_state.hpp"
#include "unisono/session/stored_checkpoint.hpp"
#include "unisono/session/weight_average.hpp"

namespace unisono::session {
namespace {

using testing::kAll;
using testing::kHalf;
using testing::kImageInputs;

constexpr const char* kNetwork = R"(
name = "staged"
seed = 5
[data]
path = "none.h5"
[model]
kind = "network"
loss = "softmax_cross_entropy"
layers = [
  { kind = "convolution", channels = 7, kernel = 3 },
  { kind = "batch_norm" },
  { kind = "relu" },
  { kind = "residual", layers = [{ kind = "convolution", channels = 7, kernel = 3, padding = 1 },
                                 { kind = "batch_norm" }] },
  { kind = "flatten" },
  { kind = "dense", units = 9 },
  { kind = "tanh" },
  { kind = "dropout", rate = 0.5 },
  { kind = "dense", units = 5 },
]
[optimizer]
learning_rate = 0.1
[train]
batch_size = 24
micro_batches = 4
threads = 1
weight_average = 0.9
)";

using Overrides = std::vector<std::string>;

settings::Config network(Overrides overrides, const Overrides& more = {}) {
  overrides.insert(overrides.end(), more.begin(), more.end());
  return settings::parse_config({.path = "staged.toml", .text = kNetwork, .overrides = overrides});
}

/// Ranks, and how they divide the model.
struct Division {
  int ranks;
  Overrides overrides;
};

std::vector<Division> divisions() {
  return {{1, {}},
          {2, {"replica.stages=2"}},
          {4, {"replica.stages=4"}},
          {4, {"replica.stages=2"}},
          {2, {"replica.stages=2", "replica.schedule=interleaved", "replica.chunks=3"}},
          {7, {"replica.stages=7"}}};  // pieces without parameters, too
}

/// Vectors as one rank holds them, by the names of their groups in checkpoints.
using Vectors = std::map<std::string, std::vector<float>>;

/// The same numbers for every division: a value for each of a block's numbers, other ones in each step.
std::vector<float> invented(const ParameterLayout& layout, std::int64_t step) {
  std::vector<float> whole(static_cast<std::size_t>(layout.size()));
  for (std::size_t i = 0; i < layout.blocks().size(); ++i) {
    const Block& block = layout.blocks()[i];
    std::vector<float> values(static_cast<std::size_t>(block.size()));
    for (std::size_t j = 0; j < values.size(); ++j) {
      values[j] = block.frozen ? 0 : std::sin(static_cast<float>(3 * j + 7 * i) + 0.7F * static_cast<float>(step));
    }
    from_canonical(block, values, part(MutableView(whole), block));
  }
  return whole;
}

/// What a rank has of a vector that is `all` where one rank holds everything.
std::vector<float> part_of(const std::vector<float>& all, const StoredVector& vector) {
  return test::part_of(*vector.holding, all);
}

/// A rank of a run whose gradients are invented.
class StateHolder {
 public:
  StateHolder(comm::Communicator& world, const settings::Config& config)
      : world_(world),
        log_(world.rank(), false),
        place_(world),
        config_(config),
        parts_({world, place_, log_}, config_, kImageInputs),
        training_(parts_, config_) {
    parts_.initialise(static_cast<std::uint64_t>(config.seed));
  }

  /// \param salt other gradients for other salts
  void train(std::int64_t first, std::int64_t last, std::int64_t salt = 0) {
    for (std::int64_t step = first; step < last; ++step) {
      take(invented(parts_.model->layout(), step + salt),
           stored_vector("", parts_.held.parameters, training_.gradient));
      take(invented(parts_.model->statistics_layout(), step), statistics_of(parts_));
      training_.optimizer->step(parts_.parameters.view(), training_.gradient.view(), 0.05 / (1.0 + double(step)), 0.5F);
      norms_.push_back(parts_.squared_norm(training_.gradient.view()));
      norms_.push_back(training_.optimizer->last_gradient_norm());
      if (training_.average) training_.average->update(step + 1);
    }
  }

  /// Of the gradients, as metrics show them.
  const std::vector<double>& norms() const { return norms_; }
  ModelParts& parts() { return parts_; }
  TrainingParts& training() { return training_; }
  StoredVectors state() { return state_of(parts_, training_); }

  Vectors whole() {
    Vectors vectors;
    for (const StoredVector& vector : state()) vectors[vector.group] = {vector.values.begin(), vector.values.end()};
    return vectors;
  }
  /// Whether this rank holds what one that holds all would.
  bool is_part_of(const Vectors& all) {
    const StoredVectors state = this->state();
    return std::ranges::all_of(state, [&](const StoredVector& vector) {
      return std::ranges::equal(vector.values, part_of(all.at(vector.group), vector));
    });
  }

  void write(const std::string& path, std::int64_t step) {
    CheckpointHeader header = testing::sample_header(testing::SampleModel(), step);
    header.config = settings::effective_config(config_);
    header.inputs = kImageInputs;
    header.averaged = training_.average != nullptr;
    testing::write_checkpoint(world_, path, header, state());
  }
  void restore(const std::string& path) { restore_state(parts_, training_, open_checkpoint(world_, path)); }

 private:
  void take(const std::vector<float>& all, const StoredVector& vector) {
    std::ranges::copy(part_of(all, vector), vector.values.begin());
  }

  comm::Communicator& world_;
  Log log_;
  NodePlace place_;
  settings::Config config_;
  ModelParts parts_;
  TrainingParts training_;
  std::vector<double> norms_;
};

/// Of one rank: all vectors before the first step, after half of the steps, and after all; and the norms.
struct Expected {
  Vectors at_start, at_half, at_end;
  std::vector<double> norms;
};

Expected undivided(const Overrides& rule) {
  Expected expected;
  comm::run_as_threads(1, [&](comm::Communicator& world) {
    StateHolder holder(world, network(rule));
    expected.at_start = holder.whole();
    holder.train(0, kHalf);
    expected.at_half = holder.whole();
    holder.train(kHalf, kAll);
    expected.at_end = holder.whole();
    expected.norms = holder.norms();
  });
  return expected;
}

std::vector<Overrides> rule_overrides() {
  return {{"optimizer.kind=sgd", "optimizer.momentum=0.9", "optimizer.clip_norm=0.1", "optimizer.weight_decay=0.01"},
          {"optimizer.kind=adamw", "optimizer.clip_norm=0.1"},
          {"optimizer.kind=lars"},
          {"optimizer.kind=lamb", "optimizer.clip_norm=0.1"},
          {"optimizer.kind=adamw", "optimizer.clip_norm=0.1", "train.freeze=[\"convolution1\", \"dense1.bias\"]"}};
}

TEST_CASE(
    "stages hold, train and keep what one rank would, bit for bit, and any other division goes on from their "
    "checkpoint",
    "[long][stages]") {
  const testing::ScratchFolder folder;
  const std::string path = folder.path("a.h5");
  const std::vector<Division> all = divisions();
  for (const Overrides& rule : rule_overrides()) {
    const Expected expected = undivided(rule);
    REQUIRE(expected.at_start.at("parameters") != expected.at_end.at("parameters"));
    REQUIRE(expected.at_end.contains("average/statistics"));
    for (std::size_t i = 0; i < all.size(); ++i) {
      INFO(rule.front() << ", " << all[i].ranks << " ranks");
      comm::run_as_threads(all[i].ranks, [&](comm::Communicator& world) {
        StateHolder holder(world, network(rule, all[i].overrides));
        EXPECT(holder.is_part_of(expected.at_start));
        holder.train(0, kHalf);
        EXPECT(holder.is_part_of(expected.at_half));
        holder.write(path, kHalf);
        holder.train(kHalf, kAll);
        EXPECT(holder.is_part_of(expected.at_end));
        EXPECT(holder.norms() == expected.norms);
        EXPECT(holder.parts().whole_parameters() == expected.at_end.at("parameters"));
      });
      for (const std::size_t next : {i, i + 1, i + 2}) {
        const Division& other = all[next % all.size()];
        INFO("goes on on " << other.ranks);
        comm::run_as_threads(other.ranks, [&](comm::Communicator& world) {
          StateHolder holder(world, network(rule, other.overrides));
          holder.restore(path);
          EXPECT(holder.is_part_of(expected.at_half));
          holder.train(kHalf, kAll);
          EXPECT(holder.is_part_of(expected.at_end));
        });
      }
    }
  }
}

TEST_CASE("replicas that keep optimizer states of their own write and read them, in any stages", "[stages]") {
  const testing::ScratchFolder folder;
  const std::string path = folder.path("a.h5");
  const Overrides rule = {"strategy.kind=averaging", "strategy.optimizer_state=keep", "optimizer.kind=sgd",
                          "optimizer.momentum=0.5"};
  const auto replica_of = [](StateHolder& holder) { return holder.parts().grid.data().rank(); };
  const auto state_of_replica = [&](int replica) {
    Vectors whole;
    comm::run_as_threads(1, [&](comm::Communicator& world) {
      StateHolder holder(world, network(rule));
      holder.train(0, kHalf, 100 * replica);
      whole = holder.whole();
    });
    return whole.at("optimizer/0/velocity");
  };
  const std::vector<std::vector<float>> expected = {state_of_replica(0), state_of_replica(1)};
  REQUIRE(expected[0] != expected[1]);
  const std::vector<Division> pairs = {{2, {}}, {4, {"replica.stages=2"}}, {6, {"replica.stages=3"}}};
  const auto velocity_of = [](StateHolder& holder) {
    return stored_vector("", holder.parts().held.state, holder.training().optimizer->state()[0].values);
  };
  const auto has_own = [&](StateHolder& holder) {
    const auto& values = expected[static_cast<std::size_t>(replica_of(holder))];
    return std::ranges::equal(velocity_of(holder).values, part_of(values, velocity_of(holder)));
  };
  for (const Division& writer : pairs) {
    comm::run_as_threads(writer.ranks, [&](comm::Communicator& world) {
      StateHolder holder(world, network(rule, writer.overrides));
      holder.train(0, kHalf, 100 * replica_of(holder));
      EXPECT(has_own(holder));
      holder.write(path, kHalf);
    });
    CHECK(optimizer_states(path) == 2);
    for (const Division& reader : pairs) {
      INFO(writer.ranks << " ranks, then " << reader.ranks);
      comm::run_as_threads(reader.ranks, [&](comm::Communicator& world) {
        StateHolder holder(world, network(rule, reader.overrides));
        holder.restore(path);
        EXPECT(has_own(holder));
      });
    }
  }
  std::vector<float> mean(expected[0].size());
  for (std::size_t i = 0; i < mean.size(); ++i) mean[i] = 0.5F * (expected[0][i] + expected[1][i]);
  comm::run_as_threads(2, [&](comm::Communicator& world) {  // one replica: it takes the mean
    StateHolder holder(world, network(rule, {"replica.stages=2"}));
    holder.restore(path);
    EXPECT(std::ranges::equal(velocity_of(holder).values, part_of(mean, velocity_of(holder))));
  });
}

TEST_CASE("a run of pipelines that writes nothing ends with the best weights, and gives all of θ to every rank",
          "[stages]") {
  const testing::ScratchFolder folder;
  const std::string points = testing::make_points(folder);
  const Overrides rule = {"train.micro_batches=4", "train.epochs=12", "train.early_stopping.patience=1",
                          "optimizer.learning_rate=1.0"};
  const auto trained = [&](int ranks, Overrides overrides) {
    overrides.insert(overrides.end(), rule.begin(), rule.end());
    std::vector<std::vector<float>> parameters(static_cast<std::size_t>(ranks));
    comm::run_as_threads(ranks, [&](comm::Communicator& world) {
      Log log(world.rank(), false);
      Job job(world, log);
      const RunResult result = run(job, world, testing::perceptron(points, overrides),
                                   testing::quiet(&parameters[static_cast<std::size_t>(world.rank())]));
      EXPECT(result.stopped_early);
    });
    for (const std::vector<float>& of_rank : parameters) CHECK(of_rank == parameters.front());
    return parameters.front();
  };
  const std::vector<float> serial = trained(1, {"strategy.kind=\"serial\""});
  CHECK(trained(2, {"replica.stages=2"}) == serial);
  CHECK(trained(2, {"replica.stages=2", "strategy.kind=\"serial\"", "replica.schedule=\"zero_bubble\""}) == serial);
  CHECK(trained(4, {"replica.stages=2", "communication.reduction=\"reproducible\""}) ==
        trained(1, {"communication.reduction=\"reproducible\""}));
}

// --- Bad settings ----------------------------------------------------------------------------------------------------

struct BadSettings {
  int ranks;
  Overrides overrides;
  std::string message;  ///< part of what is said
};

std::string message_of(const BadSettings& bad) {
  std::string message;
  comm::run_as_threads(bad.ranks, [&](comm::Communicator& world) {
    std::string own;
    try {
      StateHolder(world, network(bad.overrides));
    } catch (const ConfigError& error) {
      own = error.what();
    }
    for (const std::string& other : world.all_gather_text(own)) EXPECT(other == own);
    if (world.is_root()) message = own;
  });
  return message;
}

TEST_CASE("stages that cannot be are refused by all ranks alike, and each message says why", "[stages]") {
  const std::vector<BadSettings> table = {
      {2, {"replica.stages=0"}, "'stages' in [replica] is 0, but must be at least 1"},
      {2, {"replica.stages=-2"}, "'stages' in [replica] is -2"},
      {2, {"replica.stages=1.5"}, "'stages' in [replica] must be an integer"},
      {2, {"replica.stages=100000"}, "'stages' in [replica]"},
      {2, {"replica.stage=2"}, "unknown key 'stage' in [replica]; did you mean 'stages'?"},
      {2, {"replica.stages=2", "replica.schedule=1f2b"}, "did you mean '1f1b'"},
      {2, {"replica.stages=2", "replica.schedule=gpipe", "replica.chunks=2"}, "'gpipe' has no such key"},
      {2, {"replica.stages=2", "replica.schedule=interleaved", "replica.chunks=1"}, "'chunks' in [replica] is 1"},
      {2, {"replica.stages=2", "replica.recompute=some"}, "'recompute' in [replica] is 'some'"},
      {1, {"replica.recompute=blocks", "model.layers=[{kind='dense', units=5}]"}, "no residual block"},
      {2,
       {"replica.stages=2", "replica.schedule=interleaved", "replica.chunks=4"},
       "replica.stages: 2 stages × 4 chunks make 8 pieces, but this network can be cut into at most 7"},
      {2, {"replica.stages=3"}, "replica.stages: 3 stages do not divide 2 ranks: start a multiple of 3 ranks"},
      {5,
       {"replica.stages=2"},
       "replica.stages: 2 stages do not divide 5 ranks: start a multiple of 2 ranks (mpirun -n 4"},
      {1,
       {"replica.stages=4"},
       "replica.stages: 4 stages do not divide 1 rank: start a multiple of 4 ranks (mpirun -n 4"},
      {8, {"replica.stages=8"}, "replica.stages: 8 stages make 8 pieces, but this network can be cut into at most 7"},
      {4, {"replica.stages=2", "train.micro_batches=1"}, "train.micro_batches: 1 for 2 replicas of 2 stages"},
      {6, {"replica.stages=2", "train.micro_batches=2"}, "train.micro_batches: 2 for 3 replicas of 2 stages"},
      {2, {"replica.stages=2", "train.micro_batches=1", "train.accumulate=2"}, "use train.micro_batches instead"},
      {2, {"replica.stages=2", "train.micro_batches=25"}, "micro_batches is larger than batch_size"},
      {2,
       {"replica.stages=2", "replica.placement.first_layers=[\"convolution1\"]"},
       "first_layers names 1 layer, but there are 2 pieces (2 stages × 1 chunk)"},
      {2,
       {"replica.placement.first_layers=[\"convolution1\", \"dense1\"]"},
       "first_layers names 2 layers, but there is 1 piece (1 stage × 1 chunk)"},
      {2,
       {"replica.stages=2", "replica.placement.first_layers=[\"convolution1\", \"dense7\"]"},
       "replica.placement.first_layers: the network has no layer 'dense7'; choose from convolution1, batch_norm1"},
      {2,
       {"replica.stages=2", "replica.placement.first_layers=[\"convolution1\", \"residual1.convolution1\"]"},
       "no stage can begin with 'residual1.convolution1'"},
      {2,
       {"replica.stages=2", "replica.placement.first_layers=[\"dense1\", \"dense2\"]"},
       "the first stage begins with the network's first layer, 'convolution1'"},
      {2,
       {"replica.stages=2", "replica.placement.first_layers=[\"convolution1\", \"convolution1\"]"},
       "'convolution1' does not come after 'convolution1'"},
      {2, {"replica.stages=2", "replica.placement.first_layer=[\"dense1\"]"}, "did you mean 'first_layers'?"},
      {2,
       {"replica.stages=2", "train.weight_average=0", "strategy.kind=hogwild"},
       "strategy.kind = \"hogwild\" trains only models that each rank holds as a whole: remove replica.stages, or "
       "choose allreduce, averaging, gossip or serial"},
      {2,
       {"replica.stages=2", "train.weight_average=0", "strategy.kind=parameter_server"},
       "strategy.kind = \"parameter_server\" trains only"},
      {2,
       {"replica.stages=2", "train.weight_average=0", "strategy.kind=elastic_averaging"},
       "strategy.kind = \"elastic_averaging\" trains only"},
      {2,
       {"replica.stages=2", "train.weight_average=0", "strategy.kind=stratified"},
       "strategy.kind = \"stratified\" trains only"},
  };
  for (const BadSettings& bad : table) {
    INFO(bad.overrides.back());
    const std::string message = message_of(bad);
    CHECK_THAT(message, Catch::Contains(bad.message));
  }
}

TEST_CASE("models without layers have no stages", "[stages]") {
  const settings::Config config =
      settings::parse_config({.path = "linear.toml",
                              .text = "name = \"linear\"\n[data]\npath = \"none.h5\"\n[model]\nkind = \"linear\"\n"
                                      "[optimizer]\nlearning_rate = 0.1\n[train]\nthreads = 1\nbatch_size = 8\n"
                                      "[replica]\nstages = 2\n",
                              .overrides = {}});
  comm::run_as_threads(2, [&](comm::Communicator& world) {
    Log log(world.rank(), false);
    const NodePlace place(world);
    std::string message;
    try {
      ModelParts({world, place, log}, config, {.features = {4, 1, 1}, .classes = 3});
    } catch (const ConfigError& error) {
      message = error.what();
    }
    EXPECT(message ==
           "replica.stages: model.kind = \"linear\" has no layers that could be divided into stages; set it to 1");
  });
}

}  // namespace
}  // namespace unisono::session
