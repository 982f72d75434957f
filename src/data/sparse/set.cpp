#include "set/form.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <span>

#include "set/common_answer.hpp"
#include "set/fold.hpp"
#include "set/seen.hpp"
#include "sparse/info.hpp"
#include "sparse/range_source.hpp"
#include "sparse/schema.hpp"
#include "sparse/split.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/data/moments.hpp"

namespace unisono::data {
namespace {

std::unique_ptr<GroupLoader> make_loader(const hdf5::File& file, const SparseSchema& schema, const SparseGroup& group,
                                         const Arrangement& how) {
  switch (schema.kind) {
    case SetKind::sparse:
      return load_rows(schema, group, how);
    case SetKind::ratings:
      return load_ratings(file, schema, group, how);
    case SetKind::text:
      return load_text(schema, group);
    default:
      return load_cooccurrences(schema, group);
  }
}

/// A trained model is applied to all examples, in their order.
DataSettings without_training(DataSettings settings) {
  settings.shuffle = false;
  settings.partition = Partition::global;
  settings.order = Order::random;
  return settings;
}

using Loaders = std::array<std::unique_ptr<GroupLoader>, 3>;

std::size_t bytes_of(const Loaders& loaders) {
  std::size_t bytes = 0;
  for (const auto& loader : loaders) bytes += loader ? loader->bytes() : 0;
  return bytes;
}

class SparseSet final : public Dataset {
 public:
  SparseSet(const DataSettings& settings, std::uint64_t seed, const NodeShare& share, const Preprocessing* trained);
  /// A view of the same examples.
  explicit SparseSet(const SparseSet& whole);
  /// The view of a fold.
  SparseSet(const SparseSet& whole, const Fold& fold);

  const DatasetInfo& info() const override { return info_; }
  const Preprocessing& preprocessing() const override { return preprocessing_; }
  const std::vector<std::string>& class_names() const override { return schema_.class_names; }
  const std::vector<std::int64_t>& occurrences() override;
  std::vector<std::int64_t> class_counts() override;
  std::optional<CommonAnswer> common_answer(Split split) override;
  std::vector<bool> seen_classes() override;
  Unseen unseen(Split split) override;
  std::unique_ptr<BatchSource> train(const SourceOptions& options) override;
  std::unique_ptr<EvaluationSource> evaluate(Split split, int rank, int size, Index batch_size,
                                             const Delivery& delivery) override;
  std::unique_ptr<EvaluationSource> training_part(int part, int parts, Index batch_size,
                                                  const std::vector<float>& class_weights,
                                                  const Delivery& delivery) override;
  std::unique_ptr<Dataset> fold_view(const Fold& fold) const override;
  std::unique_ptr<Dataset> view() const override;

 private:
  Loaders prepare(const hdf5::File& file, const Preprocessing* trained);
  void take_rows(const SparseSet& whole, const Fold& fold);
  void take_ratings(const SparseSet& whole, const Fold& fold);
  void load(const hdf5::File& file, const Loaders& loaders, Agreement& agreement);
  void take_rating_figures(const GroupLoader& training);
  void settle_form(const Preprocessing* trained);
  void split_groups(const Loaders& loaders);
  bool is_scaled() const;
  void scale_columns(const Loaders& loaders, Agreement& agreement);
  void require_scalable_folds() const;
  void weigh_rows(const std::vector<float>& class_weights);
  void require_pairs() const;
  void visit_labels(Split split, const std::function<bool(std::int32_t)>& visit) const;
  Unseen find_unseen(Split split);
  Unseen unseen_ratings(Split split);
  const LoadedSplit& split(Split split) const;

  DataSettings settings_;
  std::uint64_t seed_;
  NodeShare share_, alone_;
  SparseSchema schema_;
  DatasetInfo info_;
  Preprocessing preprocessing_;
  std::optional<NodeMemory> memory_;
  std::array<std::optional<LoadedSplit>, 3> splits_;
  std::vector<std::int64_t> occurrences_;
  std::vector<float> weights_;             ///< of the training rows, computed when first needed
  std::optional<GroupDivision> division_;  ///< of the training examples, where whole groups are held out
  bool trained_ = false;                   ///< whether a trained model brings the preprocessing
  std::optional<std::vector<bool>> seen_;  ///< computed when first needed, as the following
  std::array<std::optional<Unseen>, 3> unseen_;

