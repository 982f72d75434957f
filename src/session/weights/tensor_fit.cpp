#include "weights/tensor_fit.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>

#include "unisono/base/config.hpp"
#include "unisono/base/errors.hpp"
#include "weights/tensor_order.hpp"
#include "weights/tensor_rules.hpp"

namespace unisono::session {
namespace {

/// What files of other programs hold beside the parameters: masks, angles and counts of batches.
bool is_constant(const std::string& tensor) {
  return tensor.ends_with(".attn.bias") || tensor.ends_with(".attn.masked_bias") ||
         tensor.ends_with(".rotary_emb.inv_freq") || tensor.ends_with(".num_batches_tracked");
}

/// Leaves out the prefix of the whole model where no tensor of the file has it.
void adapt_prefix(TensorNames& names, const data::StoredTensors& stored) {
  const std::string prefix = names.embedding.substr(0, names.embedding.find('.') + 1);
  if (std::ranges::any_of(stored, [&](const auto& tensor) { return tensor.first.starts_with(prefix); })) return;
  const auto adapt = [&](std::string& name) {
    if (name.starts_with(prefix)) name.erase(0, prefix.size());
  };
  for (std::vector<TensorRows>& tensors : names.blocks) {
    for (TensorRows& rows : tensors) adapt(rows.tensor);
  }
  adapt(names.embedding);
}

bool has_any(const TensorNames& names, const data::StoredTensors& stored) {
  return std::ranges::any_of(names.blocks, [&](const std::vector<TensorRows>& tensors) {
    return std::ranges::any_of(tensors, [&](const TensorRows& rows) { return stored.contains(rows.tensor); });
  });
}

[[noreturn]] void fail_without_any(const models::Model& model, const data::StoredTensors& stored,
                                   const std::string& path) {
  std::vector<std::string> there, wanted;
  for (const auto& [name, tensor] : stored) there.push_back(name);
  for (const Block& block : model.layout().blocks()) wanted.push_back(block.name);
  const auto known = transformers_names(model);
  throw ConfigError(fmt::format(
      "train.initialise_from: no tensor of {} has a name of this model; the file has {}; the model has {}, {}. Give "
      "the tensors names of this model with train.initialise_map, or take them one after the other with "
      "train.initialise_by = \"order\"",
      path, there.empty() ? "none" : some_of(there), some_of(wanted),
      known
          ? fmt::format("in transformers {} and so on ({})", known->blocks.front().front().tensor, name_of(known->kind))
          : "in PyTorch with the endings weight and bias for those of norms, too"));
}

/// The prefix that all tensors have where PyTorch's module was wrapped, by DistributedDataParallel, torch.compile or
/// both; empty: there is none.
std::string common_prefix(const data::StoredTensors& stored) {
  std::string prefix;
  for (bool grows = !stored.empty(); grows;) {
    grows = false;
    for (const char* wrapper : {"module.", "_orig_mod."}) {
      const auto has_it = [&](const auto& tensor) { return tensor.first.starts_with(prefix + wrapper); };
      if (!std::ranges::all_of(stored, has_it)) continue;
      prefix += wrapper;
      grows = true;
    }
  }
  return prefix;
}

void add_prefix(TensorNames& names, const data::StoredTensors& stored) {
  const std::string prefix = common_prefix(stored);
  for (std::vector<TensorRows>& tensors : names.blocks) {
    for (TensorRows& rows : tensors) rows.tensor.insert(0, prefix);
  }
  for (std::string* name : {&names.embedding, &names.head}) {
    if (!name->empty()) name->insert(0, prefix);
  }
}

/// How many tensors of the file have a name and the shape that goes with it.
std::ptrdiff_t fitting(const TensorNames& names, const data::StoredTensors& stored) {
  std::ptrdiff_t count = 0;
  for (const std::vector<TensorRows>& tensors : names.blocks) {
    count += std::ranges::count_if(tensors, [&](const TensorRows& rows) {
      const auto there = stored.find(rows.tensor);
      return there != stored.end() && has_shape(there->second.shape, rows.shape);
    });
  }
  return count;
}

/// The names that fit the most tensors; of several, the first.
TensorNames best_of(std::vector<TensorNames> candidates, const data::StoredTensors& stored) {
  return *std::ranges::max_element(candidates, {}, [&](const TensorNames& names) { return fitting(names, stored); });
}

/// The names that the file has, of those that the model can have.
TensorNames names_in(const models::Model& model, const data::StoredTensors& stored, const std::string& path) {
  std::vector<TensorNames> candidates = {own_names(model)};
  if (auto names = pytorch_names(model)) {
    add_prefix(*names, stored);
    candidates.push_back(std::move(*names));
  }
  if (auto names = transformers_names(model)) {
    adapt_prefix(*names, stored);
    candidates.push_back(std::move(*names));
  }
  std::erase_if(candidates, [&](const TensorNames& names) { return !has_any(names, stored); });
  if (candidates.empty()) fail_without_any(model, stored, path);
  return best_of(std::move(candidates), stored);
}

/// Looks up the tensors of each block.
class Fitter {
 public:
  Fitter(const ParameterLayout& layout, TensorNames names, const data::StoredTensors& stored, const std::string& path)
      : layout_(layout), stored_(stored), path_(path) {
    fit_.names = std::move(names);
  }

