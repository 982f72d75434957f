#include "dense/rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <new>

#include "dense/feature_writer.hpp"
#include "recipe/fit.hpp"
#include "set/external.hpp"
#include "set/fold.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/threads.hpp"
#include "unisono/data/moments.hpp"

namespace unisono::data {
namespace {

constexpr std::int64_t kBlockBytes = 1 << 20;

// A float is infinite or NaN if all bits of its exponent are set.
bool is_finite(float x) { return (std::bit_cast<std::uint32_t>(x) & 0x7F800000U) != 0x7F800000U; }
bool is_finite(hdf5::Half x) { return (x.bits & 0x7C00U) != 0x7C00U; }

/// Index of the first value that is not finite, or `count`.
template <typename T>
std::size_t first_not_finite(const T* values, std::size_t count) {
  unsigned bad = 0;
  for (std::size_t i = 0; i < count; ++i)
    bad |= is_finite(values[i]) ? 0U : 1U;  // vectorised by the compiler, unlike a search
  if (bad == 0) return count;
  return static_cast<std::size_t>(std::find_if(values, values + count, [](T x) { return !is_finite(x); }) - values);
}

template <typename T>
void require_finite(const hdf5::File& file, const std::string& dataset, Range rows, std::size_t row_size,
                    const T* values) {
  const std::size_t count = static_cast<std::size_t>(rows.size()) * row_size;
  const std::size_t bad = first_not_finite(values, count);
  if (bad == count) return;
  throw DataError(
      fmt::format("{}: /{}: example {} holds a value that is not finite (NaN, infinite or beyond float32), "
                  "at position {}; remove or replace it",
                  file.path(), dataset, static_cast<std::size_t>(rows.first) + bad / row_size, bad % row_size));
}

void read_numbers(const hdf5::File& file, const std::string& dataset, Range rows, std::size_t, std::uint8_t* values) {
  file.read_rows(dataset, static_cast<std::uint64_t>(rows.first), static_cast<std::uint64_t>(rows.size()), values);
}

template <typename T>
void read_numbers(const hdf5::File& file, const std::string& dataset, Range rows, std::size_t row_size, T* values) {
  file.read_rows(dataset, static_cast<std::uint64_t>(rows.first), static_cast<std::uint64_t>(rows.size()), values);
  require_finite(file, dataset, rows, row_size, values);
}

/// Reads rows of stored values; images are converted to channels first.
template <typename T>
void read_stored(const hdf5::File& file, const GroupSchema& group, Range rows, T* values) {
  const std::string path = group.features_path();
  const auto size = static_cast<std::size_t>(group.features.size());
  if (!group.channels_last) return read_numbers(file, path, rows, size, values);
  std::vector<T> stored(static_cast<std::size_t>(rows.size()) * size);
  read_numbers(file, path, rows, size, stored.data());
  const auto channels = static_cast<std::size_t>(group.features.channels), pixels = size / channels;
  for (std::size_t example = 0; example < static_cast<std::size_t>(rows.size()); ++example) {
    const T* from = stored.data() + example * size;
    T* to = values + example * size;
    for (std::size_t c = 0; c < channels; ++c) {
      for (std::size_t pixel = 0; pixel < pixels; ++pixel) to[c * pixels + pixel] = from[pixel * channels + c];
    }
  }
}

/// Reads rows of raw columns and encodes them as features.
void read_encoded(const hdf5::File& file, const GroupSchema& group, Range rows, float* features) {
  const std::string path = group.features_path(), where = fmt::format("{}: /{}", file.path(), path);
  const auto width = static_cast<std::size_t>(group.encoder->width());
  const auto raw_width = static_cast<std::size_t>(group.encoder->raw_width());
  std::vector<float> raw(static_cast<std::size_t>(rows.size()) * raw_width);
  file.read_rows(path, static_cast<std::uint64_t>(rows.first), static_cast<std::uint64_t>(rows.size()), raw.data());
  for (std::size_t i = 0; i < static_cast<std::size_t>(rows.size()); ++i) {
    group.encoder->encode(raw.data() + i * raw_width, features + i * width, where,
                          rows.first + static_cast<std::int64_t>(i));
  }
  require_finite(file, path, rows, width, features);
}

void read_weights(const hdf5::File& file, const GroupSchema& group, Range rows, float* weights) {
  read_numbers(file, group.weights_path(), rows, 1, weights);
  const auto negative = std::find_if(weights, weights + rows.size(), [](float weight) { return weight < 0; });
  if (negative == weights + rows.size()) return;
  throw DataError(fmt::format("{}: /{}: example {} has the weight {}; weights are at least 0", file.path(),
                              group.weights_path(), rows.first + (negative - weights), *negative));
}

/// \param targets [rows, group.stored_targets()]
void read_stored_targets(const hdf5::File& file, const GroupSchema& group, Range rows, float* targets) {
  const auto width = static_cast<std::int64_t>(group.stored_targets());
  read_numbers(file, group.targets_path(), rows, group.stored_targets(), targets);
  if (!group.several_labels) return;
  const float* const end = targets + rows.size() * width;
  const float* const wrong =
      std::find_if(static_cast<const float*>(targets), end, [](float t) { return t != 0 && t != 1; });
  if (wrong == end) return;
  throw DataError(fmt::format(
      "{}: /{}: example {} has the value {}, but the targets of several labels are 0 or 1; correct it, or remove the "
      "file's attribute label_names",
      file.path(), group.targets_path(), rows.first + (wrong - targets) / width, *wrong));
}

void read_targets(const hdf5::File& file, const GroupSchema& group, Range rows, float* targets) {
  if (group.target_places.empty()) return read_stored_targets(file, group, rows, targets);
  const auto width = static_cast<std::size_t>(group.target_size), stored_width = group.stored_targets();
  std::vector<float> stored(static_cast<std::size_t>(rows.size()) * stored_width);
  read_stored_targets(file, group, rows, stored.data());
  std::fill_n(targets, static_cast<std::size_t>(rows.size()) * width, 0.0F);
  for (std::size_t i = 0; i < static_cast<std::size_t>(rows.size()); ++i) {
    for (std::size_t k = 0; k < stored_width; ++k)
      targets[i * width + static_cast<std::size_t>(group.target_places[k])] = stored[i * stored_width + k];
  }
}

/// Replaces labels by the numbers of the model's classes.
void rename_labels(const hdf5::File& file, const GroupSchema& group, Range rows, std::int32_t* labels) {
  for (std::int64_t i = 0; i < rows.size(); ++i) {
    const auto label = static_cast<std::size_t>(labels[i]);
    const std::int32_t known = label < group.classes.size() ? group.classes[label] : -1;
    if (known < 0) {
      throw DataError(fmt::format(
          "{}: /{}: example {} is of class {}, which the model was not trained on; correct or leave out such "
          "examples, or remove /{} to predict all of them",
          file.path(), group.labels_path(), rows.first + i, group.class_text(label), group.labels_path()));
    }
    labels[i] = known;
  }
}

/// Whether two fits of a column give it the same features; their scaling may differ.
bool encode_alike(const FittedColumn& one, const FittedColumn& other) {
  return one.fill == other.fill && one.levels == other.levels && one.other == other.other;
}

std::size_t total_bytes(const SetPlan& plan) {
  std::size_t bytes = 0;
  for (const auto& group : plan.schema.groups) {
    if (group) bytes += RowBlock::bytes(*group);
  }
  return bytes;
}

/// This rank's part of a group's rows, in whole blocks, so that no chunk of the file is read twice.
Range part_in_blocks(const GroupSchema& group, const NodeMemory& memory) {
  const std::int64_t rows = block_rows(group), blocks = (group.examples + rows - 1) / rows;
  const Range part = memory.part(blocks);
  return {std::min(part.first * rows, group.examples), std::min(part.last * rows, group.examples)};
}

}  // namespace

Range feature_range(const hdf5::File& file, const GroupSchema& group, Range rows) {
  if (rows.first == 0 && rows.last == group.examples) return {0, static_cast<std::int64_t>(group.feature_bytes())};
  if (!group.pictures) {
    const auto size = static_cast<std::int64_t>(group.feature_bytes()) / group.examples;
    return {rows.first * size, rows.last * size};
  }
  const std::vector<std::int64_t> bounds = group.pictures->bounds(file, rows);
  return {bounds.front(), bounds.back()};
}

RowBlock::RowBlock(const GroupSchema& group, Range rows, Range features, std::byte* memory)
    : rows_(rows),
      features_(memory),
      first_byte_(features.first),
      feature_bytes_(static_cast<std::size_t>(group.features.size()) * size_of(group.storage)),
      target_size_(static_cast<std::size_t>(group.target_size)) {
  const auto count = static_cast<std::size_t>(rows.size());
  memory += aligned_bytes(static_cast<std::size_t>(features.size()));
  if (target_size_ > 0) targets_ = reinterpret_cast<float*>(memory);
  memory += aligned_bytes(count * target_size_ * sizeof(float));
  if (group.has_labels) labels_ = reinterpret_cast<std::int32_t*>(memory);
  memory += aligned_bytes(group.has_labels ? count * sizeof(std::int32_t) : 0);
  if (group.has_weights) weights_ = reinterpret_cast<float*>(memory);
  memory += aligned_bytes(group.has_weights ? count * sizeof(float) : 0);
  if (group.pictures) begins_ = reinterpret_cast<std::uint64_t*>(memory);
}

std::size_t RowBlock::bytes(const GroupSchema& group, Range rows, Range features) {
  const auto count = static_cast<std::size_t>(rows.size());
  return aligned_bytes(static_cast<std::size_t>(features.size())) +
         aligned_bytes(count * static_cast<std::size_t>(group.target_size) * sizeof(float)) +
         aligned_bytes(group.has_labels ? count * sizeof(std::int32_t) : 0) +
         aligned_bytes(group.has_weights ? count * sizeof(float) : 0) +
         aligned_bytes(group.pictures ? (count + 1) * sizeof(std::uint64_t) : 0);
}

std::size_t RowBlock::bytes(const GroupSchema& group) {
  return bytes(group, {0, group.examples}, {0, static_cast<std::int64_t>(group.feature_bytes())});
}

RowBlock RowBlock::with_features(float* features, Index size) const {
  RowBlock other = *this;
  other.features_ = reinterpret_cast<std::byte*>(features);
  other.feature_bytes_ = static_cast<std::size_t>(size) * sizeof(float);
  return other;
}

RawExample RowBlock::example(std::int64_t row) const {
  assert(row >= rows_.first && row < rows_.last);
  const std::size_t at = offset(row);
  const std::size_t bytes = begins_ != nullptr ? begins_[at + 1] - begins_[at] : feature_bytes_;
  return {features(row),
          bytes,
          targets_ == nullptr ? nullptr : targets_ + at * target_size_,
          labels_ == nullptr ? 0 : labels_[at],
          weights_ == nullptr ? 1.0F : weights_[at],
          static_cast<std::uint64_t>(row)};
}

void RowBlock::read_features(const hdf5::File& file, const GroupSchema& group, Range rows) {
  if (group.pictures) {
    const std::vector<std::int64_t> bounds = group.pictures->bounds(file, rows);
    // Where these rows end, the next ones begin: whoever reads those writes it.
    const std::size_t count = bounds.size() - (rows.last == rows_.last ? 0 : 1);
    for (std::size_t i = 0; i < count; ++i)
      begins_[offset(rows.first) + i] = static_cast<std::uint64_t>(bounds[i] - first_byte_);
    return file.read_rows(group.features_path(), static_cast<std::uint64_t>(bounds.front()),
                          static_cast<std::uint64_t>(bounds.back() - bounds.front()),
                          reinterpret_cast<std::uint8_t*>(features_ + begins_[offset(rows.first)]));
  }
  std::byte* memory = features_ + offset(rows.first) * feature_bytes_;
  if (group.raw) {
    return file.read_rows(group.features_path(), static_cast<std::uint64_t>(rows.first),
                          static_cast<std::uint64_t>(rows.size()), reinterpret_cast<float*>(memory));
  }
  if (group.encoder) return read_encoded(file, group, rows, reinterpret_cast<float*>(memory));
  switch (group.storage) {
    case Storage::uint8:
      return read_stored(file, group, rows, reinterpret_cast<std::uint8_t*>(memory));
    case Storage::float16:
      return read_stored(file, group, rows, reinterpret_cast<hdf5::Half*>(memory));
    case Storage::float32:
      return read_stored(file, group, rows, reinterpret_cast<float*>(memory));
  }
}

void RowBlock::read(const hdf5::File& file, const GroupSchema& group, Range rows) {
  const std::int64_t step = block_rows(group);
  for (std::int64_t first = rows.first; first < rows.last;) {
    const Range part{first, std::min((first / step + 1) * step, rows.last)};  // aligned with the file's chunks
    read_features(file, group, part);
    if (targets_ != nullptr) {
      read_targets(file, group, part, targets_ + offset(part.first) * target_size_);
    }
    first = part.last;
  }
  if (weights_ != nullptr) read_weights(file, group, rows, weights_ + offset(rows.first));
  if (labels_ == nullptr) return;
  std::int32_t* const labels = labels_ + offset(rows.first);
  read_labels(file, group.labels_path(), rows, labels);
  if (!group.classes.empty()) rename_labels(file, group, rows, labels);
}

bool RowBlock::share_answer(Range rows, AnswerComparison& answers) const {
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    const RawExample one = example(row);
    const auto label = static_cast<float>(one.label);  // classes are far fewer than 2²⁴
    if (!answers.add(labels_ != nullptr ? std::span(&label, 1) : std::span(one.targets, target_size_))) return false;
  }
  return true;
}

