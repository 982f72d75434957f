#include "tokens/schema.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "dense/feature_writer.hpp"
#include "order/schedule.hpp"
#include "recipe/recipe_file.hpp"
#include "set/external.hpp"
#include "sparse/schema.hpp"
#include "tokenizer/kinds.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"

namespace unisono::data {
namespace {

[[noreturn]] void refuse_object(const hdf5::File& file, const std::string& object, const std::string& what) {
  throw DataError(fmt::format("{}: /{} {}; see docs/data-format.md", file.path(), object, what));
}

/// How many documents a group has, and whether they have classes.
void read_documents(const hdf5::File& file, TokenGroup& group) {
  group.has_documents = file.exists(group.documents_path());
  group.has_labels = file.exists(group.labels_path());
  const auto values_of = [&](const std::string& path) {
    if (!file.is_dataset(path)) refuse_object(file, path, "is a group, but must be a dataset");
    const hdf5::DatasetShape shape = file.shape(path);
    if (!hdf5::is_integer(shape.type)) {
      refuse_object(file, path, fmt::format("holds {}, not whole numbers", hdf5::name_of(shape.type)));
    }
    if (!shape.complete) refuse_object(file, path, "was not written completely; make the file again");
    if (shape.extent.size() != 1) {
      refuse_object(file, path, fmt::format("has {} axes, but must have one", shape.extent.size()));
    }
    return static_cast<std::int64_t>(shape.rows());
  };
  if (group.has_documents) group.documents = values_of(group.documents_path()) - 1;
  if (group.documents < 1) refuse_object(file, group.documents_path(), "has no documents");
  if (!group.has_labels) return;
  const std::int64_t labels = values_of(group.labels_path());
  if (labels == group.documents) return;
  refuse_object(file, group.labels_path(),
                fmt::format("has {}, but there {} {}", count_of(labels, "label"), group.documents == 1 ? "is" : "are",
                            count_of(group.documents, "document")));
}

std::optional<TokenGroup> read_token_group(const hdf5::File& file, const std::string& name) {
  TokenGroup group{.name = name};
  if (!file.exists(name)) return std::nullopt;
  if (!file.exists(group.path())) refuse_object(file, name, "has no dataset 'tokens' with the numbers of its tokens");
  if (!file.is_dataset(group.path())) refuse_object(file, group.path(), "is a group, but must be a dataset");
  group.stored = file.shape(group.path());
  if (!hdf5::is_integer(group.stored.type)) {
    refuse_object(file, group.path(), fmt::format("holds {}, not whole numbers", hdf5::name_of(group.stored.type)));
  }
  if (group.stored.extent.size() != 1) {
    refuse_object(file, group.path(), fmt::format("has {} axes, but must have one", group.stored.extent.size()));
  }
  if (!group.stored.complete) refuse_object(file, group.path(), "was not written completely; make the file again");
  group.tokens = static_cast<std::int64_t>(group.stored.rows());
  read_documents(file, group);
  return group;
}

Index read_vocabulary_size(const hdf5::File& file, const TokenSchema& schema) {
  Index told = 0, known = 0;
  if (file.has_attribute("", "vocabulary")) told = file.read_attribute<std::int64_t>("", "vocabulary");
  const bool counts = schema.tokenizer != nullptr && schema.tokenizer->model.empty();
  if (counts) known = std::ssize(schema.tokenizer->vocabulary) + (schema.tokenizer->end_of_text ? 1 : 0);
  if (counts && schema.tokenizer->kind == TokenizerKind::bytes) known += 256;
  const Index vocabulary = told != 0 ? told : known;
  if (vocabulary < 1 || vocabulary > kMostTokens) {
    throw DataError(
        fmt::format("{}: has no attribute 'vocabulary' with the number of different tokens, 1 to {}; see "
                    "docs/data-format.md",
                    file.path(), kMostTokens));
  }
  if (counts && known != vocabulary) {
    throw DataError(fmt::format("{}: the attribute 'vocabulary' is {}, but /tokenizer has {} tokens; correct it",
                                file.path(), vocabulary, known));
  }
  return vocabulary;
}

std::uint64_t hash_of_labels(const hdf5::File& file, const TokenGroup& group, std::uint64_t hash) {
  for (const std::string& path : {group.documents_path(), group.labels_path()}) {
    if (!file.exists(path)) continue;
    const auto values = file.read<std::int64_t>(path);
    hash = hash_bytes(std::as_bytes(std::span(values)), hash);
  }
  return hash;
}

std::uint64_t hash_of(const TokenizerParts& parts, std::uint64_t hash) {
  hash = hash_bytes(fmt::format("{} {}", name_of(parts.kind, kTokenizers), parts.end_of_text), hash);
  for (const auto* list : {&parts.vocabulary, &parts.merges}) {
    for (const std::string& text : *list) hash = hash_bytes(text, hash);
  }
  return hash_bytes(parts.model, hash);
}

}  // namespace

TokenSchema read_token_schema(const hdf5::File& file) {
  TokenSchema schema{.path = file.path(), .groups = {}};
  for (const Split split : kSplits) {
    schema.groups[static_cast<std::size_t>(split)] = read_token_group(file, std::string(name_of(split)));
  }
  schema.tokenizer = read_tokenizer(file);
  schema.vocabulary = read_vocabulary_size(file, schema);
  schema.recipe = read_recipe(file);
  if (file.has_attribute("", "class_names")) {
    schema.class_names = file.read_attribute<std::vector<std::string>>("", "class_names");
  }
  for (const auto& group : schema.groups) {
    if (!group || !group->has_labels || !schema.class_names.empty()) continue;
    throw DataError(
        fmt::format("{}: has /{}, but no attribute 'class_names' with the names of the classes; see "
                    "docs/data-format.md",
                    file.path(), group->labels_path()));
  }
  return schema;
}

bool has_document_examples(const TokenSchema& schema, const Preprocessing* trained) {
  if (trained != nullptr) return !trained->class_names.empty();
  return std::ranges::any_of(schema.groups, [](const auto& group) { return group && group->has_labels; });
}

std::uint64_t identity_of(const hdf5::File& file, const TokenSchema& schema) {
  constexpr std::int64_t kPlaces = 32, kSampled = 32;
  std::uint64_t hash = hash_bytes(fmt::format("{} {}", name_of(SetKind::tokens), schema.vocabulary));
  if (schema.tokenizer != nullptr) hash = hash_of(*schema.tokenizer, hash);
  std::vector<std::int64_t> values;
  for (const auto& group : schema.groups) {
    if (!group) continue;
    hash = hash_bytes(fmt::format("{} {}", group->name, group->tokens), hash);
    if (group->has_labels) hash = hash_of_labels(file, *group, hash);
    for (std::int64_t i = 0; i < kPlaces; ++i) {
      const Range part = part_of(group->tokens, i, kPlaces);
      values.resize(static_cast<std::size_t>(std::min(kSampled, part.size())));
      file.read_rows(group->path(), static_cast<std::uint64_t>(part.first), values.size(), values.data());
      hash = hash_bytes(std::as_bytes(std::span(values)), hash);
    }
  }
  return hash ^ hash_of_external_files(file);
}

void check_documents(const hdf5::File& file, const TokenSchema& schema) {
  for (const auto& group : schema.groups) {
    if (group && group->has_documents) read_offsets(file, group->documents_path(), group->documents, group->tokens);
  }
}

std::int64_t training_windows(std::int64_t tokens, Index context) {
  return std::max<std::int64_t>(0, (tokens - context) / context);
}

std::int64_t evaluation_windows(std::int64_t tokens, Index context, Index stride) {
  if (tokens < 2) return 0;
  const std::int64_t after_first = std::max<std::int64_t>(0, tokens - 1 - context);
  return 1 + (after_first + stride - 1) / stride;
}

namespace {

/// Tokens that are for training: the first ⌊(1 − fraction) · n⌋.
std::int64_t tokens_kept(std::int64_t tokens, double fraction) {
  return static_cast<std::int64_t>(std::floor((1 - fraction) * static_cast<double>(tokens)));
}

void require_enough(const TokenSchema& schema, const DataSettings& settings,
                    const std::array<std::optional<TokenRange>, 3>& ranges, bool trained) {
  if (!trained && !ranges[0]) throw DataError(fmt::format("{}: has no group 'train' to train on", schema.path));
  if (ranges[0] && !trained && training_windows(ranges[0]->count, settings.context) == 0) {
    throw DataError(fmt::format(
        "{}: has {} for training, but data.context = {} needs twice as many at least; use a smaller context, or "
        "more text",
        schema.path, count_of(ranges[0]->count, "token"), settings.context));
  }
  for (const Split split : {Split::validation, Split::test}) {
    const auto& range = ranges[static_cast<std::size_t>(split)];
    if (!range || range->count >= 2) continue;
    throw DataError(fmt::format("{}: has {} for {}, of which none can be predicted from another; use more text",
                                schema.path, count_of(range->count, "token"), name_of(split)));
  }
}

}  // namespace

std::array<std::optional<TokenRange>, 3> token_ranges(const TokenSchema& schema, const DataSettings& settings,
                                                      bool trained) {
  std::array<std::optional<TokenRange>, 3> ranges;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (schema.groups[i]) ranges[i] = {.group = i, .first = 0, .count = schema.groups[i]->tokens};
  }
  if (settings.validation_fraction > 0 && ranges[0]) {
    const std::int64_t all = ranges[0]->count, kept = tokens_kept(all, settings.validation_fraction);
    ranges[0]->count = kept;
    ranges[1] = {.group = 0, .first = kept, .count = all - kept};
  }
  require_enough(schema, settings, ranges, trained);
  return ranges;
}