  TensorFit fit() {
    find_head();
    for (std::size_t i = 0; i < layout_.blocks().size(); ++i) add_block(layout_.blocks()[i], fit_.names.blocks[i]);
    for (const auto& [name, tensor] : stored_) {
      if (!used_.contains(name) && !is_constant(name)) fit_.unused.push_back(name);
    }
    return std::move(fit_);
  }

 private:
  /// An unembedding of its own starts from the embedding where the file's model has tied weights. Where this model has,
  /// an unembedding in the file must be the same as the embedding.
  void find_head() {
    TensorNames& names = fit_.names;
    if (names.head.empty()) return;
    const bool there = stored_.contains(names.head);
    if (names.tied && there && !stored_.contains(names.embedding)) return rename(names.embedding, names.head);
    if (names.kind == NameKind::unisono) return;
    if (names.tied && there && stored_.contains(names.embedding)) {
      fit_.compares_head = true;
      used_.insert(names.head);
    }
    if (names.tied || there) return;
    rename(names.head, names.embedding);
    fit_.notes.push_back(
        fmt::format("the file has no {}, so the unembedding starts from {}", names.head, names.embedding));
  }
  /// What would be read from one tensor is read from another one. Of tied weights, PyTorch's save_model keeps one.
  void rename(const std::string& from, const std::string& to) {
    for (std::vector<TensorRows>& tensors : fit_.names.blocks) {
      for (TensorRows& rows : tensors) {
        if (rows.tensor == from) rows.tensor = to;
      }
    }
  }

  void add_block(const Block& block, const std::vector<TensorRows>& tensors) {
    const auto there = [&](const TensorRows& rows) { return stored_.contains(rows.tensor); };
    const auto count = std::ranges::count_if(tensors, there);
    fit_.blocks.push_back(count > 0);
    if (count == 0) {
      if (!tensors.empty()) fit_.begin.push_back(block.name);
      return;
    }
    for (const TensorRows& rows : tensors) {
      if (!there(rows)) fail(fmt::format("has no tensor '{}', but other parts of {}", rows.tensor, block.name), kWhole);
      require_shape(block, rows, stored_.at(rows.tensor));
      used_.insert(rows.tensor);
      ++fit_.tensors;
    }
    fit_.parameters += block.size();
  }

  void require_shape(const Block& block, const TensorRows& rows, const data::StoredTensor& tensor) {
    if (has_shape(tensor.shape, rows.shape)) return;
    const std::vector<Index>&wanted = rows.shape, &there = tensor.shape;
    const bool same_rows = there.size() == wanted.size() && there.size() == 2 && there[1] == wanted[1];
    if (rows.may_be_longer && same_rows && there[0] > wanted[0]) {
      return fit_.notes.push_back(fmt::format("of the {} positions of {} this model takes the first {}",
                                              grouped(there[0]), rows.tensor, grouped(wanted[0])));
    }
    if (rows.may_be_longer && same_rows) {
      fail(fmt::format("has {} positions in '{}', but data.context is {}", there[0], rows.tensor, wanted[0]),
           fmt::format("set data.context to {} at most", there[0]));
    }
    const bool of_tokens = rows.tensor == fit_.names.embedding || rows.tensor == fit_.names.head;
    if (of_tokens && same_rows) {
      fail(fmt::format("is for {} tokens ('{}'), but the data set has {}", grouped(there[0]), rows.tensor,
                       grouped(wanted[0])),
           "import the texts with the tokenizer of the file's model");
    }
    fail(fmt::format("tensor '{}' is {}, but this model needs {} for {}", tensor.name, extent_text(tensor.shape),
                     extent_text(rows.shape), block.name),
         fmt::format("give the layers of [model] the sizes of the file's model, or leave the tensor out, so that the "
                     "block keeps its initial values: train.initialise_map = ['{} =']",
                     tensor.name));
  }

