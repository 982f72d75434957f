#include "weights/tensor_fit.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "unisono/base/errors.hpp"

namespace unisono::session {
namespace {

/// Without trailing ones, such as height and width.
std::vector<Index> trimmed(std::vector<Index> shape) {
  while (shape.size() > 1 && shape.back() == 1) shape.pop_back();
  return shape;
}

std::string extent_text(const std::vector<Index>& shape) { return fmt::format("{}", fmt::join(trimmed(shape), " × ")); }

/// "a, b, c and 12 more".
std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 5;
  const std::vector<std::string> shown(names.begin(),
                                       names.begin() + static_cast<std::ptrdiff_t>(std::min(kShown, names.size())));
  const std::size_t more = names.size() - shown.size();
  return fmt::format("{}{}", fmt::join(shown, ", "), more == 0 ? "" : fmt::format(" and {} more", more));
}

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
      "train.initialise_from: no tensor of {} has a name of this model; the file has {}; the model has {}, {}", path,
      there.empty() ? "none" : some_of(there), some_of(wanted),
      known
          ? fmt::format("in transformers {} and so on ({})", known->blocks.front().front().tensor, name_of(known->kind))
          : "in PyTorch with the endings weight and bias for those of norms, too; name the tensors like that, or "
            "change "
            "[model]"));
}

/// The names get the prefix that all tensors have where PyTorch's module was wrapped, by DistributedDataParallel or
/// torch.compile.
void add_prefix(TensorNames& names, const data::StoredTensors& stored) {
  for (const std::string prefix : {"module.", "_orig_mod."}) {
    const bool has_all =
        std::ranges::all_of(stored, [&](const auto& tensor) { return tensor.first.starts_with(prefix); });
    if (!has_all) continue;
    for (std::vector<TensorRows>& tensors : names.blocks) {
      for (TensorRows& rows : tensors) rows.tensor.insert(0, prefix);
    }
    for (std::string* name : {&names.embedding, &names.head}) {
      if (!name->empty()) name->insert(0, prefix);
    }
  }
}

/// How many tensors of the file have a name and the shape that goes with it.
std::ptrdiff_t fitting(const TensorNames& names, const data::StoredTensors& stored) {
  std::ptrdiff_t count = 0;
  for (const std::vector<TensorRows>& tensors : names.blocks) {
    count += std::ranges::count_if(tensors, [&](const TensorRows& rows) {
      const auto there = stored.find(rows.tensor);
      return there != stored.end() && trimmed(there->second.shape) == trimmed(rows.shape);
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
    const TensorNames& names = fit_.names;
    if (names.kind == NameKind::unisono || names.head.empty()) return;
    const bool there = stored_.contains(names.head);
    if (names.tied && there && stored_.contains(names.embedding)) {
      fit_.compares_head = true;
      used_.insert(names.head);
    }
    if (names.tied || there) return;
    for (std::vector<TensorRows>& tensors : fit_.names.blocks) {
      for (TensorRows& rows : tensors) {
        if (rows.tensor == names.head) rows.tensor = names.embedding;
      }
    }
    fit_.notes.push_back(
        fmt::format("the file has no {}, so the unembedding starts from {}", names.head, names.embedding));
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
    const std::vector<Index> wanted = trimmed(rows.shape), there = trimmed(tensor.shape);
    if (there == wanted) return;
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
    fail(fmt::format("tensor '{}' is {}, but this model needs {} for {}", rows.tensor, extent_text(tensor.shape),
                     extent_text(rows.shape), block.name),
         "give the layers of [model] the sizes of the file's model, or rename the tensor, so that the block keeps its "
         "initial values");
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

}  // namespace unisono::session
