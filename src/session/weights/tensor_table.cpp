#include "weights/tensor_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "weights/tensor_file.hpp"
#include "weights/tensor_order.hpp"

namespace unisono::session {
namespace {

/// The tensors of a block, by their names in the file.
std::string sources_of(const std::vector<TensorRows>& tensors, const data::StoredTensors& stored) {
  std::vector<std::string> names;
  for (const TensorRows& rows : tensors) {
    names.push_back(stored.at(rows.tensor).name + (rows.transposed ? " (transposed)" : ""));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

/// As wide as the widest: characters, of which some have several bytes.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; }));
}

}  // namespace

InitialWeights weights_of(const models::Model& model, const ModelFit& fit, const std::string& path) {
  InitialWeights weights{.path = path, .blocks = {}, .unused = fit.unused};
  for (const ModelBlock& one : blocks_by_layer(model)) {
    const TensorFit& part = one.statistic ? fit.statistics : fit.parameters;
    const bool from_file = part.blocks[one.number];
    weights.blocks.push_back(
        {.block = one.block->name,
         .shape = extent_text(one.block->shape),
         .from = from_file ? sources_of(part.names.blocks[one.number], fit.tensors) : "initial values",
         .from_file = from_file});
  }
  return weights;
}

std::vector<std::string> table_of(const InitialWeights& weights, std::size_t most) {
  const std::string name = "in this model", shape = "shape";
  std::size_t wide = name.size(), wide_shape = shape.size();
  for (const BlockSource& one : weights.blocks) {
    wide = std::max(wide, width_of(one.block));
    wide_shape = std::max(wide_shape, width_of(one.shape));
  }
  const auto row = [&](const std::string& first, const std::string& second, const std::string& third) {
    return fmt::format("  {:{}}  {:{}}  {}", first, wide, second, wide_shape, third);
  };
  const std::size_t count = weights.blocks.size(), shown = std::min(most, count);
  const std::size_t above = shown < count ? shown * 2 / 3 : count;
  std::vector<std::string> lines{row(name, shape, "from")};
  for (std::size_t i = 0; i < count; ++i) {
    if (i == above) {
      lines.push_back(fmt::format("  … {} more, all of which 'unisono info' shows …", count - shown));
      i = count - (shown - above);
    }
    lines.push_back(row(weights.blocks[i].block, weights.blocks[i].shape, weights.blocks[i].from));
  }
  return lines;
}

std::optional<InitialWeights> initial_weights(const settings::Config& config, const models::Model& model) {
  const settings::WeightSettings& weights = config.train.weights;
  if (weights.initialise_from.empty() || !names_tensors(weights.initialise_from)) return std::nullopt;
  const data::StoredTensors tensors = read_tensors(weights.initialise_from);
  return weights_of(model, fit_model(model, tensors, weights), weights.initialise_from);
}

}  // namespace unisono::session
