#include "unisono/session/tensor_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "unisono/models/staged.hpp"

namespace unisono::session {
namespace {

/// The layers with parameters of one block of a transformer, by their names.
struct BlockLayers {
  std::string attention_norm, qkv, output;
  std::string units_norm, widening, narrowing;
};

/// The layers of a language model of this kind.
struct ModelLayers {
  NameKind kind;
  std::string embedding, norm, unembedding;
  std::vector<BlockLayers> blocks;
};

/// Goes through the table of layers, and takes what has an expected kind.
class LayerWalk {
 public:
  explicit LayerWalk(std::vector<nn::LayerRow> rows) : rows_(std::move(rows)) {
    std::erase_if(rows_, [](const nn::LayerRow& row) { return kind_of(row) == "dropout"; });
  }

  /// The next layer's name, if it is of this kind; else the walk has failed.
  std::string take(std::string_view kind) {
    if (fits_ = fits_ && at_ < rows_.size() && kind_of(rows_[at_]) == kind; !fits_) return "";
    return rows_[at_++].name;
  }
  /// Takes layers of these kinds that are the branch of a residual block.
  std::vector<std::string> take_branch(const std::vector<std::string_view>& kinds) {
    std::vector<std::string> names;
    for (const std::string_view kind : kinds) names.push_back(take(kind));
    const std::string prefix = take("residual") + ".";
    fits_ = fits_ && std::ranges::all_of(names, [&](const std::string& name) { return name.starts_with(prefix); });
    return names;
  }
  bool next_is(std::string_view kind) const { return fits_ && at_ < rows_.size() && kind_of(rows_[at_]) == kind; }
  /// Whether the last two layers are next.
  bool is_near_end() const { return !fits_ || at_ + 2 >= rows_.size(); }
  bool has_fitted() const { return fits_ && at_ == rows_.size(); }

 private:
  /// Without the remark that it is frozen.
  static std::string kind_of(const nn::LayerRow& row) {
    constexpr std::string_view kFrozen = ", frozen";
    return row.kind.ends_with(kFrozen) ? row.kind.substr(0, row.kind.size() - kFrozen.size()) : row.kind;
  }

  std::vector<nn::LayerRow> rows_;
  std::size_t at_ = 0;
  bool fits_ = true;
};

/// The layers, where they are those of the kind; else nothing.
std::optional<ModelLayers> layers_of(NameKind kind, const nn::Network& network) {
  const bool gpt2 = kind == NameKind::gpt2;
  const std::string_view norm = gpt2 ? "layer_norm" : "rms_norm";
  const std::string_view heads = gpt2 ? "attention" : "attention, rotary";
  const std::vector<std::string_view> units = gpt2 ? std::vector<std::string_view>{norm, "dense", "gelu_tanh", "dense"}
                                                   : std::vector<std::string_view>{norm, "dense", "swiglu", "dense"};
  LayerWalk walk(network.rows(1));
  ModelLayers layers{.kind = kind, .embedding = walk.take("embedding"), .norm = {}, .unembedding = {}, .blocks = {}};
  while (!walk.is_near_end()) {
    const auto first = walk.take_branch({norm, "dense", heads, "dense"});
    const auto second = walk.take_branch(units);
    layers.blocks.push_back({first[0], first[1], first[3], second[0], second[1], second[3]});
  }
  layers.norm = walk.take(norm);
  layers.unembedding = walk.take("unembedding");
  if (!walk.has_fitted() || layers.blocks.empty()) return std::nullopt;
  return layers;
}

/// [rows, row size], or [rows].
std::vector<Index> flat_shape(const Block& block, Index rows) {
  return is_weight(block.role) ? std::vector<Index>{rows, block.row_size()} : std::vector<Index>{rows};
}

/// Gives names to the blocks of a layout.
class Namer {
 public:
  explicit Namer(const ParameterLayout& layout) : layout_(layout), blocks_(layout.blocks().size()) {
    for (std::size_t i = 0; i < blocks_.size(); ++i) numbers_[layout.blocks()[i].name] = i;
  }

