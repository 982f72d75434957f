#include "weights/tensor_order.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "unisono/base/errors.hpp"

namespace unisono::session {
namespace {

using Tensors = std::vector<const data::StoredTensor*>;
using Blocks = std::vector<ModelBlock>;

std::vector<Index> without_ones(std::vector<Index> shape) {
  while (shape.size() > 1 && shape.back() == 1) shape.pop_back();
  return shape;
}

std::string_view layer_name(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? "" : name.substr(0, dot);
}

/// Where a tensor stands among those of its layer.
char place_in_layer(std::string_view ending) {
  constexpr std::string_view kEndings[] = {"weight",       "gamma", "bias",        "beta",
                                           "running_mean", "mean",  "running_var", "variance"};
  const auto* const found = std::ranges::find(kEndings, ending);
  return static_cast<char>('a' + (found - std::begin(kEndings)));
}

/// Sorts by layers, and in these by weight, bias, mean, variance. Numbers have their size: "h.2.weight" before
/// "h.10.weight".
std::string sort_key(std::string_view name) {
  constexpr std::size_t kDigits = 20;
  const std::string_view layer = layer_name(name), ending = name.substr(layer.empty() ? 0 : layer.size() + 1);
  std::string key;
  for (std::size_t i = 0; i < layer.size();) {
    std::size_t end = i;
    while (end < layer.size() && std::isdigit(static_cast<unsigned char>(layer[end])) != 0) ++end;
    if (end > i) {
      key.append(kDigits - std::min(kDigits, end - i), '0');
      key.append(layer.substr(i, end - i));
      i = end;
    } else {
      key += layer[i++];
    }
  }
  key += '\0';
  key += place_in_layer(ending);
  return key.append(ending);
}

/// Whether the names of each type's tensors are sorted: safetensors' own library writes wide types first.
bool are_sorted(const Tensors& tensors) {
  return std::ranges::is_sorted(tensors, [](const data::StoredTensor* a, const data::StoredTensor* b) {
    return a->type == b->type && a->name < b->name;
  });
}

/// The tensors of floats in the order of the file.
Tensors in_file_order(const data::StoredTensors& stored, std::vector<std::string>& others) {
  Tensors tensors;
  for (const auto& [name, tensor] : stored) {
    if (tensor.holds_parameters()) {
      tensors.push_back(&tensor);
    } else {
      others.push_back(tensor.name);
    }
  }
  std::ranges::sort(tensors, {}, &data::StoredTensor::number);
  return tensors;
}

Blocks with_statistics_last(Blocks blocks) {
  std::stable_partition(blocks.begin(), blocks.end(), [](const ModelBlock& one) { return !one.statistic; });
  return blocks;
}

/// How many of the first tensors have the shapes of the first blocks.
std::size_t fitting_from_first(const Tensors& tensors, const Blocks& blocks) {
  const std::size_t most = std::min(tensors.size(), blocks.size());
  std::size_t i = 0;
  while (i < most && has_shape(tensors[i]->shape, blocks[i].block->shape)) ++i;
  return i;
}

/// The last of some tensors and the blocks that they fit.
std::string pairs_before(std::size_t end, const Tensors& tensors, const Blocks& blocks) {
  constexpr std::size_t kShown = 4;
  if (end == 0) return "nothing was taken";
  std::vector<std::string> pairs;
  for (std::size_t i = end - std::min(end, kShown); i < end; ++i)
    pairs.push_back(fmt::format("{} = {}", tensors[i]->name, blocks[i].block->name));
  return fmt::format("{} fitted{} {}", count_of(static_cast<std::int64_t>(end), "tensor"),
                     end > kShown ? ", the last ones:" : ":", fmt::join(pairs, ", "));
}

[[noreturn]] void fail_at(std::size_t i, const Tensors& tensors, const Blocks& blocks, bool sorted,
                          const std::string& path) {
  throw ConfigError(fmt::format(
      "train.initialise_by = \"order\": {}: '{}' is {}, but the next block of this model, {}, is {}; before them {}. "
      "{} "
      "with train.initialise_map ('NAME IN THE FILE = NAME HERE'), or leave tensors out there ('NAME =')",
      path, tensors[i]->name, extent_text(tensors[i]->shape), blocks[i].block->name,
      extent_text(blocks[i].block->shape), pairs_before(i, tensors, blocks),
      sorted ? "The tensors of this file are sorted by name, which may not be the order of its layers: give them names"
             : "Give the tensors names"));
}

}  // namespace

std::vector<ModelBlock> blocks_by_layer(const models::Model& model) {
  const std::vector<Block>&parameters = model.layout().blocks(), &statistics = model.statistics_layout().blocks();
  std::set<std::size_t> added;
  std::vector<ModelBlock> blocks;
  const auto add_statistics = [&](std::string_view layer) {
    for (std::size_t i = 0; i < statistics.size(); ++i) {
      if (layer_name(statistics[i].name) == layer && added.insert(i).second)
        blocks.push_back({.block = &statistics[i], .statistic = true, .number = i});
    }
  };
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].role == Role::state) continue;
    blocks.push_back({.block = &parameters[i], .number = i});
    const std::string_view layer = layer_name(parameters[i].name);
    const bool is_last = i + 1 == parameters.size() || layer_name(parameters[i + 1].name) != layer;
    if (is_last) add_statistics(layer);
  }
  for (const Block& block : statistics) add_statistics(layer_name(block.name));
  return blocks;
}

bool has_shape(const std::vector<Index>& there, const std::vector<Index>& wanted) {
  const std::vector<Index> short_there = without_ones(there), short_wanted = without_ones(wanted);
  if (short_there == short_wanted) return true;
  if (there.size() != 2 || short_wanted.size() < 3 || there.front() != wanted.front()) return false;
  return there.back() == std::accumulate(wanted.begin() + 1, wanted.end(), Index{1}, std::multiplies<>());
}

std::string extent_text(std::vector<Index> shape) {
  shape = without_ones(std::move(shape));
  return shape.empty() ? "a single number" : fmt::format("{}", fmt::join(shape, " × "));
}

OrderedTensors tensors_in_order(const models::Model& model, const data::StoredTensors& stored,
                                const std::string& path) {
  OrderedTensors ordered;
  Tensors tensors = in_file_order(stored, ordered.left_out);
  if (tensors.empty()) {
    throw ConfigError(fmt::format(
        "train.initialise_by = \"order\": {} has no tensor of type F32, F16, BF16 or F64 that could be one of this "
        "model's; name another file",
        path));
  }
  const bool sorted = tensors.size() > 1 && are_sorted(tensors);
  if (sorted) {
    std::ranges::stable_sort(tensors, {}, [](const data::StoredTensor* tensor) { return sort_key(tensor->name); });
    ordered.notes.emplace_back(
        "the tensors of the file are sorted by name, which need not be the order of the layers: see that the table is "
        "right");
  }
  Blocks blocks = blocks_by_layer(model);
  Blocks other = with_statistics_last(blocks);
  std::size_t fitting = fitting_from_first(tensors, blocks);
  if (const std::size_t also = fitting_from_first(tensors, other); also > fitting) {
    blocks = std::move(other);
    fitting = also;
  }
  if (fitting < std::min(tensors.size(), blocks.size())) fail_at(fitting, tensors, blocks, sorted, path);
  for (std::size_t i = 0; i < fitting; ++i) ordered.tensors.emplace(blocks[i].block->name, *tensors[i]);
  for (std::size_t i = fitting; i < tensors.size(); ++i) ordered.left_out.push_back(tensors[i]->name);
  return ordered;
}

}  // namespace unisono::session
