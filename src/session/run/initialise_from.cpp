#include "run/initialise_from.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "checkpoint/checkpoint_header.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/data/tokenizer.hpp"
#include "unisono/records/progress.hpp"
#include "unisono/session/run_checks.hpp"
#include "unisono/session/run_state.hpp"
#include "unisono/session/stored_checkpoint.hpp"
#include "weights/tensor_file.hpp"
#include "weights/tensor_order.hpp"
#include "weights/tensor_rules.hpp"
#include "weights/tensor_table.hpp"

namespace unisono::session {
namespace {

std::string layer_of(const std::string& block) { return block.substr(0, block.rfind('.')); }

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

/// Rank 0 reads them for all ranks.
StoredShapes shapes_for_all(comm::Communicator& ranks, const StoredCheckpoint& stored, const std::string& group) {
  std::string text;
  if (ranks.is_root()) text = nlohmann::json(shapes_in(stored.path, group)).dump();
  return nlohmann::json::parse(ranks.broadcast_text(text)).get<StoredShapes>();
}

/// Reads the blocks of a vector that fit. Collective.
void take(ModelParts& parts, const StoredCheckpoint& stored, const Fitting& fitting, const StoredVector& vector) {
  if (fitting.count == 0) return;
  read_vector(parts.grid.all(), stored, {applied_folder(stored.header) + vector.group}, vector, fitting.blocks);
}

/// Checks that the two models' tokens are those of the same tokenizer, where both are known. A language model's set has
/// no classes, so that the names of the sets say nothing.
void require_same_tokens(comm::Communicator& ranks, const StoredCheckpoint& stored, const NewRun& run, Log& log) {
  const auto &own = run.data.preprocessing().tokenizer, &there = stored.header.preprocessing.tokenizer;
  if (ranks.is_root() && own == nullptr && there != nullptr) {
    log.warning(data::unknown_tokens_text(run.config.data.path, run.config.train.weights.initialise_from));
  }
  if (own == nullptr || there == nullptr || *own == *there) return;
  throw DataError(
      fmt::format("train.initialise_from: the tokens of {} are not those of {}; import the set with --tokenizer-from "
                  "and the set of that run",
                  run.config.train.weights.initialise_from, run.config.data.path));
}

/// Checks that rows of the two models stand for the same words, users, items or tokens.
void require_same_rows(comm::Communicator& ranks, const StoredCheckpoint& stored, const NewRun& run, Log& log) {
  if (run.data.info().kind == data::SetKind::tokens) return require_same_tokens(ranks, stored, run, log);
  if (!has_names(run.data.info().kind)) return;
  const std::uint64_t own = ranks.is_root() ? names_of(run.config.data) : 0;
  if (ranks.max(ranks.is_root() && own != stored.header.names ? 1 : 0) == 0) return;
  throw DataError(
      fmt::format("train.initialise_from: the words, users or items of {} differ from those of {}, so its rows do not "
                  "match; use a run on a set with the same dictionary",
                  run.config.train.weights.initialise_from, run.config.data.path));
}

bool differ(const data::Normalization& a, const data::Normalization& b) {
  return a.mean != b.mean || a.scale != b.scale;
}

std::vector<std::string> lines_of(const StoredCheckpoint& stored, const Fitting& parameters, const NewRun& run) {
  std::vector<std::string> lines{fmt::format("initialised from {} (step {}): {} of {} tensors, {} parameters",
                                             stored.path, stored.header.step, parameters.count,
                                             parameters.blocks.size(), grouped(parameters.parameters))};
  std::string rest;
  const auto add = [&](const std::string& part) { rest += (rest.empty() ? "" : "; ") + part; };
  for (const std::string& layer : parameters.begin) add(layer + " (starts from initial values)");
  if (!parameters.foreign.empty()) add(fmt::format("not used: {}", fmt::join(parameters.foreign, ", ")));
  if (!rest.empty()) lines.push_back(rest);
  if (const std::string other = other_feature(stored.header.preprocessing, run.data.preprocessing()); !other.empty()) {
    lines.push_back(
        fmt::format("the features are not those of {}: {}; weights of the first layer stand for other features",
                    stored.path, other));
  }
  const bool has_features =
      stored.header.inputs.kind == data::SetKind::table || stored.header.inputs.kind == data::SetKind::sparse;
  if (has_features && differ(stored.header.preprocessing.normalization, run.data.preprocessing().normalization)) {
    lines.emplace_back("features are normalised by this run's own training set, not as in the run that it starts from");
  }
  return lines;
}

std::vector<std::string> logged(std::vector<std::string> lines, Log& log) {
  for (const std::string& line : lines) log.info(line);
  return lines;
}

/// Whether the file's model took features normalised as this run's are; empty: nothing is said of it.
std::string note_on_normalization(const data::StoredTensors& tensors, const data::Normalization& own) {
  const auto mean = tensors.find("normalization.mean"), scale = tensors.find("normalization.scale");
  if (mean == tensors.end() || scale == tensors.end()) return "";
  const auto is_like = [](const data::StoredTensor& tensor, const std::vector<float>& numbers) {
    return tensor.holds_parameters() && tensor.shape == std::vector<Index>{std::ssize(numbers)};
  };
  const bool has_numbers = is_like(mean->second, own.mean) && is_like(scale->second, own.scale);
  const bool same = has_numbers && numbers_of("normalization.mean", mean->second) == own.mean &&
                    numbers_of("normalization.scale", scale->second) == own.scale;
  return same ? "features are normalised by this run's own training set, which gives the same as the file's "
                "normalization"
              : "features are normalised by this run's own training set, not by the file's normalization";
}

std::string origin_of(const ModelFit& fit) {
  if (fit.in_order) return "in the order of the file";
  const NameKind kind = fit.parameters.names.kind;
  const bool of_transformers = kind == NameKind::gpt2 || kind == NameKind::llama;
  return fmt::format("names of {}{}", name_of(kind), of_transformers ? " in transformers" : "");
}

/// \param tensors how many the file has
std::vector<std::string> lines_of(const ModelFit& fit, const InitialWeights& weights, std::size_t tensors) {
  constexpr std::size_t kMostRows = 34, kMostNames = 20;
  std::vector<std::string> lines{fmt::format("initialised from {} ({}): {} of {} tensors, {} parameters", weights.path,
                                             origin_of(fit), fit.parameters.tensors + fit.statistics.tensors, tensors,
                                             grouped(fit.parameters.parameters))};
  for (std::string& row : table_of(weights, kMostRows)) lines.push_back(std::move(row));
  lines.insert(lines.end(), fit.parameters.notes.begin(), fit.parameters.notes.end());
  std::vector<std::string> begin = fit.parameters.begin;
  begin.insert(begin.end(), fit.statistics.begin.begin(), fit.statistics.begin.end());
  if (!begin.empty()) {
    lines.push_back(fmt::format("blocks that start from initial values: {}", some_of(begin, kMostNames)));
  }
  if (!fit.unused.empty()) lines.push_back(fmt::format("not used: {}", some_of(fit.unused, kMostNames)));
  return lines;
}

/// Overwrites parameters and running statistics with those of a file of tensors. Collective. \return lines for the log
std::vector<std::string> initialise_from_tensors(ModelParts& parts, const NewRun& run) {
  const settings::WeightSettings& weights = run.config.train.weights;
  const std::string& path = weights.initialise_from;
  comm::Communicator& ranks = parts.grid.all();
  const TensorFile file = open_tensors(ranks, path);
  ModelFit fit = fit_model(*parts.model, file.tensors, weights);
  if (ranks.is_root()) {
    require_same_head(path, fit.tensors, fit.parameters);
    const std::string note = note_on_normalization(file.tensors, run.data.preprocessing().normalization);
    if (!note.empty()) fit.parameters.notes.push_back(note);
  }
  read_tensors(ranks, file.file, fit.tensors, fit.parameters, parameters_of(parts));
  read_tensors(ranks, file.file, fit.tensors, fit.statistics, statistics_of(parts));
  const data::SetKind kind = run.data.info().kind;
  if (has_names(kind) && kind != data::SetKind::tokens) {
    fit.parameters.notes.emplace_back("the file does not say for which words, users or items its rows are");
  }
  return lines_of(fit, weights_of(*parts.model, fit, path), file.tensors.size());
}

}  // namespace

Fitting fitting_blocks(const ParameterLayout& layout, const StoredShapes& there) {
  Fitting fitting;
  std::set<std::string> own, partly;  // own: names of blocks; partly: layers of which some block fits
  for (const Block& block : layout.blocks()) {
    const auto stored = there.find(block.name);
    const bool fits = block.role != Role::state && stored != there.end() && stored->second == block.shape;
    own.insert(block.name);
    fitting.blocks.push_back(fits);
    if (!fits) continue;
    partly.insert(layer_of(block.name));
    ++fitting.count;
    fitting.parameters += block.size();
  }
  std::string last;  // the last name in the list
  for (std::size_t i = 0; i < layout.blocks().size(); ++i) {
    const Block& block = layout.blocks()[i];
    if (fitting.blocks[i] || block.role == Role::state) continue;
    const std::string layer = layer_of(block.name);
    const std::string name = partly.contains(layer) ? block.name : layer;
    if (std::exchange(last, name) == name) continue;  // a layer is named once, by its first block
    const auto stored = there.find(block.name);
    fitting.begin.push_back(stored == there.end() ? fmt::format("{}: {} in this model, not in the checkpoint", name,
                                                                extent_text(block.shape))
                                                  : fmt::format("{}: {} in the checkpoint, {} in this model", name,
                                                                extent_text(stored->second), extent_text(block.shape)));
  }
  for (const auto& [name, shape] : there) {
    if (!own.contains(name)) add_once(fitting.foreign, layer_of(name));
  }
  return fitting;
}

std::vector<std::string> initialise_from_other(ModelParts& parts, const NewRun& run, Log& log) {
  const std::string& path = run.config.train.weights.initialise_from;
  if (path.empty()) return {};
  if (parts.grid.all().max(parts.grid.all().is_root() && names_tensors(path) ? 1 : 0) > 0) {
    return logged(initialise_from_tensors(parts, run), log);
  }
  require_no_renaming(run.config.train.weights);
  const StoredCheckpoint stored = find_checkpoint(parts.grid.all(), path, log);
  const std::string folder = applied_folder(stored.header);
  const Fitting parameters =
      fitting_blocks(parts.model->layout(), shapes_for_all(parts.grid.all(), stored, folder + "parameters"));
  if (parameters.count == 0) {
    throw ConfigError(fmt::format(
        "train.initialise_from: no parameters of {} fit this model: {}{}", stored.path,
        fmt::join(parameters.begin, "; "),
        parameters.foreign.empty() ? ""
                                   : fmt::format("; only in the checkpoint: {}", fmt::join(parameters.foreign, ", "))));
  }
  require_same_rows(parts.grid.all(), stored, run, log);
  const Fitting statistics =
      fitting_blocks(parts.model->statistics_layout(), shapes_for_all(parts.grid.all(), stored, folder + "statistics"));
  take(parts, stored, parameters, parameters_of(parts));
  take(parts, stored, statistics, statistics_of(parts));
  return logged(lines_of(stored, parameters, run), log);
}

}  // namespace unisono::session
