#include "unisono/session/run_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>

#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"
#include "unisono/base/raw_file.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/data/moments.hpp"
#include "unisono/session/evaluation.hpp"
#include "unisono/session/method.hpp"
#include "unisono/session/settled.hpp"

namespace unisono::session {

void require_same_experiment(comm::Communicator& group, const settings::Config& config) {
  comm::require_same(group, "build", build_hash(), "install the same unisono on all nodes");
  comm::require_same(group, "config", hash_bytes(settings::effective_config(config)),
                     "give every rank the same config file and the same --set");
}

void require_same_instructions(comm::Communicator& group) {
  comm::require_same(
      group, "CPU's instruction set", hash_bytes(kernels::cpu_instruction_set()),
      "give all ranks the environment UNISONO_MAX_ISA=avx2, or portable, so that they compute the same bits");
}

void require_same_data(comm::Communicator& group, const data::DatasetInfo& data) {
  comm::require_same(group, "data set", data.identity, "copy the same file to all nodes, or use a shared one");
}

void require_examples(const settings::Config& config, const ModelParts& parts, Index examples) {
  const std::string need = parts.strategy->need_of_examples(*parts.model);
  const Index ranks = parts.workers(), step = std::min(config.train.batch_size, examples);
  // Fixed parts are cut into micro-batches; else the micro-batches of train.accumulate are cut into parts.
  const bool cuts_first = config.train.accumulate > 1 && config.data.partition != data::Partition::fixed;
  const Index micro_batches = cuts_first ? std::min(config.train.accumulate, step) : 1;
  const Index least = micro_batches * (ranks - 1) + 1;  // so that the largest one has an example for each rank
  if (need.empty() || step >= least) return;
  throw ConfigError(
      fmt::format("train.batch_size: a step has {}{} for {}, and those without examples would {}: {}start fewer ranks",
                  count_of(step, "example"),
                  micro_batches > 1 ? fmt::format(" in {} micro-batches", micro_batches) : "", count_of(ranks, "rank"),
                  need, least <= examples ? fmt::format("raise train.batch_size to {} or more, or ", least) : ""));
}

namespace {

/// "data.h5: all 40 validation examples have the class 'yes'"
std::string what_all_have(const settings::Config& config, const data::DatasetInfo& data, data::Split split,
                          const data::CommonAnswer& common) {
  return fmt::format("{}: all {} {} examples have {}", config.data.path, grouped(examples_of(data, split)),
                     split == data::Split::train ? "training" : data::name_of(split), common.text);
}

std::string undefined_text(const std::string& metric, const std::string& what, data::Split split) {
  return fmt::format("{} is undefined, since in {}; choose another metric, or other {} examples", metric, what,
                     data::name_of(split));
}

/// The key that chooses by a metric which these examples do not have; empty: none does.
std::string deciding_key(const Criteria& criteria, data::Split split,
                         const std::function<bool(const std::string& metric)>& is_undefined) {
  const auto decides = [&](const std::optional<Criterion>& criterion) {
    return criterion && criterion->split == split && is_undefined(criterion->metric);
  };
  if (decides(criteria.stopping)) return "train.early_stopping.metric = \"" + criteria.stopping->metric + "\"";
  return decides(criteria.best) ? "checkpoint.best.metric = \"" + criteria.best->metric + "\"" : "";
}

/// "data.h5: 6 of 6 test examples are of a class that no training example has, …", where that leaves all metrics of the
/// split undefined; else empty.
std::string what_leaves_undefined(const settings::Config& config, const models::Model& model, data::Dataset& data,
                                  data::Split split) {
  if (!is_undefined(config, model, data, split)) return "";
  return fmt::format("{}: {}", config.data.path, unseen_text(config, model, data, split, data.class_names()));
}

/// Refuses a metric that was chosen to decide, but is undefined because the training examples say nothing about those
/// of the split.
void require_seen(const settings::Config& config, const models::Model& model, data::Dataset& data,
                  const Criteria& criteria, data::Split split) {
  if (examples_of(data.info(), split) == 0) return;
  const std::string unseen = what_leaves_undefined(config, model, data, split);
  if (unseen.empty()) return;
  Criteria chosen = criteria;
  const settings::BestSettings defaults;
  if (config.checkpoint.best.metric == defaults.metric) chosen.best.reset();  // nobody asked for it
  const std::string key = deciding_key(chosen, split, [](const std::string&) { return true; });
  if (!key.empty()) throw ConfigError(undefined_text(key + ": it", unseen, split));
}

}  // namespace

std::vector<std::string> require_variety(const settings::Config& config, const models::Model& model,
                                         data::Dataset& data, const Criteria& criteria, bool is_new) {
  std::vector<std::string> notes;
  for (const data::Split split : data::kSplits) {
    if (is_new) require_seen(config, model, data, criteria, split);
    const auto common = data.common_answer(split);
    if (!common) continue;
    const std::string what = what_all_have(config, data.info(), split, *common);
    const bool are_several = examples_of(data.info(), split) > 1;
    if (is_new && are_several && split == data::Split::train && data.info().classes > 0) {
      throw DataError(what + ": a classifier learns to tell two or more apart; add examples of other classes");
    }
    const std::vector<std::string> undefined = undefined_metrics(model, split, data.info(), *common);
    if (is_new && split == data::Split::validation && !config.train.threshold_by.empty()) {
      throw ConfigError(
          fmt::format("train.threshold_by = \"{}\": a threshold is chosen by examples of both classes, but "
                      "in {}; remove it, or choose other validation examples",
                      config.train.threshold_by, what));
    }
    const auto is_among = [&](const std::string& metric) {
      return std::ranges::find(undefined, metric) != undefined.end();
    };
    if (const std::string key = deciding_key(criteria, split, is_among); is_new && !key.empty()) {
      throw ConfigError(undefined_text(key + ": it", what, split));
    }
    const std::string names = all_of({undefined.begin(), undefined.end()});
    if (!are_several) continue;
    notes.push_back(names.empty()
                        ? what
                        : fmt::format("{}, so that {} {} undefined", what, names, undefined.size() > 1 ? "are" : "is"));
  }
  return notes;
}

namespace {

using Deviations = std::map<std::size_t, double>;  // standard deviations, by feature

/// How many of the first training examples are examined, which have so many values each.
std::int64_t examples_examined(double values) {
  constexpr double kMostValues = 1 << 24;
  constexpr std::int64_t kMostExamples = 4096;
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(kMostValues / std::max(1.0, values)), 1, kMostExamples);
}

/// The standard deviation of each feature over the first training examples.
Deviations deviations_of_features(data::Dataset& data) {
  const auto width = static_cast<std::size_t>(data.info().features.size());
  const std::int64_t parts =
      std::max<std::int64_t>(1, data.info().train / examples_examined(static_cast<double>(width)));
  std::vector<double> sums(width), squares(width), first;
  double examples = 0;
  const auto source = data.evaluate(data::Split::train, 0, static_cast<int>(parts), 256);
  while (const auto batch = source->next()) {
    for (std::size_t i = 0; i < batch->features.size(); ++i) {
      if (first.size() < width) first.push_back(double{batch->features[i]});  // subtracted, so that little cancels
      const double value = double{batch->features[i]} - first[i % width];
      sums[i % width] += value;
      squares[i % width] += value * value;
    }
    examples += static_cast<double>(batch->size);
  }
  Deviations deviations;
  for (std::size_t i = 0; i < width; ++i) {
    const double mean = sums[i] / examples;
    deviations[i] = std::sqrt(std::max(0.0, squares[i] / examples - mean * mean));
  }
  return deviations;
}

/// The same for each column that occurs in the first rows.
Deviations deviations_of_columns(data::Dataset& data) {
  std::map<std::size_t, data::Moments> columns;
  std::int64_t left = std::min(data.info().train, examples_examined(data.info().row_values));
  const auto examples = static_cast<double>(left);
  const auto source = data.evaluate(data::Split::train, 0, 1, 256);
  for (auto batch = source->next(); batch && left > 0; batch = source->next()) {
    const SparseRows& rows = std::get<data::LabelledRows>(*batch->set).rows;
    for (const data::ExampleRange& range : batch->ranges) {
      const std::int64_t taken = std::min(left, range.size());
      left -= taken;
      const auto last = rows.offsets[static_cast<std::size_t>(range.first + taken)];
      for (auto k = rows.offsets[static_cast<std::size_t>(range.first)]; k < last; ++k) {
        columns[rows.columns[k]].unite({.count = 1, .mean = rows.values.empty() ? 1.0 : double{rows.values[k]}});
      }
    }
  }
  Deviations deviations;
  for (auto& [column, values] : columns) {
    values.unite({.count = examples - values.count});  // the zeros that are not stored
    deviations[column] = values.deviation();
  }
  return deviations;
}

std::string name_of_feature(const data::Preprocessing& preprocessing, std::size_t i) {
  if (preprocessing.recipe.base)
    return fmt::format("index {}", static_cast<std::int64_t>(i) + *preprocessing.recipe.base);
  const std::vector<std::string> names =
      preprocessing.columns.empty() ? preprocessing.feature_names : preprocessing.encoded_names();
  return i < names.size() ? fmt::format("'{}'", names[i]) : fmt::format("feature {}", i + 1);
}

}  // namespace