  const Block* find(const std::string& name) const {
    const auto found = numbers_.find(name);
    return found == numbers_.end() ? nullptr : &layout_.blocks()[found->second];
  }
  /// A block is one tensor.
  void name(const std::string& block, const std::string& tensor, bool transposed = false) {
    const Block* found = find(block);
    if (found == nullptr) return;
    std::vector<Index> shape = flat_shape(*found, found->shape.front());
    if (found->role == Role::norm) shape = {found->size()};
    if (transposed && shape.size() == 2) std::swap(shape[0], shape[1]);
    add(block, {.tensor = tensor,
                .shape = shape,
                .rows = found->shape.front(),
                .transposed = transposed && shape.size() == 2});
  }
  /// The weights and biases of a layer.
  void name_layer(const std::string& layer, const std::string& tensor, bool transposed = false) {
    name(layer + ".weight", tensor + ".weight", transposed);
    name(layer + ".bias", tensor + ".bias");
  }
  /// The weights and biases of a layer are those of several tensors, one after the other.
  void divide_layer(const std::string& layer, const std::vector<std::pair<std::string, Index>>& tensors) {
    for (const char* part : {".weight", ".bias"}) {
      const Block* block = find(layer + part);
      Index first = 0;
      for (const auto& [tensor, rows] : tensors) {
        if (block != nullptr)
          add(layer + part, {.tensor = tensor + part, .shape = flat_shape(*block, rows), .first = first, .rows = rows});
        first += rows;
      }
    }
  }
  void name_norm(const std::string& layer, const std::string& tensor) {
    name(layer + ".gamma", tensor + ".weight");
    name(layer + ".beta", tensor + ".bias");
  }
  /// The table of positions, of which a model with a shorter context has the first ones.
  void name_positions(const std::string& block, const std::string& tensor) {
    name(block, tensor);
    blocks_[numbers_.at(block)].front().may_be_longer = true;
  }
  /// The tensors of all blocks; nothing where one has none.
  std::optional<std::vector<std::vector<TensorRows>>> take() {
    if (std::ranges::any_of(blocks_, &std::vector<TensorRows>::empty)) return std::nullopt;
    return std::move(blocks_);
  }

 private:
  void add(const std::string& block, TensorRows rows) { blocks_[numbers_.at(block)].push_back(std::move(rows)); }

