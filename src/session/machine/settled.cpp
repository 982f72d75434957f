#include "unisono/session/settled.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "unisono/base/errors.hpp"

namespace unisono::session {
namespace {

/// The key that divides steps into micro-batches; empty if none is set.
std::string_view dividing_key(const settings::TrainSettings& train) {
  if (train.accumulate > 1) return "accumulate";
  return train.micro_batches > 1 ? "micro_batches" : "";
}

/// Examples of a step, and why so many.
struct StepSize {
  Index examples;
  std::string why;
};

StepSize size_of_step(const settings::Config& config, const data::DatasetInfo& data) {
  constexpr Index kTableBatch = 64, kTokenBatch = 16, kTextBatch = 32, kStepsOfEpoch = 100, kLeastExamples = 4096;
  const Index asked = config.train.batch_size;
  if (config.whole_batch()) return {std::max<Index>(1, data.train), "a step takes the whole training set"};
  if (config.data.order == data::Order::strata && data.kind == data::SetKind::ratings) {
    const Index stratum = (data.train + data.grid - 1) / data.grid;
    if (asked != 0 && asked != stratum) {
      throw ConfigError(
          "train.batch_size: with data.order = \"strata\", a step is a diagonal of the grid, so its size cannot be "
          "chosen; set it to 0");
    }
    return {stratum, "a step is a diagonal of the grid"};
  }
  if (asked != 0) return {asked, {}};
  if (data.kind == data::SetKind::table) return {kTableBatch, "the usual batch of a table"};
  if (data.kind == data::SetKind::tokens && data.classes > 0) return {kTextBatch, "the usual batch of texts"};
  if (data.kind == data::SetKind::tokens) return {kTokenBatch, "the usual batch of windows of tokens"};
  return {std::max(kLeastExamples, (data.train + kStepsOfEpoch - 1) / kStepsOfEpoch),  // and no step of a rest
          fmt::format("a hundredth of an epoch, but at least {}", kLeastExamples)};
}

void require_possible_parts(const settings::Config& config, const data::DatasetInfo& data) {
  const settings::TrainSettings& train = config.train;
  if (const std::string_view key = dividing_key(train); !data::has_free_steps(data.kind) && !key.empty()) {
    throw ConfigError(
        fmt::format("train.{}: {} holds {}, for which steps are not divided into micro-batches; set it to 1", key,
                    config.data.path, data::name_of(data.kind)));
  }
  if (train.last_batch == settings::LastBatch::drop && !data::has_free_steps(data.kind)) {
    throw ConfigError(
        fmt::format("train.last_batch = \"drop\": {} holds {}, of which each step takes what there is; remove it",
                    config.data.path, data::name_of(data.kind)));
  }
  const bool is_chosen = train.batch_size < 0;  // when the model is placed
  if (!is_chosen && std::max(train.accumulate, train.micro_batches) > train.batch_size) {
    throw ConfigError(fmt::format("train.{} is larger than the batch, which has {}; lower it, or set train.batch_size",
                                  dividing_key(train), count_of(train.batch_size, "example")));
  }
}

}  // namespace

std::string_view name_of(ChosenBy by) {
  constexpr std::string_view kNames[] = {"data", "placement", "trial", "resumed run"};
  return kNames[static_cast<std::size_t>(by)];
}

Settled settle(Settled asked, const data::DatasetInfo& data) {
  settings::Config& config = asked.config;
  const auto by_data = [](std::string key, std::string why) {
    return Choice{std::move(key), ChosenBy::data, std::move(why)};
  };
  const bool images = data.layout != data::ImageLayout::automatic;
  asked.choose(config.data.normalization, data.normalization,
               by_data("data.normalization", "what the import of the set said, else none"));
  asked.choose(
      config.data.layout, data.layout,
      by_data("data.layout", images ? "the shape of the set's images" : "the set has no images with channels"));
  StepSize step = size_of_step(config, data);
  if (config.whole_batch()) {
    config.train.batch_size = step.examples;  // which is no key then
  } else {
    asked.choose(config.train.batch_size, step.examples, by_data("train.batch_size", std::move(step.why)));
  }
  // A checkpoint that is written meanwhile lets ranks meet when it is complete: simulated ones would not.
  if (config.communication.record_times) config.checkpoint.in_background = false;
  require_possible_parts(config, data);
  return asked;
}

void require_divisible_steps(const settings::Config& config, const strategies::Strategy& strategy,
                             const models::Model& model) {
  const std::string_view key = dividing_key(config.train);
  if (key.empty() || !strategy.updates_in_place(model)) return;
  throw ConfigError(fmt::format(
      "train.{}: this model is updated in place, example by example, so that steps are not divided into micro-batches; "
      "set it to 1",
      key));
}

}  // namespace unisono::session