std::string warning_on_scales(const settings::Config& config, data::Dataset& data) {
  constexpr double kLargeRatio = 1000, kLargeDeviation = 10;
  const data::DatasetInfo& info = data.info();
  const bool is_sparse = info.kind == data::SetKind::sparse;
  const bool is_rows = info.kind == data::SetKind::table && info.features.height == 1 && info.features.width == 1;
  if ((!is_rows && !is_sparse) || info.normalization != data::NormalizationKind::none) return "";
  const Deviations deviations = is_sparse ? deviations_of_columns(data) : deviations_of_features(data);
  if (deviations.empty()) return "";
  const auto largest = std::ranges::max_element(deviations, {}, &Deviations::value_type::second);
  auto smallest = largest;
  for (auto one = deviations.begin(); one != deviations.end(); ++one) {
    if (one->second > 0 && one->second < smallest->second) smallest = one;
  }
  if (largest->second < kLargeDeviation || largest->second < kLargeRatio * smallest->second) return "";
  const auto text = [&](auto at) {
    return fmt::format("{} has {:.2g}", name_of_feature(data.preprocessing(), at->first), at->second);
  };
  return fmt::format(
      "{}: the standard deviations of the features differ by more than {:g} ({}, {}), from which models learn badly: "
      "set data.normalization = \"feature\", or leave out what is no measurement",
      config.data.path, kLargeRatio, text(largest), text(smallest));
}