void check_settings(const DataSettings& settings, const TokenSchema& schema) {
  const auto refuse = [&](bool wrong, std::string_view key, std::string_view why) {
    if (wrong) throw ConfigError(fmt::format("data.{}: {} holds tokens, {}; remove it", key, schema.path, why));
  };
  refuse(settings.targets == Targets::features, "targets", "which are no features that an autoencoder could predict");
  refuse(settings.normalization != NormalizationKind::none && settings.normalization != NormalizationKind::automatic,
         "normalization", "which have no features to be normalised");
  refuse(has_effect(settings.augmentation), "augmentation", "not images");
  refuse(settings.pictures.any(), "pictures", "not pictures");
  refuse(settings.partition == Partition::strata, "partition", "not ratings");
  refuse(settings.split_by == SplitBy::groups, "split_by", "which have no groups");
  refuse(settings.window_bytes > 0, "window_bytes", "which are shuffled without a window");
  if (settings.context == 0) {
    throw ConfigError(
        fmt::format("data.context: {} holds tokens; set how many of them the model sees at once, such as "
                    "data.context = 256",
                    schema.path));
  }
  if (settings.validation_fraction > 0 && schema.group(Split::validation)) {
    throw ConfigError(fmt::format("data.validation_fraction = {} but {} has a group 'validation'; remove one of them",
                                  settings.validation_fraction, schema.path));
  }
}

DatasetInfo token_info(const hdf5::File& file, const TokenSchema& schema, const DataSettings& settings,
                       const std::array<std::optional<TokenRange>, 3>& ranges, bool trained) {
  DatasetInfo info;
  info.kind = SetKind::tokens;
  info.rows = schema.vocabulary;
  info.context = settings.context;
  std::array<std::int64_t, 3> windows{};
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (!ranges[i]) continue;
    info.tokens[i] = ranges[i]->count;
    info.targets[i].labels = true;
    windows[i] = i == 0 && !trained ? training_windows(ranges[i]->count, settings.context)
                                    : evaluation_windows(ranges[i]->count, settings.context, stride_of(settings));
  }
  info.train = windows[0];
  info.validation = windows[1];
  info.test = windows[2];
  info.identity = identity_of(file, schema);
  return info;
}

}  // namespace unisono::data
