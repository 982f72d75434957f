#include <catch2/catch.hpp>
#include <divisions.hpp>
#include <expect.hpp>
#include <layers.hpp>
#include <map>
#include <optimizers.hpp>
#include <redistribute.hpp>
#include <stdexcept>

#include "sample_checkpoint.hpp"
#include "scratch_folder.hpp"
#include "unisono/comm/gather.hpp"
#include "unisono/models/factory.hpp"
#include "unisono/nn/initialiser.hpp"
#include "unisono/optim/optimizer.hpp"
#include "unisono/session/stored_checkpoint.hpp"
#include "unisono/session/synthetic_source.hpp"

namespace unisono::session {
namespace {

using testing::kAll;
using testing::kHalf;
using testing::kImageInputs;

constexpr std::uint64_t kTrainingSeed = 11;

models::ModelSettings small_network() {
  models::ModelSettings settings;
  settings.network.layers = {nn::convolution(7, {3}), nn::layer("batch_norm"),
                             nn::layer("relu"),       nn::dense(9),
                             nn::layer("relu"),       nn::dense(5)};
  return settings;
}

/// The model and its data, as the one thread has them that computes gradients.
struct Network {
  std::unique_ptr<kernels::Backend> backend = kernels::make_cpu_backend(1);
  LocalReducer reducer;
  std::unique_ptr<models::Model> model =
      models::make_model(small_network(), kImageInputs,
                         {.backend = *backend, .reducer = reducer, .steps_together = true, .seed = kTrainingSeed});
  Buffer statistics{model->statistics_layout().size()};
  SyntheticSource source{kImageInputs, {.rank = 0, .size = 1, .batch_size = 24, .seed = kTrainingSeed}};

  void gradient(MutableView theta, MutableView g) {
    kernels::LossSums sums;
    model->loss_and_gradient(source.next(), 1.0F / 24, {.parameters = theta, .statistics = statistics.view()}, {g},
                             sums);
  }
};

/// θ and the optimizer's vectors, all of them, by name.
using Vectors = std::map<std::string, std::vector<float>>;

double rate_of(std::int64_t step) { return 0.05 / static_cast<double>(1 + step); }

Vectors vectors_of(View theta, optim::Optimizer& optimizer) {
  Vectors vectors = {{"parameters", {theta.begin(), theta.end()}}};
  for (optim::OptimizerState& state : optimizer.state()) {
    vectors[optimizer_group(0, state.name)] = {state.values.view().begin(), state.values.view().end()};
  }
  return vectors;
}

/// Of a run in which one thread holds everything, after each step.
std::vector<Vectors> undivided_run(const optim::OptimizerSettings& settings) {
  Network network;
  const ParameterLayout& layout = network.model->layout();
  std::vector<float> theta(static_cast<std::size_t>(layout.size())), g(theta.size());
  nn::initialise(layout, kTrainingSeed, theta);
  const auto optimizer = optim::make_optimizer(settings, layout, *network.backend);
  std::vector<Vectors> after = {vectors_of(theta, *optimizer)};
  for (std::int64_t step = 0; step < kAll; ++step) {
    network.gradient(theta, g);
    optimizer->step(theta, g, rate_of(step), 0.5F);
    after.push_back(vectors_of(theta, *optimizer));
  }
  return after;
}

/// A rank of a run whose θ is divided. Rank 0 computes the gradient.
class DividedRun {
 public:
  DividedRun(comm::Communicator& world, const ShardMap& map, const optim::OptimizerSettings& settings)
      : world_(world),
        map_(map),
        copy_(world.split(world.rank() / (map.ranks() / map.copies()), world.rank())),
        squares_(*copy_),
        held_(std::make_shared<MapHolding>(map, world.rank(), squares_)),
        theta_(static_cast<std::size_t>(map.local(world.rank()).size())),
        g_(theta_.size()),
        all_theta_(world.is_root() ? static_cast<std::size_t>(map.layout().size()) : 0),
        all_g_(all_theta_.size()),
        optimizer_(optim::make_optimizer(settings, *held_, *network_.backend)) {
    nn::initialise(*held_, kTrainingSeed, theta_);
  }

  void train(std::int64_t first, std::int64_t last) {
    network_.source.seek({.epoch = 0, .step = first});
    for (std::int64_t step = first; step < last; ++step) {
      test::redistribute(world_, map_, theta_, at_root_, all_theta_);
      if (world_.is_root()) network_.gradient(all_theta_, all_g_);
      test::redistribute(world_, at_root_, all_g_, map_, g_);
      optimizer_->step(theta_, g_, rate_of(step), 0.5F);
    }
  }

  StoredVectors state() {
    StoredVectors state = {held("parameters", theta_)};
    for (optim::OptimizerState& own : optimizer_->state()) {
      state.push_back(held(optimizer_group(0, own.name), own.values.view()));
    }
    return state;
  }
  void restore(const std::string& path, std::int64_t step) {
    const StoredCheckpoint stored = open_checkpoint(world_, path);
    for (const StoredVector& vector : state()) {
      std::ranges::fill(vector.values, 0.0F);
      read_vector(world_, stored, {vector.group}, vector);
    }
    optimizer_->set_steps(step);
  }

