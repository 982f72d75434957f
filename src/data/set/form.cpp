#include "set/form.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "recipe/encoder.hpp"
#include "recipe/fit.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/file_pattern.hpp"
#include "unisono/base/random.hpp"
#include "unisono/base/raw_file.hpp"
#include "unisono/base/resources.hpp"
#include "unisono/base/threads.hpp"

namespace unisono::data {
namespace {

constexpr const char* kImportAgain = "import the raw data with 'unisono data import csv' and train on that set";

/// The recipe of a set that has none but names its features: all columns are numbers.
Recipe recipe_of_names(const std::vector<std::string>& names) {
  Recipe recipe;
  for (const std::string& name : names) recipe.columns.push_back({.name = name});
  return recipe;
}

void require_recipe(const Preprocessing& trained, SetSchema& schema) {
  const bool numbers = std::all_of(trained.columns.begin(), trained.columns.end(),
                                   [](const FittedColumn& c) { return c.kind == ColumnKind::number; });
  const GroupSchema& group = schema.any_group();
  if (numbers && schema.feature_names.size() == static_cast<std::size_t>(group.features.size()) && group.scale == 1 &&
      group.offset == 0) {
    schema.recipe = recipe_of_names(schema.feature_names);
    return;
  }
  throw DataError(
      fmt::format("{}: has no recipe with column names, but the model was trained on named columns; use the raw file "
                  "with --input, or import it with 'unisono data import csv'",
                  schema.path));
}

void require_same_features(const Preprocessing& trained, const SetSchema& schema) {
  const auto &there = schema.feature_names, &known = trained.feature_names;
  if (there.empty() || known.empty() || there.size() != known.size()) return;  // sizes are compared elsewhere
  const auto [name, other] = std::mismatch(there.begin(), there.end(), known.begin());
  if (name == there.end()) return;
  throw DataError(fmt::format("{}: feature {} is '{}', but '{}' in the training set; put the features in that order",
                              schema.path, name - there.begin() + 1, *name, *other));
}

void require_same_scale(const Preprocessing& trained, const SetSchema& schema) {
  for (const auto& group : schema.groups) {
    if (!group || !trained.bytes || group->storage != Storage::uint8) continue;
    if (group->scale == trained.scale && group->offset == trained.offset) continue;
    throw DataError(
        fmt::format("{}: /{} holds bytes that stand for {:g} · byte + {:g}, but in the training set they stood for "
                    "{:g} · byte + {:g}; set the attributes scale and offset",
                    schema.path, group->features_path(), group->scale, group->offset, trained.scale, trained.offset));
  }
}

Preprocessing described_by(const SetSchema& schema) {
  const GroupSchema& group = schema.any_group();
  Preprocessing own;
  own.recipe = schema.recipe;
  own.class_names = schema.class_names;
  own.label_names = schema.label_names;
  own.feature_names = schema.feature_names;
  own.bytes = !group.raw && group.storage == Storage::uint8;
  own.scale = group.scale;
  own.offset = group.offset;
  own.known = true;
  // These are all levels in the set; the levels of the training examples are fitted later.
  for (RecipeColumn& column : own.recipe.columns) column.levels.clear();
  return own;
}

void install(SetSchema& schema, const Preprocessing& preprocessing) {
  const auto encoder = std::make_shared<const Encoder>(preprocessing, schema.recipe, schema.path);
  for (auto& group : schema.groups) {
    if (!group) continue;
    group->raw = false;
    group->storage = Storage::float32;
    group->encoder = encoder;
    group->features = {encoder->width(), 1, 1};
  }
}

void rename_classes(SetPlan& plan, const Preprocessing& trained) {
  const std::vector<std::int32_t> classes = classes_of(trained.class_names, plan.schema.class_names);
  if (classes.empty()) return;
  for (auto& group : plan.schema.groups) {
    if (!group || !group->has_labels) continue;
    group->classes = classes;
    group->class_names = plan.schema.class_names;
  }
}

}  // namespace

Index most_features(const Recipe& recipe) {
  Index most = 0;
  for (const RecipeColumn& column : recipe.columns) {
    most += column.kind == ColumnKind::number ? 1 : static_cast<Index>(column.levels.size()) + 1;
  }
  return most;
}

namespace {

/// Gives targets the places that the model's labels of their names have. Of labels that the set does not name, no
/// example has any.
void place_targets(SetSchema& schema, const Preprocessing& trained) {
  const std::vector<std::int32_t> places = classes_of(trained.label_names, schema.label_names);
  if (places.empty()) return;
  if (const auto unknown = std::ranges::find(places, -1); unknown != places.end()) {
    throw DataError(
        fmt::format("{}: has the label '{}', which the model was not trained on; leave this column of the targets out",
                    schema.path, schema.label_names[static_cast<std::size_t>(unknown - places.begin())]));
  }
  for (const std::string& name : trained.label_names) {
    if (std::ranges::count(schema.label_names, name) == 0) schema.absent_labels.push_back(name);
  }
  for (auto& group : schema.groups) {
    if (!group || group->target_size == 0) continue;
    group->target_places.assign(places.begin(), places.end());
    group->target_size = std::ssize(trained.label_names);
  }
}

}  // namespace

void reserve_columns(SetSchema& schema, const Preprocessing* trained) {
  if (trained != nullptr) {
    require_form(*trained, schema);
    place_targets(schema, *trained);
  }
  if (schema.recipe.columns.empty()) return;
  Index features = most_features(schema.recipe);
  if (trained != nullptr) {
    features = 0;
    for (const FittedColumn& column : trained->columns) features += column.width();
  }
  for (auto& group : schema.groups) {
    if (group) group->features = {features, 1, 1};
  }
}

std::vector<std::int32_t> classes_of(const std::vector<std::string>& trained, const std::vector<std::string>& stored) {
  if (trained.empty() || stored.empty() || trained == stored) return {};
  const LevelIndex known(trained);
  std::vector<std::int32_t> classes;
  for (const std::string& name : stored) {
    const auto found = known.find(name);
    classes.push_back(found ? static_cast<std::int32_t>(*found) : -1);
  }
  return classes;
}

void require_form(const Preprocessing& trained, SetSchema& schema) {
  if (!trained.columns.empty() && schema.recipe.columns.empty()) require_recipe(trained, schema);
  if (trained.columns.empty() && !schema.recipe.columns.empty()) {
    throw DataError(
        fmt::format("{}: holds raw columns, but the model was trained on a set without a preprocessing recipe "
                    "(imported by an earlier version or written by another program), so they cannot be converted; {}",
                    schema.path, kImportAgain));
  }
  if (!trained.known) return;
  if (trained.columns.empty()) require_same_features(trained, schema);
  require_same_scale(trained, schema);
}

void settle_form(SetPlan& plan, const hdf5::File& file, const Preprocessing* trained, Agreement& agreement) {
  SetSchema& schema = plan.schema;
  plan.preprocessing = trained != nullptr ? *trained : described_by(schema);
  if (!schema.recipe.columns.empty()) {
    if (trained == nullptr) {
      plan.preprocessing.columns =
          fit_columns(schema.recipe, file, *plan.group(Split::train), plan.rows(Split::train), agreement);
    }
    agreement.all_do([&] { install(schema, plan.preprocessing); });
  }
  if (trained != nullptr) rename_classes(plan, *trained);
}

namespace {

constexpr std::string_view kMark = "unisono-set-x64M:";
constexpr std::uint64_t kHashBytes = sizeof(std::uint64_t), kTrailerBytes = kMark.size() + kHashBytes;
constexpr std::uint64_t kMostChecked = 4;  // segments

struct Seal {
  std::uint64_t bytes = 0;              ///< of the file that it covers
  std::vector<std::uint64_t> segments;  ///< their hashes
  bool fits = false;                    ///< whether the hash over these matches
};

std::uint64_t hash_of(const std::vector<std::uint64_t>& segments) {
  return hash_bytes(std::as_bytes(std::span(segments)));
}

/// How many hashes n there are among `all` bytes before the trailer: bytes + 8 n = all, n = ⌈bytes / segment⌉.
std::uint64_t hashes_within(std::uint64_t all) {
  std::uint64_t hashes = count_segments(all);
  while (hashes > 0 && count_segments(all - hashes * kHashBytes) < hashes) --hashes;
  return hashes;
}

/// Reads a file's seal; nothing if it has none.
std::optional<Seal> read_seal(const RawFile& file) {
  const std::uint64_t size = file.size();
  if (size < kTrailerBytes + kHashBytes) return std::nullopt;
  char mark[kMark.size()];
  file.read(size - kTrailerBytes, std::as_writable_bytes(std::span(mark)));
  if (std::string_view(mark, sizeof mark) != kMark) return std::nullopt;
  std::uint64_t hash = 0;
  file.read(size - kHashBytes, std::as_writable_bytes(std::span(&hash, 1)));
  Seal seal;
  seal.segments.resize(hashes_within(size - kTrailerBytes));
  seal.bytes = size - kTrailerBytes - seal.segments.size() * kHashBytes;
  file.read(seal.bytes, std::as_writable_bytes(std::span(seal.segments)));
  seal.fits = hash == hash_of(seal.segments);
  return seal;
}

/// The end of HDF5's bytes, from a superblock of version 0 (as in SetWriter's files); 0 if there is none.
std::uint64_t end_of_hdf5(const RawFile& file) {
  constexpr std::string_view kFront("\x89HDF\r\n\x1a\n\0", 9);  // and the version
  constexpr std::uint64_t kEndAt = 40;
  char front[kEndAt + sizeof(std::uint64_t)];
  if (file.size() < sizeof front) return 0;
  file.read(0, std::as_writable_bytes(std::span(front)));
  if (std::string_view(front, kFront.size()) != kFront) return 0;
  std::uint64_t end = 0;
  std::memcpy(&end, front + kEndAt, sizeof end);
  return end;
}

/// Whether HDF5's bytes are followed by at most as many bytes as a seal has: a truncated or damaged seal.
bool has_rest_of_seal(const RawFile& file) {
  const std::uint64_t end = end_of_hdf5(file), size = file.size();
  return end > 0 && size > end && size - end <= count_segments(end) * kHashBytes + kTrailerBytes;
}

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw DataError(
      fmt::format("{}: was changed or damaged since it was written: {}; make it again, or, if the change "
                  "was meant, see 'Checksums' in docs/data-format.md",
                  path, what));
}

/// Files that this process has checked.
class Checked {
 public:
  bool contains(const std::string& version) {
    const std::lock_guard lock(mutex_);
    return versions_.contains(version);
  }
  void add(const std::string& version) {
    const std::lock_guard lock(mutex_);
    versions_.insert(version);
  }