  [[noreturn]] void fail(const std::string& what, const std::string& advice) const {
    throw ConfigError(fmt::format("train.initialise_from: {}: {}; {}", path_, what, advice));
  }

  static constexpr const char* kWhole = "use a file that has all of them";

  const ParameterLayout& layout_;
  const data::StoredTensors& stored_;
  const std::string& path_;
  TensorFit fit_;
  std::set<std::string> used_;
};

}  // namespace

TensorFit fit_tensors(const models::Model& model, const data::StoredTensors& stored, const std::string& path) {
  return Fitter(model.layout(), names_in(model, stored, path), stored, path).fit();
}

TensorFit fit_statistics(const ParameterLayout& layout, const data::StoredTensors& stored, const std::string& path) {
  TensorNames pytorch = pytorch_statistics(layout);
  add_prefix(pytorch, stored);
  return Fitter(layout, best_of({own_names(layout), std::move(pytorch)}, stored), stored, path).fit();
}

namespace {

/// Checks that this model has what rules without * name.
void require_targets(const models::Model& model, const std::vector<settings::TensorRule>& rules,
                     const std::vector<std::string>& unused) {
  std::vector<std::string> known;
  for (const ModelBlock& one : blocks_by_layer(model)) known.push_back(one.block->name);
  for (const settings::TensorRule& rule : rules) {
    if (std::ranges::find(unused, rule.to) == unused.end() || rule.from == rule.to) continue;
    const std::string nearest = nearest_name(rule.to, known);
    throw ConfigError(fmt::format("train.initialise_map: this model has no '{}', as '{}' is to be called; {}", rule.to,
                                  rule.from,
                                  nearest.empty() ? "it has " + some_of(known) : fmt::format("is it '{}'?", nearest)));
  }
}

/// The names of both lists, in the order of the first.
std::vector<std::string> in_both(const std::vector<std::string>& one, const std::vector<std::string>& other) {
  std::vector<std::string> names;
  std::ranges::copy_if(one, std::back_inserter(names),
                       [&](const std::string& name) { return std::ranges::find(other, name) != other.end(); });
  return names;
}

}  // namespace

void require_no_renaming(const settings::WeightSettings& weights) {
  const bool in_order = weights.initialise_by == settings::InitialiseBy::order;
  if (weights.initialise_map.empty() && !in_order) return;
  throw ConfigError(fmt::format(
      "train.{} is for files of weights, but {} is a run or a checkpoint, whose parameters are found by their "
      "names; remove it, or write the parameters to a file with 'unisono export' and name that",
      in_order ? "initialise_by" : "initialise_map", weights.initialise_from));
}

ModelFit fit_model(const models::Model& model, const data::StoredTensors& stored,
                   const settings::WeightSettings& weights) {
  const std::string& path = weights.initialise_from;
  std::vector<settings::TensorRule> rules;
  for (const std::string& rule : weights.initialise_map) rules.push_back(settings::parse_tensor_rule(rule));
  RenamedTensors renamed = rename_tensors(stored, rules, path);
  ModelFit fit;
  fit.in_order = weights.initialise_by == settings::InitialiseBy::order;
  const auto add_unused = [&](const std::string& name) {
    if (!is_constant(name)) fit.unused.push_back(name);
  };
  std::ranges::for_each(renamed.left_out, add_unused);
  std::vector<std::string> notes;
  if (fit.in_order) {
    OrderedTensors ordered = tensors_in_order(model, renamed.tensors, path);
    fit.tensors = std::move(ordered.tensors);
    std::ranges::for_each(ordered.left_out, add_unused);
    notes = std::move(ordered.notes);
  } else {
    fit.tensors = std::move(renamed.tensors);
  }
  fit.parameters = fit_tensors(model, fit.tensors, path);
  fit.statistics = fit_statistics(model.statistics_layout(), fit.tensors, path);
  fit.parameters.notes.insert(fit.parameters.notes.begin(), notes.begin(), notes.end());
  const std::vector<std::string> unused = in_both(fit.parameters.unused, fit.statistics.unused);
  require_targets(model, rules, unused);
  for (const std::string& name : unused) fit.unused.push_back(fit.tensors.at(name).name);
  return fit;
}

}  // namespace unisono::session
