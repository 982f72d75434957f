#include "plan/noise.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "plan/measure.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/rounded.hpp"
#include "unisono/session/model_parts.hpp"
#include "unisono/session/placement.hpp"
#include "unisono/session/run_state.hpp"
#include "unisono/session/stored_checkpoint.hpp"

namespace unisono::planning {

double GradientNoise::scale() const {
  const bool is_hidden = squared_norm <= 0 || variance > examples * squared_norm;
  return is_hidden ? std::numeric_limits<double>::infinity() : variance / squared_norm;
}

double GradientNoise::worth(double batch) const { return 1 / (1 + batch / scale()); }

std::string GradientNoise::text(double batch) const {
  const std::string where = fmt::format("at step {} of {}", step, checkpoint);
  if (!std::isfinite(scale())) {
    return fmt::format(
        "gradient noise scale above {:.0f} examples, {}: the mean gradient of as many is mostly noise, so that larger "
        "steps, and more ranks, would pay",
        examples, where);
  }
  const std::string about = grouped(std::llround(std::max(rounded(scale(), 2), 1.0)));
  return fmt::format(
      "gradient noise scale about {} examples, {}: in steps of {:.0f}, an example is worth {:.0f} % of what it is "
      "in small steps; with more than {} in a step, ranks are added for less than half of their worth",
      about, where, batch, 100 * worth(batch), about);
}

nlohmann::ordered_json GradientNoise::json() const {
  nlohmann::ordered_json json = {{"checkpoint", checkpoint}, {"step", step}, {"squared_norm", squared_norm}};
  json["variance"] = variance;
  json["examples"] = examples;
  json["scale"] = std::isfinite(scale()) ? nlohmann::ordered_json(scale()) : nlohmann::ordered_json();
  return json;
}

GradientNoise noise_of(double small_norm, double small, double large_norm, double large) {
  GradientNoise noise;
  noise.examples = large;
  noise.squared_norm = (large * large_norm - small * small_norm) / (large - small);
  noise.variance = std::max((small_norm - large_norm) / (1 / small - 1 / large), 0.0);
  return noise;
}

namespace {

constexpr std::int64_t kBatches = 64;  // whose gradients are compared
constexpr Index kExamples = 64;        // of each

}  // namespace

GradientNoise measure_noise(comm::Communicator& world, const settings::Config& asked, const std::string& run,
                            Log& log) {
  const session::StoredCheckpoint stored = session::find_checkpoint(world, run, log);
  const settings::Config config = alone(asked);
  const auto seed = static_cast<std::uint64_t>(config.seed);
  session::SharedDataset data(world, config.data, seed, &stored.header.preprocessing);
  const auto rank = world.alone();
  Log silent(world.rank(), /*terminal=*/false);
  const session::NodePlace place(*rank);
  session::ModelParts parts({*rank, place, silent}, config, stored.header.inputs, &*data);
  session::require_same_model(stored.path, parts.model->layout(), parts.model->statistics_layout());
  session::restore_model(parts, stored);
  // Small steps, of which an epoch has enough for all.
  const data::LeastExamples least = parts.model->least_examples();
  const Index fewest = std::max<Index>({1, least.together, least.of_rank});
  const std::int64_t ranks = world.size(), train = data->info().train;
  if (train < 2 * ranks * fewest) {
    throw ConfigError(
        fmt::format("--noise-scale: it compares gradients of different examples, for which {} on {} are "
                    "too few; take more examples, or fewer ranks",
                    count_of(train, "training example"), count_of(ranks, "rank")));
  }
  const std::int64_t each = std::min<std::int64_t>(train / (ranks * fewest), (kBatches + ranks - 1) / ranks);
  const std::int64_t all = each * ranks;
  const Index small = std::clamp<Index>(train / all, fewest, std::max(kExamples, fewest));
  const auto source = data->train({.rank = world.rank(),
                                   .size = world.size(),
                                   .batch_size = small * ranks,
                                   .sharing = data::MicroBatchSharing::own,
                                   .drop_last = true,
                                   .least = least,
                                   .seed = seed,
                                   .class_weights = parts.class_weights,
                                   .delivery = parts.delivery()});
  Allocator& memory = parts.backend->memory();
  Buffer sum(parts.model->layout().size(), memory), gradient(sum.size(), memory);
  std::array<double, 1> norms = {0};
  for (std::int64_t i = 0; i < each; ++i) {
    kernels::LossSums losses;
    const data::Batch batch = source->next();
    parts.model->loss_and_gradient(batch, 1.0F / static_cast<float>(batch.size), parts.state(), {gradient.view()},
                                   losses);
    norms[0] += parts.backend->squared_norm(gradient.view());
    parts.backend->axpby(1.0F / static_cast<float>(all), gradient.view(), i == 0 ? 0 : 1, sum.view());
    parts.backend->submit();
  }
  std::vector<float> mean(static_cast<std::size_t>(sum.size()));
  memory.copy(sum.view(), mean);
  world.allreduce_sum(std::span<float>(mean));
  world.allreduce_sum(std::span<double>(norms));
  double large_norm = 0;
  for (const float value : mean) large_norm += static_cast<double>(value) * value;
  const auto examples = static_cast<double>(small);
  GradientNoise noise =
      noise_of(norms[0] / static_cast<double>(all), examples, large_norm, examples * static_cast<double>(all));
  noise.checkpoint = stored.path;
  noise.step = stored.header.step;
  return noise;
}

}  // namespace unisono::planning