std::vector<std::string> notes_on_split(const settings::Config& config, const models::Model& model,
                                        data::Dataset& data) {
  std::vector<std::string> notes;
  for (const data::Split split : {data::Split::validation, data::Split::test}) {
    const std::string text = unseen_text(config, model, data, split, data.class_names());
    if (!text.empty()) notes.push_back(fmt::format("{}: {}", config.data.path, text));
  }
  return notes;
}

std::string note_on_cut_texts(const data::DatasetInfo& data) {
  std::string parts;
  const std::array texts = {data.train, data.validation, data.test};
  for (const data::Split split : data::kSplits) {
    const auto i = static_cast<std::size_t>(split);
    if (data.cut[i] == 0) continue;
    parts += fmt::format("{}{} of {} {} texts", parts.empty() ? "" : ", ", grouped(data.cut[i]), grouped(texts[i]),
                         data::name_of(split));
  }
  if (parts.empty()) return "";
  return fmt::format("{} are longer than data.context; the model sees their first {}", parts,
                     count_of(data.context, "token"));
}

std::string note_on_groups(const data::DatasetInfo& data) {
  if (data.held_out_groups == 0) return "";
  return fmt::format(
      "validation: {} of {}, all of {} of {} (train/groups); data.split_by = \"rows\" holds out single examples",
      grouped(data.validation), count_of(data.train + data.validation, "example"), grouped(data.held_out_groups),
      count_of(data.groups, "group"));
}

void require_defined(const settings::Config& given, data::Dataset& data, data::Split split, const std::string& metric,
                     const std::string& key) {
  const settings::Config config = settle(given, data.info()).config;
  ModelOfConfig made(config, data.info());
  const std::string deciding = fmt::format("{}: {} {}", key, data::name_of(split), metric);
  const std::string unseen = what_leaves_undefined(config, made.model(), data, split);
  if (!unseen.empty()) throw ConfigError(undefined_text(deciding, unseen, split));
  const auto common = data.common_answer(split);
  if (!common) return;
  const auto undefined = undefined_metrics(made.model(), split, data.info(), *common);
  if (std::ranges::find(undefined, metric) == undefined.end()) return;
  throw ConfigError(undefined_text(deciding, what_all_have(given, data.info(), split, *common), split));
}