bool share_answer(const hdf5::File& file, const GroupSchema& group, Range rows, AnswerComparison& answers) {
  constexpr std::int64_t kRowsAtATime = 4096;
  const std::size_t size = group.has_labels ? 1 : group.stored_targets();
  const std::string path = group.has_labels ? group.labels_path() : group.targets_path();
  std::vector<float> values(size * static_cast<std::size_t>(std::min(rows.size(), kRowsAtATime)));
  for (std::int64_t first = rows.first; first < rows.last; first += kRowsAtATime) {
    const auto count = static_cast<std::size_t>(std::min(kRowsAtATime, rows.last - first));
    file.read_rows(path, static_cast<std::uint64_t>(first), count, values.data());
    for (std::size_t i = 0; i < count; ++i) {
      if (!answers.add(std::span(values).subspan(i * size, size))) return false;
    }
  }
  return true;
}

OwnedBlock::OwnedBlock(const hdf5::File& file, const GroupSchema& group, Range rows) {
  const Range features = feature_range(file, group, rows);
  const std::size_t bytes = std::max<std::size_t>(RowBlock::bytes(group, rows, features), 1);
  memory_.reset(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kAlignmentBytes})));
  block = RowBlock(group, rows, features, memory_.get());
  block.read(file, group, rows);
}