  /// Whether this rank holds what one that holds all would.
  bool is_part_of(const Vectors& all) {
    for (const StoredVector& vector : state()) {
      std::vector<float> expected(theta_.size());
      test::copy_common(at_root_, 0, all.at(vector.group), map_, world_.rank(), expected);
      if (!std::ranges::equal(vector.values, expected)) return false;
    }
    return true;
  }

 private:
  StoredVector held(std::string group, MutableView values) {
    return {.group = std::move(group), .holding = held_, .values = values};
  }

  comm::Communicator& world_;
  const ShardMap& map_;
  Network network_;
  ShardMap at_root_ = test::whole(network_.model->layout(), 1);
  std::unique_ptr<comm::Communicator> copy_;  ///< the ranks that hold one copy together
  comm::CommunicatorSquares squares_;
  std::shared_ptr<const Holding> held_;
  std::vector<float> theta_, g_, all_theta_, all_g_;
  std::unique_ptr<optim::Optimizer> optimizer_;
};

std::vector<std::pair<std::string, optim::OptimizerSettings>> named_rules() {
  return {{"SGD with momentum, clipped",
           optim::with({.kind = "sgd", .weight_decay = 0.01, .clip_norm = 0.1}, "momentum = 0.9")},
          {"AdamW, clipped", {.kind = "adamw", .weight_decay = 0.1, .clip_norm = 0.1}},
          {"LARS", {.kind = "lars", .weight_decay = 0.01}},
          {"LAMB", {.kind = "lamb", .weight_decay = 0.1}},
          {"LAMB, clipped", {.kind = "lamb", .weight_decay = 0.1, .clip_norm = 0.1}}};
}

std::vector<test::Division> all_divisions(const ParameterLayout& layout) {
  std::vector<test::Division> all;
  for (const int ranks : {1, 2, 3, 4}) {
    for (const auto& [name, map] : test::divisions_of(layout, ranks)) {
      all.emplace_back(name + " over " + std::to_string(ranks), map);
    }
  }
  return all;
}

TEST_CASE("a divided θ trains to the undivided run's bits, and goes on from its checkpoint in any other division",
          "[long][shards]") {
  const testing::ScratchFolder folder;
  const std::string path = folder.path("a.h5");
  const Network network;
  const auto divisions = all_divisions(network.model->layout());
  for (const auto& named : named_rules()) {
    const auto& rule = named.first;
    const optim::OptimizerSettings& settings = named.second;  // clang's lambdas take no structured bindings
    const std::vector<Vectors> expected = undivided_run(settings);
    REQUIRE(expected[0].at("parameters") != expected[kAll].at("parameters"));
    if (settings.clip_norm != 0) {  // it is clipped indeed
      optim::OptimizerSettings free = settings;
      free.clip_norm = 0;
      REQUIRE(undivided_run(free)[kAll] != expected[kAll]);
    }
    for (std::size_t i = 0; i < divisions.size(); ++i) {
      const auto& map = divisions[i].second;
      INFO(rule << ", " << divisions[i].first);
      comm::run_as_threads(map.ranks(), [&](comm::Communicator& world) {
        DividedRun run(world, map, settings);
        EXPECT(run.is_part_of(expected[0]));
        run.train(0, kHalf);
        EXPECT(run.is_part_of(expected[kHalf]));
        testing::write_checkpoint(world, path, testing::sample_header(testing::SampleModel()), run.state());
        run.train(kHalf, kAll);
        EXPECT(run.is_part_of(expected[kAll]));
      });
      // Every division is written and read in every rule; in one of them, each is read in all others.
      for (std::size_t next = 1; next < (rule == "LAMB" ? divisions.size() : 2); ++next) {
        const auto& other_map = divisions[(i + next) % divisions.size()].second;
        INFO("goes on " << divisions[(i + next) % divisions.size()].first);
        comm::run_as_threads(other_map.ranks(), [&](comm::Communicator& world) {
          DividedRun run(world, other_map, settings);
          run.restore(path, kHalf);
          EXPECT(run.is_part_of(expected[kHalf]));
          run.train(kHalf, kAll);
          EXPECT(run.is_part_of(expected[kAll]));
        });
      }
    }
  }
}

TEST_CASE("where every rank holds all of θ, no message is sent for a norm", "[shards]") {
  struct NoRanks final : SquaresReducer {
    void sum(std::span<ExactSquares>) override { throw std::logic_error("a message"); }
    double sum(double) override { throw std::logic_error("a message"); }
  } none;
  const Network network;
  const ShardMap map = test::whole(network.model->layout(), 3);
  std::vector<float> theta(static_cast<std::size_t>(map.local(1).size()), 1.0F), g(theta.size(), 1.0F);
  for (const auto& [rule, settings] : named_rules()) {
    const MapHolding held(map, 1, none);
    const auto optimizer = optim::make_optimizer(settings, held, *network.backend);
    CHECK_NOTHROW(optimizer->step(theta, g, 0.1, 1));
  }
}

}  // namespace
}  // namespace unisono::session