void require_simulated(const settings::Config& config) {
  const auto refuse = [](bool wrong, const std::string& message) {
    if (wrong) throw ConfigError(message);
  };
  refuse(!config.simulation.is_on(), "simulation.ranks: how many ranks are simulated? Set it, e.g. to 64");
  const strategies::StrategyTraits traits = traits_of(config.strategy);
  refuse(
      !traits.simulated,
      fmt::format("strategy.kind = \"{}\" cannot be simulated; these can be: {}", config.strategy.kind,
                  strategies::names_of_kinds([](const strategies::StrategyTraits& kind) { return kind.simulated; })));
  refuse(config.device != settings::DeviceChoice::cpu, "device: simulated ranks compute on CPUs; set device = \"cpu\"");
  refuse(config.replica.stages != 1 || config.replica.tensor != 1,
         "replica: simulated ranks hold whole models; set replica.stages and replica.tensor to 1");
  refuse(config.is_placed_automatically(),
         "train.batch_size: how many examples does a step of all simulated ranks have? Give a number, and leave no "
         "placement open");
  refuse(config.train.threads > 1, "train.threads: a simulated rank computes on one thread; set it to 1, or 0");
  refuse(config.fault.is_on(),
         "fault: simulated ranks are slowed down by simulation.slow_share and step_times; "
         "remove [fault]");
  refuse(!config.data.stage.empty(), "data.stage: a simulation reads its set once; remove it");
  refuse(
      config.checkpoint.hours_between_failures > 0 && !config.simulation.has_failures(),
      "checkpoint.hours_between_failures: simulated hosts do not fail; set simulation.hours_between_failures, too, or "
      "remove it");
  refuse(config.simulation.has_failures() && !config.simulation.message_times.empty(),
         "simulation.message_times: a run that starts again has other messages than the recorded one; remove "
         "hours_between_failures and failure_times");
  refuse(config.checkpoint.memory_every_steps > 0,
         "checkpoint.memory_every_steps: simulated hosts have no memory of their own; remove it");
  refuse(!config.checkpoint.local.empty(), "checkpoint.local: simulated hosts have no disks; remove it");
}

void require_slow_rank(const settings::Config& config, const ModelParts& parts) {
  const auto rank = static_cast<int>(config.fault.slow_rank);
  const int ranks = parts.grid.all().size();
  if (const auto speeds = std::ssize(config.fault.emulated_gflops); speeds > 1 && speeds != ranks) {
    throw ConfigError(fmt::format("fault.emulated_gflops names {} speeds for {}; give one for each, or one for all",
                                  speeds, count_of(ranks, "rank")));
  }
  if (rank < 0) return;
  if (rank >= ranks) {
    throw ConfigError(fmt::format("fault.slow_rank: there is no rank {}; this run has {}, numbered from 0", rank,
                                  count_of(ranks, "rank")));
  }
  if (!parts.strategy->data_shard(rank, ranks)) {
    throw ConfigError(
        fmt::format("fault.slow_rank: rank {} is a server and does not train; choose another rank", rank));
  }
}

std::string ranks_text(const settings::Config& config, int ranks, int workers, int stages) {
  const std::string all = count_of(ranks, "rank");
  if (config.replica.tensor > 1) {
    return fmt::format("{} ({} of {}{} that share layers)", all, count_of(workers, "replica"),
                       stages > 1 ? count_of(stages, "stage") + " × " : "", count_of(config.replica.tensor, "rank"));
  }
  if (stages > 1) return fmt::format("{} ({} of {})", all, count_of(workers, "replica"), count_of(stages, "stage"));
  if (workers > ranks) return fmt::format("{} that share {}", count_of(workers, "worker"), all);
  if (workers == ranks) return all;
  if (traits_of(config.strategy).divides_features) return all + ", which divide the features,";
  return fmt::format("{}, of which {} {},", all, workers, workers == 1 ? "trains" : "train");
}