std::int64_t block_rows(const GroupSchema& group) {
  if (group.pictures) return std::max<std::int64_t>(1, kBlockBytes / group.bytes_per_example());
  const std::int64_t chunk = group.stored.chunk.empty() ? 1 : static_cast<std::int64_t>(group.stored.chunk[0]);
  const auto row_bytes = static_cast<std::int64_t>(group.feature_bytes()) / group.examples;
  const std::int64_t rows = std::max<std::int64_t>(1, kBlockBytes / row_bytes);
  // Chunks that are not compressed can be read in parts.
  if (chunk > rows && !group.stored.compressed) return rows;
  return chunk * std::max<std::int64_t>(1, rows / chunk);
}

RawTable::RawTable(const SetSchema& schema) {
  const hdf5::File file =
      open_set_file(schema.path, /*external_files=*/true);  // which was asked for when the set was opened
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const auto& group = schema.groups[i];
    if (!group) continue;
    groups_[i].resize(static_cast<std::size_t>(group->examples) * schema.recipe.columns.size());
    file.read_rows(group->features_path(), 0, static_cast<std::uint64_t>(group->examples), groups_[i].data());
  }
}

EncodedTable::EncodedTable(const RawTable& raw, const Preprocessing& whole, const GroupBlocks& answers,
                           const SetPlan& fold) {
  const SetSchema& schema = fold.schema;
  columns_ =
      fit_columns(schema.recipe, raw.rows(fold.home(*fold.group(Split::train))), fold.rows(Split::train), schema.path);
  differs_ = !std::equal(columns_.begin(), columns_.end(), whole.columns.begin(), whole.columns.end(), encode_alike);
  if (!differs_) return;
  Preprocessing fitted = whole;
  fitted.columns = columns_;
  const Encoder encoder(fitted, schema.recipe, schema.path);
  width_ = encoder.width();
  for (const Split split : kSplits) {
    const GroupSchema* group = fold.group(split);
    if (group == nullptr) continue;
    const std::size_t home = fold.home(*group);
    const std::string where = fmt::format("{}: /{}", schema.path, group->features_path());
    Buffer& features = features_[home];
    if (features.size() == 0) features = Buffer(group->examples * width_);
    blocks_[home] = answers[home].with_features(features.data(), width_);
    for (const auto& run : fold.rows(split).runs({0, fold.rows(split).size()})) {
      for (std::int64_t row = run.first_row; row < run.first_row + run.rows; ++row) {
        encoder.encode(raw.rows(home).data() + row * encoder.raw_width(), features.data() + row * width_, where, row);
      }
    }
  }
}

