#include "set/form.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <mutex>
#include <optional>

#include "dense/plan.hpp"
#include "dense/rows.hpp"
#include "dense/schema.hpp"
#include "order/schedule.hpp"
#include "recipe/fit.hpp"
#include "set/agreement.hpp"
#include "set/external.hpp"
#include "set/fold.hpp"
#include "set/seen.hpp"
#include "source/batch_sources.hpp"
#include "stream/streaming_feed.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/resources.hpp"

namespace unisono::data {
namespace {

/// An opened set with dense features, or the view of one of its folds.
class Table final : public Dataset {
 public:
  Table(const DataSettings& settings, const NodeShare& share, const Preprocessing* trained);
  /// A view of the same examples.
  explicit Table(const Table& whole);
  /// The view of a fold.
  Table(const Table& whole, const Fold& fold);

  const DatasetInfo& info() const override { return plan_.info; }
  const Preprocessing& preprocessing() const override { return plan_.preprocessing; }
  const std::vector<std::string>& class_names() const override { return plan_.schema.class_names; }
  const std::vector<std::int64_t>& occurrences() override { return occurrences_; }
  std::vector<std::int64_t> class_counts() override;
  std::optional<CommonAnswer> common_answer(Split split) override;
  std::vector<bool> seen_classes() override;
  Unseen unseen(Split split) override;
  std::vector<std::string> file_names(Split split) const override;
  std::unique_ptr<BatchSource> train(const SourceOptions& options) override;
  std::unique_ptr<EvaluationSource> evaluate(Split split, int rank, int size, Index batch_size,
                                             const Delivery& delivery) override;
  std::unique_ptr<EvaluationSource> training_part(int part, int parts, Index batch_size,
                                                  const std::vector<float>& class_weights,
                                                  const Delivery& delivery) override;
  std::unique_ptr<Dataset> fold_view(const Fold& fold) const override;
  std::unique_ptr<Dataset> view() const override;

 private:
  void load(Agreement& agreement);
  void fit_normalization(Agreement& agreement);
  void divide(const Fold& fold);
  void encode(const Table& whole);
  const Normalization& normalization() const { return plan_.preprocessing.normalization; }
  bool fixed() const { return settings_.partition == Partition::fixed; }
  int decoding_threads() const;
  BatchStyle style(const GroupSchema& group, std::uint64_t seed) const;
  BatchStyle training_style(const GroupSchema& group, const std::vector<float>& class_weights) const;
  /// A pass over part `part` of `parts` of a split.
  struct Pass {
    Split split;
    int part, parts;
    Index batch_size;
  };
  std::unique_ptr<EvaluationSource> sequential(const Pass& pass, const BatchStyle& style, const Delivery& delivery);
  std::unique_ptr<EvaluationSource> resident_part(Range part, Index batch_size, const BatchStyle& style);
  bool needs_no_conversion(Range part) const;
  const RowBlock& resident_rows(Split split, Range positions);
  const RawTable& raw_table() const;
  void visit_labels(Split split, const std::function<bool(std::int32_t)>& visit);
  Unseen find_unseen(Split split);
  std::unique_ptr<Feed> feed(const Schedule& schedule, const SourceOptions& options);

  DataSettings settings_;
  NodeShare share_;
  std::optional<hdf5::File> file_;
  SetPlan plan_;
  std::optional<SharedBlocks> shared_;
  const GroupBlocks* blocks_ = nullptr;  ///< the rows of all groups in memory; null: streamed, or each rank's own
  RowsOnDemand own_;
  std::shared_ptr<RowConversion> conversion_;  ///< of the last pass over a training part; null: there was none
  std::vector<float> conversion_weights_;      ///< its class weights
  std::vector<std::int64_t> occurrences_;      // always empty for tables
  bool trained_ = false;                       ///< whether a trained model brings the preprocessing
  std::optional<std::vector<bool>> seen_;      ///< computed when first needed, as the following
  std::array<std::optional<Unseen>, 3> unseen_;

