#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/pipelines.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/models/factory.hpp"
#include "unisono/session/model_parts.hpp"

// A network on ranks of a profile, for predictions by hand.

namespace unisono::planning {

/// Four layers of 8 × 8 weights and 8 biases: as many segments. θ has 4 × 80 floats, since blocks are whole lines.
inline constexpr const char* kFourLayers = R"(
name = "net"
data.path = "none"
optimizer.learning_rate = 0.1
strategy.kind = "allreduce"
train = { batch_size = 32, threads = 1 }
[model]
kind = "network"
layers = [{ kind = "dense", units = 8 }, { kind = "dense", units = 8 }, { kind = "dense", units = 8 },
          { kind = "dense", units = 8 }]
)";

/// An example's gradient takes a second on one rank, a fourth of it for each layer. Updates and messages of a host
/// take nothing that counts; between hosts there are 1000 bytes a second.
inline Profile slow_profile() {
  constexpr double kNothing = 1e-12;
  Profile profile{.cpu = "a CPU", .model = "a model"};
  profile.one_rank = {{1, 32}, {1, 32}, {1, 32}, {kNothing, kNothing}};
  profile.one_host = profile.all_hosts = profile.one_rank;
  profile.segments = {{1, 1, 1, 1}, {1, 1, 1, 1}, {2, 2, 2, 2}};
  profile.sums_in_host = {{1, 1e6}, {kNothing, kNothing}};
  profile.in_host.megabytes_per_second = 1e7;
  profile.between_hosts.megabytes_per_second = 1e-3;
  return profile;
}

class PlannedNetwork {
 public:
  explicit PlannedNetwork(Profile given = slow_profile()) : profile(std::move(given)) {}

  static settings::Config config(std::vector<std::string> overrides) {
    return settings::parse_config({.path = "net.toml", .text = kFourLayers, .overrides = std::move(overrides)});
  }
  Prediction predict(std::vector<std::string> overrides, const Ranks& ranks) const {
    return predict_pipeline(planned(), {.name = "asked", .config = config(std::move(overrides))}, ranks);
  }
  std::optional<ProposedPipeline> propose(const Ranks& ranks, int stages,
                                          std::vector<std::string> overrides = {}) const {
    return propose_pipeline(planned(), {.name = "base", .config = config(std::move(overrides))}, ranks, stages);
  }
  Planned planned() const { return {profile, *model, *backend, data, kProcessBytes, /*measured_links=*/false}; }

  static constexpr std::int64_t kProcessBytes = 1'000'000;
  Profile profile;
  std::unique_ptr<kernels::Backend> backend = kernels::make_cpu_backend(1);
  LocalReducer alone = {};
  data::DatasetInfo data = session::set_like({.features = {.channels = 8, .height = 1, .width = 1}, .classes = 8});
  std::unique_ptr<models::Model> model = models::make_model(config({}).model, session::inputs_of(data),
                                                            session::model_context(*backend, alone, true, config({})));
};

}  // namespace unisono::planning