SharedBlocks::SharedBlocks(const SetPlan& plan, const NodeShare& share)
    : plan_(plan), memory_(share, total_bytes(plan)) {}

void SharedBlocks::read(const hdf5::File& file) {
  memory_.take_own();
  std::byte* base = memory_.data();
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const auto& group = plan_.schema.groups[i];
    if (!group) continue;
    blocks_[i] = RowBlock(*group, {0, group->examples}, {0, static_cast<std::int64_t>(group->feature_bytes())}, base);
    base += RowBlock::bytes(*group);
    blocks_[i].read(file, *group, part_in_blocks(*group, memory_));
  }
}

const RowBlock& RowsOnDemand::block(const hdf5::File& file, const GroupSchema& group, Range rows) {
  for (const ResidentGroup& part : parts_) {
    const Range held = part.rows.block.rows();
    if (part.group == &group && held.first <= rows.first && rows.last <= held.last) return part.rows.block;
  }
  parts_.push_back({&group, OwnedBlock(file, group, rows)});
  return parts_.back().rows.block;
}

namespace {

std::vector<float> values_of(const GroupSchema& group, const RowBlock& block, std::int64_t row) {
  StoredNumbers numbers(group);
  std::vector<float> values(static_cast<std::size_t>(group.features.size()));
  convert(group.storage, numbers.of(block.example(row)), values.size(), group.scale, group.offset, values.data());
  return values;
}

std::vector<float> example_of(const StoredRows& rows, const GroupSchema& group, std::int64_t row) {
  if (const auto* block = std::get_if<const RowBlock*>(&rows)) return values_of(group, **block, row);
  const OwnedBlock one(*std::get<const hdf5::File*>(rows), group, {row, row + 1});
  return values_of(group, one.block, row);
}

void add_rows(const RowBlock& block, Range rows, FeatureSums& sums) {
  for (std::int64_t row = rows.first; row < rows.last; ++row) sums.add(block.example(row));
}

/// Reads these rows from the file and adds them to the sums.
void add_from_file(const hdf5::File& file, const GroupSchema& group, Range rows, FeatureSums& sums) {
  const std::int64_t step = block_rows(group);
  for (std::int64_t first = rows.first; first < rows.last;) {
    const Range part{first, std::min((first / step + 1) * step, rows.last)};
    const OwnedBlock read(file, group, part);
    add_rows(read.block, part, sums);
    first = part.last;
  }
}

void add(const StoredRows& from, const GroupSchema& group, Range rows, FeatureSums& sums) {
  if (const auto* block = std::get_if<const RowBlock*>(&from)) {
    add_rows(**block, rows, sums);
  } else {
    add_from_file(*std::get<const hdf5::File*>(from), group, rows, sums);
  }
}

constexpr std::int64_t kMostPieces = 64;
constexpr std::int64_t kMostBytes = 16 << 20;  // of all pieces' sums

/// The index of a feature's mean and factor in a normalisation.
std::size_t part_of_feature(NormalizationKind kind, const FeatureShape& shape, std::size_t feature) {
  if (kind == NormalizationKind::feature) return feature;
  if (kind == NormalizationKind::channel) return feature / static_cast<std::size_t>(shape.height * shape.width);
  return 0;
}

std::size_t parts(NormalizationKind kind, const FeatureShape& shape) {
  if (kind == NormalizationKind::feature) return static_cast<std::size_t>(shape.size());
  return kind == NormalizationKind::channel ? static_cast<std::size_t>(shape.channels) : 1;
}

constexpr std::int64_t kMostPictures = 4096;

/// Evenly spaced rows, whose mean is near enough to that of all.
FileRows some_of(const FileRows& all) {
  if (all.size() <= kMostPictures) return all;
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < kMostPictures; ++i) rows.push_back(all.row(part_of(all.size(), i, kMostPictures).first));
  return runs_of(rows);
}

}  // namespace