 private:
  std::mutex mutex_;
  std::set<std::string> versions_;
};

void check_seal_of_file(const std::string& path, int node_rank, int node_size) {
  static Checked checked;
  const std::string version = file_version(path), part = fmt::format("{} {} {}", version, node_rank, node_size);
  // If it cannot be read, opening it will report why.
  if (version.empty() || checked.contains(version) || checked.contains(part)) return;
  const RawFile file(path, RawFile::Mode::read);
  const auto seal = read_seal(file);
  if (!seal && has_rest_of_seal(file)) fail(path, "its checksum is cut off or damaged");
  if (!seal) return;
  if (!seal->fits) fail(path, "its checksum itself is damaged");
  const std::uint64_t all = seal->segments.size(), most = std::min(all, kMostChecked);
  for (auto i = static_cast<std::uint64_t>(node_rank); i < most; i += static_cast<std::uint64_t>(node_size)) {
    const std::uint64_t segment = all <= kMostChecked ? i : i * (all - 1) / (kMostChecked - 1);
    if (hash_segment(path, seal->bytes, segment) == seal->segments[segment]) continue;
    fail(path, "its checksum does not match its contents");
  }
  checked.add(node_size == 1 ? version : part);
}

}  // namespace

void seal_set(const std::string& path) {
  RawFile file(path, RawFile::Mode::update);
  const std::uint64_t bytes = file.size();
  std::vector<std::uint64_t> segments(count_segments(bytes));
  ThreadTeam team(usable_cpus(), "computing the checksum of a set");
  team.run_each(0, segments.size(), [&](int, std::size_t i) { segments[i] = hash_segment(path, bytes, i); });
  const std::uint64_t hash = hash_of(segments), end = bytes + segments.size() * kHashBytes;
  file.write(bytes, std::as_bytes(std::span(segments)));
  file.write(end, std::as_bytes(std::span(kMark)));
  file.write(end + kMark.size(), std::as_bytes(std::span(&hash, 1)));
}

void check_seal(const std::string& pattern, int node_rank, int node_size) {
  for (const std::string& path : files_of(pattern)) check_seal_of_file(path, node_rank, node_size);
}

}  // namespace unisono::data