  const ParameterLayout& layout_;
  std::map<std::string, std::size_t> numbers_;
  std::vector<std::vector<TensorRows>> blocks_;
};

/// h.N.… of modeling_gpt2.py, whose weights are [inputs, units].
bool name_gpt2(const ModelLayers& layers, Namer& namer) {
  if (namer.find(layers.embedding + ".position") == nullptr) return false;
  namer.name(layers.embedding + ".weight", "transformer.wte.weight");
  namer.name_positions(layers.embedding + ".position", "transformer.wpe.weight");
  for (std::size_t i = 0; i < layers.blocks.size(); ++i) {
    const BlockLayers& block = layers.blocks[i];
    const std::string prefix = fmt::format("transformer.h.{}.", i);
    namer.name_norm(block.attention_norm, prefix + "ln_1");
    namer.name_layer(block.qkv, prefix + "attn.c_attn", /*transposed=*/true);
    namer.name_layer(block.output, prefix + "attn.c_proj", /*transposed=*/true);
    namer.name_norm(block.units_norm, prefix + "ln_2");
    namer.name_layer(block.widening, prefix + "mlp.c_fc", /*transposed=*/true);
    namer.name_layer(block.narrowing, prefix + "mlp.c_proj", /*transposed=*/true);
    const auto has_bias = [&](const std::string& layer) { return namer.find(layer + ".bias") != nullptr; };
    const Index units = namer.find(block.output + ".weight")->row_size();
    const bool same_heads = namer.find(block.qkv + ".weight")->shape.front() == 3 * units;
    if (!same_heads || !has_bias(block.qkv) || !has_bias(block.widening) || !has_bias(block.narrowing)) return false;
  }
  namer.name_norm(layers.norm, "transformer.ln_f");
  return true;
}

/// model.layers.N.… of modeling_llama.py.
bool name_llama(const ModelLayers& layers, Namer& namer) {
  if (namer.find(layers.embedding + ".position") != nullptr) return false;
  namer.name(layers.embedding + ".weight", "model.embed_tokens.weight");
  for (std::size_t i = 0; i < layers.blocks.size(); ++i) {
    const BlockLayers& block = layers.blocks[i];
    const std::string prefix = fmt::format("model.layers.{}.", i);
    // The rows of Q, K and V are (H + 2 G) D, and the output projection takes H D units.
    const Index queries = namer.find(block.output + ".weight")->row_size();
    const Index keys = (namer.find(block.qkv + ".weight")->shape.front() - queries) / 2;
    const Index units = namer.find(block.narrowing + ".weight")->row_size();
    namer.name_norm(block.attention_norm, prefix + "input_layernorm");
    namer.divide_layer(block.qkv, {{prefix + "self_attn.q_proj", queries},
                                   {prefix + "self_attn.k_proj", keys},
                                   {prefix + "self_attn.v_proj", keys}});
    namer.name_layer(block.output, prefix + "self_attn.o_proj");
    namer.name_norm(block.units_norm, prefix + "post_attention_layernorm");
    namer.divide_layer(block.widening, {{prefix + "mlp.gate_proj", units}, {prefix + "mlp.up_proj", units}});
    namer.name_layer(block.narrowing, prefix + "mlp.down_proj");
  }
  namer.name_norm(layers.norm, "model.norm");
  return true;
}

std::optional<TensorNames> names_as(NameKind kind, const models::Model& model, const nn::Network& network) {
  const auto layers = layers_of(kind, network);
  Namer namer(model.layout());
  if (!layers || !(kind == NameKind::gpt2 ? name_gpt2(*layers, namer) : name_llama(*layers, namer)))
    return std::nullopt;
  const std::string head = layers->unembedding + ".weight";
  const bool tied = namer.find(head) == nullptr;
  namer.name(head, "lm_head.weight");
  auto blocks = namer.take();
  if (!blocks) return std::nullopt;
  return TensorNames{.kind = kind,
                     .blocks = std::move(*blocks),
                     .embedding = kind == NameKind::gpt2 ? "transformer.wte.weight" : "model.embed_tokens.weight",
                     .head = "lm_head.weight",
                     .tied = tied};
}

}  // namespace

std::string_view name_of(NameKind kind) {
  switch (kind) {
    case NameKind::pytorch:
      return "PyTorch";
    case NameKind::gpt2:
      return "GPT-2";
    case NameKind::llama:
      return "Llama";
    default:
      return "unisono";
  }
}

TensorNames own_names(const ParameterLayout& layout) {
  TensorNames names;
  for (const Block& block : layout.blocks()) {
    std::vector<TensorRows>& tensors = names.blocks.emplace_back();
    if (block.role == Role::state) continue;
    tensors.push_back({.tensor = block.name,
                       .shape = block.shape,
                       .rows = block.shape.front(),
                       .may_be_longer = block.name.ends_with(".position")});
  }
  return names;
}

TensorNames own_names(const models::Model& model) {
  TensorNames names = own_names(model.layout());
  if (model.staged() == nullptr) return names;
  for (const nn::LayerRow& row : model.staged()->network().rows(1)) {
    if (row.kind.starts_with("embedding")) names.embedding = row.name + ".weight";
    if (row.kind.starts_with("unembedding")) names.head = row.name + ".weight";
  }
  const std::vector<Block>& blocks = model.layout().blocks();
  names.tied = !names.head.empty() && std::ranges::find(blocks, names.head, &Block::name) == blocks.end();
  return names;
}

std::optional<TensorNames> transformers_names(const models::Model& model) {
  if (model.staged() == nullptr) return std::nullopt;
  const nn::Network& network = model.staged()->network();
  if (auto names = names_as(NameKind::gpt2, model, network)) return names;
  return names_as(NameKind::llama, model, network);
}

namespace {

/// The name of a block with another ending than unisono's.
std::string with_ending(const std::string& block,
                        std::initializer_list<std::pair<std::string_view, const char*>> endings) {
  for (const auto& [own, other] : endings) {
    if (block.ends_with(own)) return block.substr(0, block.size() - own.size()) + other;
  }
  return block;
}

/// The shapes of the tensors that are not those of their blocks.
std::map<std::string, std::vector<Index>> pytorch_shapes(const nn::OperationList& operations) {
  std::map<std::string, std::vector<Index>> shapes;
  for (const nn::OperationStep& step : operations.steps) {
    if (const auto* dense = std::get_if<nn::DenseOperation>(&step.operation)) {
      shapes[dense->weight] = {dense->spec.units, dense->spec.in.size()};
    } else if (step.input_form == nn::TensorForm::image) {
      continue;
    } else if (const auto* norm = std::get_if<nn::LayerNormOperation>(&step.operation)) {
      shapes[norm->gamma] = shapes[norm->beta] = step.element_shape();
    } else if (const auto* rms = std::get_if<nn::RmsNormOperation>(&step.operation)) {
      shapes[rms->gamma] = step.element_shape();
    }
  }
  return shapes;
}

}  // namespace

std::optional<TensorNames> pytorch_names(const models::Model& model) {
  if (model.staged() == nullptr) return std::nullopt;
  const auto shapes = pytorch_shapes(model.staged()->operations());
  TensorNames names = own_names(model);
  names.kind = NameKind::pytorch;
  for (std::size_t i = 0; i < names.blocks.size(); ++i) {
    const std::string& block = model.layout().blocks()[i].name;
    for (TensorRows& rows : names.blocks[i]) {
      rows.tensor = with_ending(block, {{".gamma", ".weight"}, {".beta", ".bias"}});
      if (const auto other = shapes.find(block); other != shapes.end()) rows.shape = other->second;
    }
  }
  return names;
}

TensorNames pytorch_statistics(const ParameterLayout& statistics) {
  TensorNames names = own_names(statistics);
  names.kind = NameKind::pytorch;
  for (std::vector<TensorRows>& tensors : names.blocks) {
    for (TensorRows& rows : tensors) {
      rows.tensor = with_ending(rows.tensor, {{".mean", ".running_mean"}, {".variance", ".running_var"}});
    }
  }
  return names;
}

}  // namespace unisono::session