Normalization training_statistics(NormalizationKind kind, const SetPlan& plan, StoredRows training,
                                  const NodeShare& share, int threads, Agreement& agreement) {
  const GroupSchema& group = *plan.group(Split::train);
  const FileRows& all = plan.rows(Split::train);
  const FileRows rows = group.pictures ? some_of(all) : all;
  const std::int64_t pieces = statistics_pieces(group, rows.size());
  const auto piece_size = static_cast<std::size_t>(2 * group.features.size());
  NodeMemory memory(share, static_cast<std::size_t>(pieces) * piece_size * sizeof(double));
  memory.take_own();
  auto* sums_of_pieces = reinterpret_cast<double*>(memory.data());

  std::vector<float> shift;
  agreement.all_do([&] {
    shift = example_of(training, group, rows.row(0));
    const Range mine = memory.part(pieces);
    ThreadTeam team(threads, "computing the mean of the training examples");
    team.run([&](int thread) {
      FeatureSums sums(group, shift);
      for (std::int64_t piece = mine.first + thread; piece < mine.last; piece += threads) {
        sums.clear();
        for (const auto& run : rows.runs(part_of(rows.size(), piece, pieces))) {
          add(training, group, {run.first_row, run.first_row + run.rows}, sums);
        }
        std::ranges::copy(sums.sums(), sums_of_pieces + static_cast<std::size_t>(piece) * piece_size);
      }
    });
  });
  memory.complete();
  return make_normalization(kind, group, rows.size(), shift,
                            {sums_of_pieces, static_cast<std::size_t>(pieces) * piece_size});
}