  const Table* whole_ = nullptr;                 ///< of a view: the set that was opened
  std::shared_ptr<const EncodedTable> encoded_;  ///< of a view whose recipe has a fit of its own
  mutable FoldCopies<EncodedTable> encodings_;   ///< of the views of this set
  mutable std::once_flag raw_read_;
  mutable std::optional<RawTable> raw_;
};

/// Fetches examples from memory, in a random order of this rank's share: a function of (seed, epoch, number of the
/// share).
class ResidentFeed final : public Feed {
 public:
  /// \param share positions that the order permutes
  /// \param number of the share; 0 for an order that all ranks share
  ResidentFeed(RowBlock rows, const FileRows& positions, Range share, const DataSettings& settings, std::uint64_t seed,
               std::uint32_t number);

  void gather(const MicroBatch& batch, GatheredExamples& gathered) override;
  void seek(const DataCursor&) override {}

 private:
  RowBlock rows_;
  const FileRows& positions_;
  Range share_;
  bool shuffle_, mixes_;
  std::uint64_t seed_;
  std::uint32_t number_;
  std::int64_t epoch_ = -1;
  KeyedPermutation order_;  ///< of epoch_
};

ResidentFeed::ResidentFeed(RowBlock rows, const FileRows& positions, Range share, const DataSettings& settings,
                           std::uint64_t seed, std::uint32_t number)
    : rows_(rows),
      positions_(positions),
      share_(share),
      shuffle_(settings.shuffle),
      mixes_(mixes_examples(settings.augmentation)),
      seed_(seed),
      number_(number) {}

void ResidentFeed::gather(const MicroBatch& batch, GatheredExamples& gathered) {
  if (shuffle_ && batch.epoch != epoch_) {
    epoch_ = batch.epoch;
    order_ = KeyedPermutation(static_cast<std::uint64_t>(share_.size()),
                              RandomStream(seed_, Purpose::order, static_cast<std::uint64_t>(epoch_), number_));
  }
  const auto example = [&](std::int64_t i) {
    const std::int64_t place = batch.step_places.first + i;
    const auto chosen = shuffle_ ? static_cast<std::int64_t>(order_(static_cast<std::uint64_t>(place))) : place;
    return rows_.example(positions_.row(share_.first + chosen));
  };
  gathered.examples.clear();
  for (std::int64_t i = batch.places.first; i < batch.places.last; ++i) gathered.examples.push_back(example(i));
  if (!mixes_) return;
  const Range step{0, batch.step_places.size()};
  gather_with_partners(
      batch, [&](std::int64_t place) { return partner_of(place, step, batch, seed_); }, example, gathered);
}

}  // namespace

Table::Table(const DataSettings& settings, const NodeShare& share, const Preprocessing* trained)
    : settings_(settings), share_(share), trained_(trained != nullptr) {
  Agreement agreement(share_);
  agreement.all_do([&] {
    file_ = open_set_file(settings);
    plan_.schema = read_schema(*file_, rules_of(settings, trained));
    reserve_columns(plan_.schema, trained);
  });
  choose_reader(plan_, settings, share_, agreement);
  if (plan_.info.resident && (!fixed() || settings.holds_all_parts)) {
    shared_.emplace(plan_, share_);
    reconsider_reader(plan_, settings, share_, shared_->shared(), agreement);
    if (!plan_.info.resident) shared_.reset();
  }
  // validation_fraction refers to the training set; this set may be another one.
  if (trained != nullptr && plan_.schema.group(Split::validation)) settings_.validation_fraction = 0;
  complete_plan(plan_, *file_, settings_, trained, share_, agreement);
  if (shared_) load(agreement);
  if (trained == nullptr) fit_normalization(agreement);
  check_fits(normalization(), plan_.schema.any_group());
  if (shared_) file_.reset();
}

void Table::fit_normalization(Agreement& agreement) {
  const NormalizationKind kind = plan_.info.normalization;
  const Recipe& recipe = plan_.schema.recipe;
  Normalization& fitted = plan_.preprocessing.normalization;
  if (kind == NormalizationKind::none) return;
  const auto statistics = [&](NormalizationKind of) {
    const StoredRows rows = blocks_ != nullptr ? StoredRows(&resident_rows(Split::train, {})) : StoredRows(&*file_);
    return training_statistics(of, plan_, rows, share_, decoding_threads(), agreement);
  };
  if (kind != NormalizationKind::automatic) {
    fitted = statistics(kind);
  } else {
    const bool standard = recipe.scaling == Scaling::standard;
    fitted = scale_columns(recipe, plan_.preprocessing.columns,
                           standard ? statistics(NormalizationKind::feature) : Normalization{});
  }
}

void Table::load(Agreement& agreement) {
  agreement.all_do([&] { shared_->read(*file_); });
  shared_->complete();
  blocks_ = &shared_->blocks();
}

/// Threads that decode pictures; 1 where there are none.
int Table::decoding_threads() const {
  return plan_.info.encoded ? data::decoding_threads(settings_, share_.node_size) : 1;
}

BatchStyle Table::style(const GroupSchema& group, std::uint64_t seed) const {
  BatchStyle style;
  style.threads = decoding_threads();
  style.labels = group.has_labels;
  style.target_size = group.target_size;
  style.features_are_targets = settings_.targets == Targets::features;
  style.seed = seed;
  return style;
}

BatchStyle Table::training_style(const GroupSchema& group, const std::vector<float>& class_weights) const {
  BatchStyle with = style(group, 0);
  with.class_weights = class_weights;
  with.example_weights = group.has_weights;
  return with;
}

std::vector<std::string> Table::file_names(Split split) const {
  const GroupSchema* const group = plan_.group(split);
  if (group == nullptr) return {};
  const hdf5::File file = open_set_file(settings_);
  const std::string list = group->name + "/files";
  if (!file.exists(list) || !file.is_dataset(list)) return {};
  const std::vector<std::string> all = file.read_strings(list);
  if (std::ssize(all) != group->examples) return {};
  const FileRows& rows = plan_.rows(split);
  std::vector<std::string> names;
  for (const FileRows::Run& run : rows.runs({0, rows.size()})) {
    names.insert(names.end(), all.begin() + run.first_row, all.begin() + run.first_row + run.rows);
  }
  return names;
}

const RowBlock& Table::resident_rows(Split split, Range positions) {
  const GroupSchema& group = *plan_.group(split);
  if (blocks_ != nullptr) return (*blocks_)[plan_.home(group)];
  return own_.block(*file_, group, plan_.rows(split).span(positions));
}

/// Calls visit(class) for a split's examples, until it returns false. \pre they have labels
void Table::visit_labels(Split split, const std::function<bool(std::int32_t)>& visit) {
  const GroupSchema& group = *plan_.group(split);
  const FileRows& positions = plan_.rows(split);
  if (blocks_ == nullptr) {
    return data::visit_labels(*file_, group.labels_path(), positions, [&](std::int32_t label) {
      const auto i = static_cast<std::size_t>(label);
      if (group.classes.empty()) return visit(label);
      return i >= group.classes.size() || group.classes[i] < 0 || visit(group.classes[i]);
    });
  }
  const RowBlock& rows = resident_rows(split, {});
  for (const auto& run : positions.runs({0, positions.size()})) {
    const std::int32_t* const labels = rows.labels(run.first_row);
    for (std::int64_t i = 0; i < run.rows; ++i) {
      if (!visit(labels[i])) return;
    }
  }
}

std::vector<std::int64_t> Table::class_counts() {
  const GroupSchema* group = plan_.group(Split::train);
  if (group == nullptr || !group->has_labels) return {};
  std::vector<std::int64_t> counts(static_cast<std::size_t>(plan_.info.classes));
  visit_labels(Split::train, [&](std::int32_t label) {
    ++counts[static_cast<std::size_t>(label)];
    return true;
  });
  return counts;
}

std::vector<bool> Table::seen_classes() {
  if (seen_) return *seen_;
  const GroupSchema* const group = plan_.group(Split::train);
  if (trained_) {
    seen_ = classes_trained(plan_.info.classes, plan_.preprocessing.untrained_classes);
  } else if (group != nullptr && group->has_labels) {
    seen_ = classes_seen(plan_.info.classes, [&](const auto& visit) { visit_labels(Split::train, visit); });
  } else {
    seen_.emplace();
  }
  return *seen_;
}

Unseen Table::unseen(Split split) {
  auto& unseen = unseen_[static_cast<std::size_t>(split)];
  if (!unseen) unseen = find_unseen(split);
  return *unseen;
}

Unseen Table::find_unseen(Split split) {
  const GroupSchema* const group = plan_.group(split);
  const std::int64_t examples = plan_.rows(split).size();
  if (group == nullptr || !group->has_labels || settings_.targets == Targets::features) return {.examples = examples};
  return examples_unseen(seen_classes(), examples, [&](const auto& visit) { visit_labels(split, visit); });
}

std::optional<CommonAnswer> Table::common_answer(Split split) {
  const GroupSchema* group = plan_.group(split);
  const bool is_autoencoder = settings_.targets == Targets::features;
  if (group == nullptr || is_autoencoder || (!group->has_labels && group->target_size == 0)) return std::nullopt;
  const FileRows& positions = plan_.rows(split);
  AnswerComparison answers;
  for (const auto& run : positions.runs({0, positions.size()})) {
    const Range rows{run.first_row, run.first_row + run.rows};
    const bool is_common = blocks_ == nullptr ? share_answer(*file_, *group, rows, answers)
                                              : resident_rows(split, {}).share_answer(rows, answers);
    if (!is_common) return std::nullopt;
  }
  return answers.common(group->has_labels, class_names());
}

std::unique_ptr<Feed> Table::feed(const Schedule& schedule, const SourceOptions& options) {
  // The number of this rank's order; 0 is the order of the whole set.
  const auto number = fixed() && options.size > 1 ? static_cast<std::uint32_t>(1 + options.rank) : 0U;
  const FileRows& positions = plan_.rows(Split::train);
  if (plan_.info.resident) {
    return std::make_unique<ResidentFeed>(resident_rows(Split::train, schedule.share()), positions, schedule.share(),
                                          settings_, options.seed, number);
  }
  const GroupSchema& group = *plan_.group(Split::train);
  LaneSettings settings;
  settings.blocks = blocks_of(positions, schedule.share(), block_rows(group));
  settings.examples = schedule.share().size();
  settings.batch = schedule.order_batch();
  settings.steps = schedule.order_steps();
  settings.last_batch = schedule.last_batch();
  settings.shuffle = settings_.shuffle;
  settings.mixes = mixes_examples(settings_.augmentation);
  settings.seed = options.seed;
  settings.number = number;
  const std::int64_t window = fixed() ? plan_.window_bytes / options.size : plan_.window_bytes;
  const std::int64_t block_bytes = block_rows(group) * group.bytes_per_example();
  const auto blocks = static_cast<std::int64_t>(settings.blocks.size());
  settings.shape = choose_lanes(window, block_bytes, blocks, settings.shuffle ? settings.batch : 1);
  return std::make_unique<StreamingFeed>(*file_, group, std::move(settings), schedule, window);
}

std::unique_ptr<BatchSource> Table::train(const SourceOptions& options) {
  const GroupSchema* group = plan_.group(Split::train);
  if (group == nullptr) throw DataError(fmt::format("{}: has no group 'train' to train on", settings_.path));
  if (options.lanes > 1 && !plan_.info.resident) {
    throw ConfigError(
        fmt::format("{}: {} needs the data set in memory, but it is streamed; set data.reader = \"resident\"",
                    settings_.path, options.lanes_for));
  }
  const Schedule schedule(plan_.info.train, options, fixed());
  BatchStyle with = training_style(*group, options.class_weights);
  with.seed = options.seed;
  with.augmentation = settings_.augmentation;
  with.inputs = options.delivery.inputs;
  BatchWriter writer(*group, normalization(), with);
  if (plan_.info.resident) {
    writer.deliver_kept(resident_rows(Split::train, schedule.share()), options.delivery.keep);
  }
  return std::make_unique<TrainSource>(schedule, feed(schedule, options), writer, options);
}

std::unique_ptr<EvaluationSource> Table::evaluate(Split split, int rank, int size, Index batch_size,
                                                  const Delivery& delivery) {
  const GroupSchema* group = plan_.group(split);
  if (group == nullptr)
    throw DataError(fmt::format("{}: has no group '{}' to evaluate", settings_.path, name_of(split)));
  return sequential({split, rank, size, batch_size}, style(*group, 0), delivery);
}

std::unique_ptr<EvaluationSource> Table::training_part(int part, int parts, Index batch_size,
                                                       const std::vector<float>& class_weights,
                                                       const Delivery& delivery) {
  const GroupSchema* group = plan_.group(Split::train);
  if (group == nullptr) throw DataError(fmt::format("{}: has no group 'train' to train on", settings_.path));
  const BatchStyle with = training_style(*group, class_weights);
  if (plan_.info.resident && delivery.inputs && !delivery.keep && delivery.memory == &plain_allocator()) {
    return resident_part(part_of(plan_.rows(Split::train).size(), part, parts), batch_size, with);
  }
  return sequential({Split::train, part, parts, batch_size}, with, delivery);
}

/// A pass over training examples in memory, for a device that computes in plain memory.
std::unique_ptr<EvaluationSource> Table::resident_part(Range part, Index batch_size, const BatchStyle& style) {
  const GroupSchema& group = *plan_.group(Split::train);
  const FileRows& positions = plan_.rows(Split::train);
  const RowBlock& rows = resident_rows(Split::train, part);
  if (needs_no_conversion(part)) return rows_in_place(part, batch_size, rows, positions, group, style);
  const Index largest = std::min<Index>(batch_size, part.size());
  const bool fits = conversion_ != nullptr && conversion_.use_count() == 1 && conversion_->largest >= largest &&
                    conversion_weights_ == style.class_weights;
  if (!fits) {
    conversion_ =
        std::make_shared<RowConversion>(BatchWriter(group, normalization(), style), largest, plain_allocator());
    conversion_weights_ = style.class_weights;
  }
  return convert_rows(part, batch_size, rows, positions, conversion_);
}

/// Whether models can use the rows as they lie in memory, and these lie in long runs.
bool Table::needs_no_conversion(Range part) const {
  const GroupSchema& group = *plan_.group(Split::train);
  const bool as_stored = group.storage == Storage::float32 && group.scale == 1 && group.offset == 0;
  constexpr std::int64_t kLongRun = 64;
  if (!as_stored || !normalization().mean.empty()) return false;
  const auto runs = std::ssize(plan_.rows(Split::train).runs(part));
  return runs <= 1 || part.size() >= runs * kLongRun;
}

std::unique_ptr<EvaluationSource> Table::sequential(const Pass& pass, const BatchStyle& style,
                                                    const Delivery& delivery) {
  const GroupSchema& group = *plan_.group(pass.split);
  const FileRows& positions = plan_.rows(pass.split);
  const Range part = part_of(positions.size(), pass.part, pass.parts);
  BatchStyle with = style;
  with.inputs = delivery.inputs;
  BatchWriter writer(group, normalization(), with);
  std::unique_ptr<SequentialReader> reader;
  if (plan_.info.resident) {
    const RowBlock& rows = resident_rows(pass.split, part);
    writer.deliver_kept(rows, delivery.keep);
    reader = read_resident(rows, positions);
  } else {
    reader = read_streaming(*file_, group, positions);
  }
  constexpr Index kFew = 16;  // examples in memory that are converted sooner than handed from thread to thread
  const bool ahead = !plan_.info.resident || plan_.info.encoded || pass.batch_size > kFew;
  return std::make_unique<SequentialSource>(part, pass.batch_size, std::move(reader), writer, *delivery.memory, ahead);
}

std::unique_ptr<Dataset> open_table(const DataSettings& settings, const NodeShare& share,
                                    const Preprocessing* trained) {
  return std::make_unique<Table>(settings, share, trained);
}

DatasetInfo inspect_table(const DataSettings& settings, const hdf5::File& file) {
  const NodeShare alone;
  Agreement agreement(alone);
  SetPlan plan;
  plan.schema = read_schema(file, rules_of(settings, nullptr));
  reserve_columns(plan.schema, nullptr);
  choose_reader(plan, settings, alone, agreement);
  complete_plan(plan, file, settings, nullptr, alone, agreement);
  return plan.info;
}

Table::Table(const Table& whole)
    : settings_(whole.settings_), blocks_(whole.blocks_), whole_(&whole), encoded_(whole.encoded_) {
  plan_.schema = whole.plan_.schema;
  plan_.info = whole.plan_.info;
  plan_.preprocessing = whole.plan_.preprocessing;
  plan_.positions = whole.plan_.positions;
  for (std::size_t i = 0; i < plan_.groups.size(); ++i) {
    const GroupSchema* const group = whole.plan_.groups[i];
    if (group != nullptr) plan_.groups[i] = &*plan_.schema.groups[whole.plan_.home(*group)];
  }
}

Table::Table(const Table& whole, const Fold& fold) : Table(whole) {
  divide(fold);
  if (needs_values(plan_.schema.recipe)) encode(whole);
  Agreement alone(share_);
  fit_normalization(alone);
}

// Views of a table, and of its folds.

std::unique_ptr<Dataset> Table::fold_view(const Fold& fold) const {
  if (whole_ != nullptr) return whole_->fold_view(fold);
  require_folds_possible(settings_, SetKind::table, plan_.info.resident);
  return std::make_unique<Table>(*this, fold);
}

std::unique_ptr<Dataset> Table::view() const {
  if (blocks_ == nullptr) return nullptr;
  return std::make_unique<Table>(*this);
}

/// Makes the fold's rows the training and validation examples.
void Table::divide(const Fold& fold) {
  const auto& train = plan_.schema.group(Split::train);
  const auto& test = plan_.schema.group(Split::test);
  require_fold(fold, train ? train->examples : 0, plan_.schema.path);
  plan_.groups = {&*train, fold.validation.empty() ? nullptr : &*train, test ? &*test : nullptr};
  plan_.positions = {runs_of(fold.train), runs_of(fold.validation), FileRows(test ? test->examples : 0)};
  plan_.info.train = std::ssize(fold.train);
  plan_.info.validation = std::ssize(fold.validation);
  plan_.info.targets[1] = fold.validation.empty() ? TargetForm{} : plan_.info.targets[0];
  plan_.info.identity = identity_of(fold, plan_.info.identity);
}

/// Fits the recipe on the fold's training rows; where the fit is not that of the whole set, encodes the rows with it.
void Table::encode(const Table& whole) {
  encoded_ = whole.encodings_.get(plan_.info.identity, [&] {
    return std::make_shared<const EncodedTable>(whole.raw_table(), whole.plan_.preprocessing, *whole.blocks_, plan_);
  });
  plan_.preprocessing.columns = encoded_->columns();
  if (!encoded_->differs()) return;
  blocks_ = &encoded_->blocks();
  plan_.info.features = {encoded_->width(), 1, 1};
  for (auto& group : plan_.schema.groups) {
    if (group) group->features = plan_.info.features;
  }
  if (settings_.targets == Targets::features) {
    plan_.info.target_size = plan_.info.features.size();
    for (TargetForm& targets : plan_.info.targets) {
      if (targets.target_size > 0) targets.target_size = plan_.info.target_size;
    }
  }
}

const RawTable& Table::raw_table() const {
  std::call_once(raw_read_, [&] { raw_.emplace(plan_.schema); });
  return *raw_;
}

int decoding_threads(const DataSettings& settings, int node_ranks) {
  const auto asked = static_cast<int>(settings.pictures.threads);
  return asked > 0 ? asked : std::max(1, usable_cpus() / node_ranks);
}

}  // namespace unisono::data