std::string local_batch_text(const settings::Config& config, int workers) {
  const std::int64_t batch = config.train.batch_size;
  // A rank takes whole micro-batches, or a slice of each; m cuts of the batch begin at ⌊i · batch / m⌋.
  const bool whole = micro_batch_sharing(config, workers) == data::MicroBatchSharing::whole;
  const std::int64_t cuts = whole ? config.train.micro_batches : workers;
  const auto first_of = [&](std::int64_t rank) { return rank * cuts / workers * batch / cuts; };
  std::int64_t least = batch, most = 0;
  for (int rank = 0; rank < workers; ++rank) {
    const std::int64_t examples = first_of(rank + 1) - first_of(rank);
    least = std::min(least, examples);
    most = std::max(most, examples);
  }
  const std::string all = count_of(batch, "example");
  if (least == most) return fmt::format("{} of {}", grouped(least), all);
  return fmt::format("{} {} {} of {}", grouped(least), most == least + 1 ? "or" : "to", grouped(most), all);
}

namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "dictionary.h5";

/// Hash of all names in their order; 0 if there are none.
std::uint64_t hash_of(const data::Dictionary& dictionary) {
  std::uint64_t hash = 0;
  for (const data::NameTable& table : dictionary) {
    hash = hash_bytes(table.table, hash);
    for (const std::string& name : table.names) hash = hash_bytes(name, hash + 1);
  }
  return hash;
}

}  // namespace

std::uint64_t keep_dictionary(const data::DataSettings& set, const std::string& file) {
  std::error_code ignored;
  if (fs::exists(file, ignored)) return hash_of(data::read_dictionary(file));
  const data::Dictionary dictionary = data::read_dictionary(set.path, set.external_files);
  if (dictionary.empty()) return 0;
  const std::string aside = file + ".tmp";
  try {
    data::write_dictionary(aside, dictionary);
  } catch (...) {
    fs::remove(aside, ignored);
    throw;
  }
  sync_and_rename(aside, file);
  return hash_of(dictionary);
}

std::uint64_t names_of(const data::DataSettings& set) {
  return hash_of(data::read_dictionary(set.path, set.external_files));
}

data::Dictionary dictionary_of(const StoredCheckpoint& checkpoint, const settings::Config& config) {
  const std::uint64_t names = checkpoint.header.names;
  const auto is_its = [names](const data::Dictionary& dictionary) {
    return names == 0 || hash_of(dictionary) == names;
  };
  const fs::path folder = fs::absolute(checkpoint.path).parent_path();
  std::error_code ignored;
  for (const fs::path& file : {folder.parent_path() / kName, folder / kName}) {
    if (!fs::exists(file, ignored)) continue;
    data::Dictionary dictionary = data::read_dictionary(file.string());
    if (is_its(dictionary)) return dictionary;
  }
  const auto lacks = [&](const std::string& why) -> DataError {
    return DataError(
        fmt::format("{}: its run's {} is missing or belongs to another run, and the names cannot be read from the "
                    "training set: {}; restore one of them",
                    checkpoint.path, kName, why));
  };
  try {
    data::Dictionary dictionary = data::read_dictionary(config.data.path, config.data.external_files);
    if (is_its(dictionary)) return dictionary;
  } catch (const DataError& error) {
    throw lacks(error.what());
  }
  throw lacks(config.data.path + " has different names now");
}

void require_same_names(const StoredCheckpoint& checkpoint, const settings::Config& config, const std::string& set) {
  const data::Dictionary known = dictionary_of(checkpoint, config);
  const bool by_name = !checkpoint.header.preprocessing.class_names.empty();  // matched when the set is read
  for (const data::NameTable& there : data::read_dictionary(set, config.data.external_files)) {
    if (there.table == "classes" && by_name) continue;
    const data::NameTable* const own = data::find_table(known, there.table);
    if (own == nullptr || own->names.empty()) continue;
    const auto compared = static_cast<std::ptrdiff_t>(std::min(own->names.size(), there.names.size()));
    const auto [name, other] = std::mismatch(own->names.begin(), own->names.begin() + compared, there.names.begin());
    const auto row = name - own->names.begin();
    if (row == compared) continue;
    throw DataError(
        fmt::format("{}: its {} are numbered differently from those that {} was trained on: number {} is '{}' instead "
                    "of '{}'; use the training set, or a set that was imported together with it",
                    set, there.table, checkpoint.path, row, *other, *name));
  }
}

}  // namespace unisono::session