  const SparseSet* whole_ = nullptr;                     ///< of a view: the set that was opened
  std::shared_ptr<const FoldedRows> folded_rows_;        ///< of a view
  std::shared_ptr<const FoldedRatings> folded_ratings_;  ///< of a view
  mutable FoldCopies<FoldedRows> rows_of_views_;
  mutable FoldCopies<FoldedRatings> ratings_of_views_;
};

SparseSet::SparseSet(const DataSettings& settings, std::uint64_t seed, const NodeShare& share,
                     const Preprocessing* trained)
    : settings_(trained != nullptr ? without_training(settings) : settings),
      seed_(seed),
      share_(share),
      trained_(trained != nullptr) {
  Agreement agreement(share_);
  std::optional<hdf5::File> file;
  Loaders loaders;
  agreement.all_do([&] {
    file.emplace(settings.path, hdf5::File::Mode::read);
    loaders = prepare(*file, trained);
  });
  load(*file, loaders, agreement);
  split_groups(loaders);
  if (is_scaled()) scale_columns(loaders, agreement);
  if (schema_.kind == SetKind::ratings && loaders[0]) take_rating_figures(*loaders[0]);
  if (schema_.kind == SetKind::text && !trained_) agreement.all_do([&] { require_pairs(); });
}

SparseSet::SparseSet(const SparseSet& whole)
    : settings_(whole.settings_),
      seed_(whole.seed_),
      share_(whole.share_),
      schema_(whole.schema_),
      info_(whole.info_),
      preprocessing_(whole.preprocessing_),
      splits_(whole.splits_),
      occurrences_(whole.occurrences_),
      whole_(&whole),
      folded_rows_(whole.folded_rows_),
      folded_ratings_(whole.folded_ratings_) {
  auto* const rows = splits_[0] ? std::get_if<LabelledRows>(&splits_[0]->set) : nullptr;
  if (rows != nullptr) rows->weights = {};  // those of the other's runs
}

SparseSet::SparseSet(const SparseSet& whole, const Fold& fold) : SparseSet(whole) {
  occurrences_.clear();
  require_fold(fold, schema_.group(Split::train)->units, settings_.path);
  info_.train = std::ssize(fold.train);
  info_.validation = std::ssize(fold.validation);
  info_.targets[1] = fold.validation.empty() ? TargetForm{} : info_.targets[0];
  info_.identity = identity_of(fold, info_.identity);
  schema_.kind == SetKind::ratings ? take_ratings(whole, fold) : take_rows(whole, fold);
  if (fold.validation.empty()) splits_[1].reset();
}

void SparseSet::take_rows(const SparseSet& whole, const Fold& fold) {
  const LoadedSplit& all = whole.split(Split::train);
  folded_rows_ = whole.rows_of_views_.get(info_.identity, [&] {
    if (!whole.is_scaled()) {
      return std::make_shared<const FoldedRows>(all, fold, is_small(std::get<LabelledRows>(all.set)));
    }
    const LoadedSplit* const test = whole.splits_[2] ? &*whole.splits_[2] : nullptr;
    return std::make_shared<const FoldedRows>(all, test, fold, whole.preprocessing_.normalization.scale);
  });
  splits_[0] = folded_rows_->training();
  splits_[1] = folded_rows_->validation();
  if (folded_rows_->test()) splits_[2] = folded_rows_->test();
  preprocessing_.normalization.scale = folded_rows_->scale();
  info_.row_values = static_cast<double>(count_values(*splits_[0])) / static_cast<double>(info_.train);
}

void SparseSet::take_ratings(const SparseSet& whole, const Fold& fold) {
  folded_ratings_ = whole.ratings_of_views_.get(info_.identity, [&] {
    Arrangement how = arrangement_of(settings_, seed_, Split::train, info_.grid, share_);
    how.fold = &fold;
    return std::make_shared<const FoldedRatings>(schema_, how);
  });
  splits_[0] = folded_ratings_->training();
  splits_[1] = folded_ratings_->validation();
  info_.mean_value = folded_ratings_->mean_value();
  occurrences_ = folded_ratings_->counts();
}

std::unique_ptr<Dataset> SparseSet::view() const {
  if (settings_.partition == Partition::strata) return nullptr;
  return std::make_unique<SparseSet>(*this);
}

std::unique_ptr<Dataset> SparseSet::fold_view(const Fold& fold) const {
  if (whole_ != nullptr) return whole_->fold_view(fold);
  require_folds_possible(settings_, schema_.kind, true);
  require_scalable_folds();
  return std::make_unique<SparseSet>(*this, fold);
}

/// Each fold has rows of its own where they are scaled, those of the test group among them.
void SparseSet::require_scalable_folds() const {
  if (!is_scaled()) return;
  for (const Split which : {Split::train, Split::test}) {
    const auto& loaded = splits_[static_cast<std::size_t>(which)];
    if (!loaded || is_small(std::get<LabelledRows>(loaded->set))) continue;
    throw ConfigError(fmt::format(
        "data.normalization: the rows of {} take 256 MiB or more, so that folds have no copies of them, which "
        "could be scaled by their own training rows; set it to \"none\", and scale the values before the "
        "import where they need it",
        settings_.path));
  }
}

/// Reads the file's metadata, and makes the loaders of its groups.
Loaders SparseSet::prepare(const hdf5::File& file, const Preprocessing* trained) {
  schema_ = read_sparse_schema(file, trained != nullptr);
  // validation_fraction refers to the training set; this set may be another one.
  if (trained != nullptr && schema_.group(Split::validation)) settings_.validation_fraction = 0;
  check_settings(settings_, schema_);
  if (trained == nullptr) require_few_columns(settings_, schema_);
  const auto& train = schema_.group(Split::train);
  if (train) division_ = divide_by_groups(settings_, file, train->units);
  info_ = sparse_info(file, schema_, settings_, division_);
  settle_form(trained);
  Loaders loaders;
  for (const Split split : kSplits) {
    const auto i = static_cast<std::size_t>(split);
    if (!schema_.groups[i]) continue;
    Arrangement how = arrangement_of(settings_, seed_, split, info_.grid, share_);
    if (split == Split::train && division_) how.fold = &division_->fold;
    how.scaled = is_scaled();
    loaders[i] = make_loader(file, schema_, *schema_.groups[i], how);
  }
  occurrences_ = word_counts(file, schema_);
  return loaders;
}

/// Reads the values into memory that the ranks of a node share. Collective.
void SparseSet::load(const hdf5::File& file, const Loaders& loaders, Agreement& agreement) {
  memory_.emplace(settings_.partition == Partition::strata ? alone_ : share_, bytes_of(loaders));
  const bool shared = agreement.smallest(memory_->shared() || share_.node_size == 1 ? 1 : 0) == 1;
  info_.bytes_per_node = agreement.largest(static_cast<Index>(bytes_of(loaders))) * (shared ? 1 : share_.node_size);
  agreement.all_do([&] {
    memory_->take_own();
    std::byte* base = memory_->data();
    for (const auto& loader : loaders) {
      if (!loader) continue;
      loader->read(file, base, *memory_);
      base += loader->bytes();
    }
  });
  memory_->complete();
}

/// Whether values of columns are multiplied by factors: those of the trained model, or ones fitted on training rows.
bool SparseSet::is_scaled() const {
  const Normalization& known = preprocessing_.normalization;
  if (trained_) return schema_.kind == SetKind::sparse && known.mean.empty() && !known.scale.empty();
  return info_.normalization != NormalizationKind::none;
}

/// Multiplies the values in memory, without a trained model by factors that make the deviation of each column 1 over
/// the training rows. Each rank computes them from all of these rows, in the order of the file. Collective.
void SparseSet::scale_columns(const Loaders& loaders, Agreement& agreement) {
  std::vector<float>& scale = preprocessing_.normalization.scale;
  agreement.all_do([&] {
    if (trained_) return;
    const LoadedSplit& train = split(Split::train);
    const auto place_of = [&](std::int64_t row) {
      if (train.places.size() == 0) return row;
      return static_cast<std::int64_t>(train.places(static_cast<std::uint64_t>(row)));
    };
    const SparseRows& rows = std::get<LabelledRows>(train.set).rows;
    for (const double deviation : column_deviations(rows, train.examples, place_of))
      scale.push_back(factor_of(deviation));
  });
  for (const auto& loader : loaders) {
    if (loader) loader->scale(scale, *memory_);
  }
  memory_->complete();
}

void SparseSet::take_rating_figures(const GroupLoader& training) {
  const auto counted = training.mean_value();
  info_.mean_value = counted ? *counted : mean_rating(split(Split::train));
  occurrences_ = training.counts();
}

/// How its examples are read: as those that the model was trained on.
void SparseSet::settle_form(const Preprocessing* trained) {
  if (trained == nullptr) {
    preprocessing_.recipe = schema_.recipe;
    preprocessing_.class_names = schema_.class_names;
    preprocessing_.known = true;
    return;
  }
  preprocessing_ = *trained;
  const auto &there = schema_.recipe.base, &known = trained->recipe.base;
  if (there && known && *there != *known) {
    throw DataError(
        fmt::format("{}: was imported with {} as the index of its first column, but the training set with {}; use the "
                    "text file with --input, or import it again with --base {}",
                    settings_.path, *there, *known, *known));
  }
  if (is_scaled() && schema_.columns > std::ssize(trained->normalization.scale)) {
    throw DataError(fmt::format("{}: has {} columns, but the model was trained for {}; use a set like the training set",
                                settings_.path, schema_.columns, trained->normalization.scale.size()));
  }
  const auto classes = classes_of(trained->class_names, schema_.class_names);
  if (classes.empty() || schema_.kind != SetKind::sparse) return;
  info_.classes = static_cast<Index>(trained->class_names.size());
  for (auto& group : schema_.groups) {
    if (!group) continue;
    group->classes = classes;
    group->class_names = schema_.class_names;
  }
}

void SparseSet::split_groups(const Loaders& loaders) {
  for (std::size_t i = 0; i < loaders.size(); ++i) {
    if (loaders[i]) splits_[i] = loaders[i]->split(false);
  }
  if (settings_.validation_fraction > 0 && loaders[0]) splits_[1] = loaders[0]->split(true);
}

const LoadedSplit& SparseSet::split(Split split) const {
  const auto& loaded = splits_[static_cast<std::size_t>(split)];
  if (!loaded) throw DataError(fmt::format("{}: has no group '{}'", settings_.path, name_of(split)));
  return *loaded;
}

const std::vector<std::int64_t>& SparseSet::occurrences() {
  if (!occurrences_.empty() || (schema_.kind != SetKind::sparse && schema_.kind != SetKind::ratings)) {
    return occurrences_;
  }
  const LoadedSplit& train = split(Split::train);
  return occurrences_ = schema_.kind == SetKind::ratings ? count_ratings(train, schema_.rows, schema_.columns)
                                                         : count_features(train, schema_.columns);
}

std::vector<std::int64_t> SparseSet::class_counts() {
  if (info_.classes == 0) return {};
  return count_labels(split(Split::train), info_.classes);
}

std::optional<CommonAnswer> SparseSet::common_answer(Split split) {
  const auto& loaded = splits_[static_cast<std::size_t>(split)];
  if (schema_.kind != SetKind::sparse || !loaded) return std::nullopt;
  const View targets = std::get<LabelledRows>(loaded->set).targets;
  AnswerComparison answers;
  for (const ExampleRange& chunk : loaded->chunks) {
    for (std::int64_t row = chunk.first; row < chunk.last; ++row) {
      if (!answers.add(targets.subspan(static_cast<std::size_t>(row), 1))) return std::nullopt;
    }
  }
  return answers.common(info_.classes > 0, class_names());
}

/// Calls visit(class) for a split's examples, until it returns false. \pre they are rows with labels
void SparseSet::visit_labels(Split split, const std::function<bool(std::int32_t)>& visit) const {
  const LoadedSplit& loaded = this->split(split);
  const View answers = std::get<LabelledRows>(loaded.set).targets;
  for (const ExampleRange& chunk : loaded.chunks) {
    for (std::int64_t row = chunk.first; row < chunk.last; ++row) {
      if (!visit(static_cast<std::int32_t>(answers[static_cast<std::size_t>(row)]))) return;
    }
  }
}

std::vector<bool> SparseSet::seen_classes() {
  if (seen_) return *seen_;
  const bool have_labels = schema_.kind == SetKind::sparse && info_.classes > 0;
  if (!have_labels) {
    seen_.emplace();
  } else if (trained_) {
    seen_ = classes_trained(info_.classes, preprocessing_.untrained_classes);
  } else {
    seen_ = classes_seen(info_.classes, [&](const auto& visit) { visit_labels(Split::train, visit); });
  }
  return *seen_;
}

Unseen SparseSet::unseen(Split split) {
  auto& unseen = unseen_[static_cast<std::size_t>(split)];
  if (!unseen) unseen = find_unseen(split);
  return *unseen;
}

Unseen SparseSet::find_unseen(Split split) {
  const auto i = static_cast<std::size_t>(split);
  const std::array<std::int64_t, 3> examples = {info_.train, info_.validation, info_.test};
  if (split == Split::train || !splits_[i]) return {.examples = examples[i]};
  if (schema_.kind == SetKind::sparse && info_.targets[i].labels)
    return examples_unseen(seen_classes(), examples[i], [&](const auto& visit) { visit_labels(split, visit); });
  const bool are_known = splits_[0] && (!trained_ || settings_.is_training_set);
  if (schema_.kind == SetKind::ratings && are_known) return unseen_ratings(split);
  return {.examples = examples[i], .no_pairs = schema_.kind == SetKind::text && !has_pairs(*splits_[i])};
}

/// In strata, each rank has ratings of its own, with local numbers: those of the file's groups are read again, and
/// those that were held out are not looked at.
Unseen SparseSet::unseen_ratings(Split split) {
  const LoadedSplit& loaded = this->split(split);
  const RatingCounts counts{.users = schema_.rows, .counts = occurrences()};
  Unseen unseen{.examples = loaded.examples};
  const auto& group = schema_.group(split);
  if (settings_.partition != Partition::strata) {
    for (const ExampleRange& chunk : loaded.chunks) counts.look_at(loaded, chunk, unseen);
  } else if (group) {
    const hdf5::File file(settings_.path, hdf5::File::Mode::read);
    visit_entries(file, entry_columns(schema_, *group), {0, group->units},
                  [&](std::int64_t, std::span<const SparseEntry> entries) { counts.look_at(entries, unseen); });
  }
  return unseen;
}

/// Words are learnt from those that are near them.
void SparseSet::require_pairs() const {
  if (has_pairs(split(Split::train))) return;
  throw DataError(
      fmt::format("{}: no training sentence has two or more words, so that there are no pairs of words to learn from; "
                  "import the text with several words in a line, or with a smaller --minimum-count",
                  settings_.path));
}

/// The factor of each row's loss, which is the weight of its class. The same for all sources of a run.
void SparseSet::weigh_rows(const std::vector<float>& class_weights) {
  if (class_weights.empty() || !weights_.empty()) return;
  auto& rows = std::get<LabelledRows>(splits_[static_cast<std::size_t>(Split::train)]->set);
  for (const float answer : rows.targets) weights_.push_back(class_weights[static_cast<std::size_t>(answer)]);
  rows.weights = weights_;
}

std::unique_ptr<BatchSource> SparseSet::train(const SourceOptions& options) {
  split(Split::train);  // there is one
  weigh_rows(options.class_weights);
  if (settings_.order == Order::strata) return std::make_unique<StrataSource>(split(Split::train), options);
  return std::make_unique<RangeSource>(split(Split::train), options, settings_.shuffle);
}

std::unique_ptr<EvaluationSource> SparseSet::evaluate(Split which, int rank, int size, Index batch_size,
                                                      const Delivery&) {
  if (settings_.partition == Partition::strata) return std::make_unique<StrataEvaluation>(split(which), rank, size);
  return std::make_unique<RangeEvaluation>(split(which), rank, size, batch_size);
}

std::unique_ptr<EvaluationSource> SparseSet::training_part(int part, int parts, Index batch_size,
                                                           const std::vector<float>& class_weights, const Delivery&) {
  const LoadedSplit& training = split(Split::train);
  weigh_rows(class_weights);
  return std::make_unique<RangeEvaluation>(training, part, parts, batch_size);
}

}  // namespace

std::unique_ptr<Dataset> open_sparse_set(const DataSettings& settings, std::uint64_t seed, const NodeShare& share,
                                         const Preprocessing* trained) {
  return std::make_unique<SparseSet>(settings, seed, share, trained);
}

DatasetInfo inspect_sparse_set(const DataSettings& settings, const hdf5::File& file) {
  SparseSchema schema = read_sparse_schema(file, false);
  check_settings(settings, schema);
  require_few_columns(settings, schema);
  const auto& train = schema.group(Split::train);
  const auto division = train ? divide_by_groups(settings, file, train->units) : std::nullopt;
  DatasetInfo info = sparse_info(file, schema, settings, division);
  Loaders loaders;
  for (const Split split : kSplits) {
    const auto i = static_cast<std::size_t>(split);
    const Arrangement how{.scaled = info.normalization != NormalizationKind::none};
    if (schema.groups[i]) loaders[i] = make_loader(file, schema, *schema.groups[i], how);
  }
  info.bytes_per_node = static_cast<Index>(bytes_of(loaders));
  return info;
}

}  // namespace unisono::data