StoredNumbers::StoredNumbers(const GroupSchema& group) : shape_(group.features), pictures_(group.pictures) {}

const std::byte* StoredNumbers::of(const RawExample& example) {
  if (!pictures_) return example.features;
  image_.resize(static_cast<std::size_t>(shape_.size()));
  pictures_->read(reader_, static_cast<std::int64_t>(example.row), picture_of(example), image_);
  return reinterpret_cast<const std::byte*>(image_.data());
}

const std::byte* StoredNumbers::of_part(const RawExample& example,
                                        const std::function<Box(std::int64_t height, std::int64_t width)>& choose) {
  image_.resize(static_cast<std::size_t>(shape_.size()));
  const auto* const made = reinterpret_cast<const std::byte*>(image_.data());
  if (pictures_) {
    pictures_->read(reader_, static_cast<std::int64_t>(example.row), picture_of(example), choose, image_);
    return made;
  }
  const Index plane = shape_.height * shape_.width;
  const Box box = choose(shape_.height, shape_.width);
  for (Index channel = 0; channel < shape_.channels; ++channel) {
    const auto* const from = reinterpret_cast<const std::uint8_t*>(example.features) + channel * plane;
    reader_.resampler().resample({from, shape_.height, shape_.width, 1}, box,
                                 {.values = image_.data() + channel * plane,
                                  .height = shape_.height,
                                  .width = shape_.width,
                                  .row = shape_.width,
                                  .plane = plane});
  }
  return made;
}

FeatureSums::FeatureSums(const GroupSchema& group, std::vector<float> shift)
    : numbers_(group),
      storage_(group.storage),
      scale_(group.scale),
      offset_(group.offset),
      shift_(std::move(shift)),
      values_(shift_.size()),
      sums_(2 * shift_.size()) {}

void FeatureSums::add(const RawExample& example) {
  const std::size_t count = shift_.size();
  convert(storage_, numbers_.of(example), count, scale_, offset_, values_.data());
  for (std::size_t i = 0; i < count; ++i) {
    const double x = double{values_[i]} - double{shift_[i]};
    sums_[i] += x;
    sums_[count + i] += x * x;
  }
}

void FeatureSums::clear() { std::fill(sums_.begin(), sums_.end(), 0.0); }

std::int64_t statistics_pieces(const GroupSchema& group, std::int64_t examples) {
  const auto bytes = static_cast<std::int64_t>(2 * sizeof(double)) * group.features.size();
  return std::clamp<std::int64_t>(kMostBytes / bytes, 1, std::min(kMostPieces, examples));
}

Normalization make_normalization(NormalizationKind kind, const GroupSchema& group, std::int64_t examples,
                                 const std::vector<float>& shift, std::span<const double> pieces) {
  const std::size_t features = shift.size();
  std::vector<double> total(2 * features, 0.0);
  for (std::size_t i = 0; i < pieces.size(); ++i) total[i % total.size()] += pieces[i];

  std::vector<Moments> moments(parts(kind, group.features));
  const auto count = static_cast<double>(examples);
  for (std::size_t i = 0; i < features; ++i) {
    const double mean = total[i] / count;
    const double squares = std::max(0.0, total[features + i] - total[i] * mean);
    moments[part_of_feature(kind, group.features, i)].unite({count, double{shift[i]} + mean, squares});
  }
  Normalization normalization;
  for (const Moments& one : moments) {
    normalization.mean.push_back(static_cast<float>(one.mean));
    normalization.scale.push_back(factor_of(one.deviation()));
  }
  return normalization;
}

}  // namespace unisono::data
