#include "tokens/documents.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "dense/schema.hpp"
#include "order/schedule.hpp"
#include "set/agreement.hpp"
#include "set/common_answer.hpp"
#include "set/external.hpp"
#include "set/fold.hpp"
#include "set/form.hpp"
#include "set/seen.hpp"
#include "sparse/schema.hpp"
#include "tokens/sources.hpp"
#include "tokens/store.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

constexpr std::int32_t kPadding = -1;

/// The documents of a group, or those of them that are in a split.
struct Documents {
  std::vector<std::uint64_t> begins = {0};  ///< [n + 1] document i has the tokens begins[i] … begins[i + 1] − 1
  std::vector<std::int32_t> labels = {};    ///< [n]; empty: they have no classes

  std::int64_t size() const { return std::ssize(begins) - 1; }
  std::int64_t begin(std::int64_t document) const {
    return static_cast<std::int64_t>(begins[static_cast<std::size_t>(document)]);
  }
  std::int64_t length(std::int64_t document) const {
    const auto i = static_cast<std::size_t>(document);
    return static_cast<std::int64_t>(begins[i + 1] - begins[i]);
  }
};

void require_tokens(const hdf5::File& file, const TokenGroup& group, const Documents& documents) {
  for (std::int64_t i = 0; i < documents.size(); ++i) {
    if (documents.length(i) > 0) continue;
    throw DataError(
        fmt::format("{}: /{}: document {} has no tokens; leave it out", file.path(), group.documents_path(), i));
  }
}

/// Labels as the numbers of the model's classes. \param classes by stored label; empty: they are the model's
std::vector<std::int32_t> read_classes(const hdf5::File& file, const TokenGroup& group, const TokenSchema& schema,
                                       const std::vector<std::int32_t>& classes) {
  std::vector<std::int32_t> labels(static_cast<std::size_t>(group.documents));
  read_labels(file, group.labels_path(), {0, group.documents}, labels.data());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto label = static_cast<std::size_t>(labels[i]);
    if (label >= schema.class_names.size()) {
      throw DataError(fmt::format("{}: /{}: document {} has the label {}, but there are {}", file.path(),
                                  group.labels_path(), i, label, count_of(std::ssize(schema.class_names), "class")));
    }
    if (classes.empty()) continue;
    labels[i] = classes[label];
    if (labels[i] >= 0) continue;
    throw DataError(
        fmt::format("{}: /{}: document {} is of class '{}', which the model was not trained on; correct or leave out "
                    "such documents, or remove /{} to predict all of them",
                    file.path(), group.labels_path(), i, schema.class_names[label], group.labels_path()));
  }
  return labels;
}

Documents read_documents(const hdf5::File& file, const TokenGroup& group, const TokenSchema& schema,
                         const std::vector<std::int32_t>& classes) {
  Documents documents;
  documents.begins = {0, static_cast<std::uint64_t>(group.tokens)};
  if (group.has_documents) documents.begins = read_offsets(file, group.documents_path(), group.documents, group.tokens);
  require_tokens(file, group, documents);
  if (group.has_labels) documents.labels = read_classes(file, group, schema, classes);
  return documents;
}

/// All that is known of a set of documents before its tokens are read.
struct DocumentPlan {
  TokenSchema schema;
  Preprocessing preprocessing;
  std::array<Documents, 3> documents;              ///< by group of the file
  std::array<std::optional<std::size_t>, 3> home;  ///< by Split: the group that has its examples; nothing: it is empty
  std::array<FileRows, 3> positions;               ///< by Split: the numbers of its documents in the group
  DatasetInfo info;

  const Documents& of(Split split) const { return documents[*home[static_cast<std::size_t>(split)]]; }
  const FileRows& rows(Split split) const { return positions[static_cast<std::size_t>(split)]; }
  bool has(Split split) const { return home[static_cast<std::size_t>(split)].has_value(); }
};

void check_document_settings(const DataSettings& settings, const DocumentPlan& plan, bool trained) {
  check_settings(settings, plan.schema);
  if (settings.windows == WindowPlaces::random) {
    throw ConfigError(
        fmt::format("data.windows = \"random\": {} holds texts with labels, each of which is an example; remove it",
                    plan.schema.path));
  }
  const auto& train = plan.schema.group(Split::train);
  if (trained) return;
  if (!train) throw DataError(fmt::format("{}: has no group 'train' to train on", plan.schema.path));
  if (!train->has_labels) {
    throw DataError(fmt::format("{}: has classes in other groups, but no /{}; see docs/data-format.md",
                                plan.schema.path, train->labels_path()));
  }
}

/// Holds documents of the training group back for validation, as data.validation_fraction says.
void split_documents(DocumentPlan& plan, const DataSettings& settings) {
  for (std::size_t i = 0; i < plan.home.size(); ++i) {
    if (!plan.schema.groups[i]) continue;
    plan.home[i] = i;
    plan.positions[i] = FileRows(plan.documents[i].size());
  }
  if (settings.validation_fraction == 0 || !plan.home[0]) return;
  const Documents& train = plan.documents[0];
  if (train.size() < 2) {
    throw DataError(
        fmt::format("{}: /train has only 1 document, so data.validation_fraction cannot be held back; set it to 0",
                    plan.schema.path));
  }
  const auto seed = static_cast<std::uint64_t>(settings.split_seed);
  ValidationSplit split = settings.stratify && !train.labels.empty()
                              ? split_stratified(train.labels, settings.validation_fraction, seed)
                              : split_validation(train.size(), 1, settings.validation_fraction, seed);
  plan.positions[0] = std::move(split.train);
  plan.positions[1] = std::move(split.validation);
  plan.home[1] = 0;
}

void fill_info(DocumentPlan& plan, const hdf5::File& file, const DataSettings& settings) {
  DatasetInfo& info = plan.info;
  info.kind = SetKind::tokens;
  info.rows = plan.schema.vocabulary;
  info.context = settings.context;
  info.classes = std::ssize(plan.preprocessing.class_names);
  for (const Split split : kSplits) {
    const auto i = static_cast<std::size_t>(split);
    if (!plan.has(split)) continue;
    info.targets[i].labels = !plan.of(split).labels.empty();
    for (std::int64_t position = 0; position < plan.rows(split).size(); ++position) {
      const std::int64_t length = plan.of(split).length(plan.rows(split).row(position));
      info.tokens[i] += length;
      info.cut[i] += length > settings.context ? 1 : 0;
    }
  }
  info.train = plan.rows(Split::train).size();
  info.validation = plan.rows(Split::validation).size();
  info.test = plan.rows(Split::test).size();
  info.identity = identity_of(file, plan.schema);
}

DocumentPlan plan_documents(const hdf5::File& file, DataSettings settings, const Preprocessing* trained) {
  DocumentPlan plan;
  plan.schema = read_token_schema(file);
  // validation_fraction refers to the training set; this set may be another one.
  if (trained != nullptr && plan.schema.group(Split::validation)) settings.validation_fraction = 0;
  check_document_settings(settings, plan, trained != nullptr);
  plan.preprocessing = text_preprocessing(plan.schema, trained);
  std::vector<std::int32_t> classes;
  if (trained == nullptr) {
    plan.preprocessing.class_names = plan.schema.class_names;
    plan.preprocessing.recipe = plan.schema.recipe;
  } else {
    classes = classes_of(trained->class_names, plan.schema.class_names);
  }
  for (std::size_t i = 0; i < plan.documents.size(); ++i) {
    const auto& group = plan.schema.groups[i];
    if (group) plan.documents[i] = read_documents(file, *group, plan.schema, classes);
  }
  split_documents(plan, settings);
  fill_info(plan, file, settings);
  return plan;
}

/// The first T tokens of each document, padding behind those of shorter ones, and the documents' classes.
class DocumentBatches final : public TokenBatches {
 public:
  /// \param documents, positions outlive it \param class_weights [K] weights of the losses by class; empty: all are 1
  DocumentBatches(TokenStream stream, const Documents& documents, const FileRows& positions, Index context, bool inputs,
                  std::vector<float> class_weights)
      : stream_(std::move(stream)),
        documents_(documents),
        positions_(positions),
        context_(context),
        inputs_(inputs),
        class_weights_(std::move(class_weights)) {}

  void begin(const Batch& header, Index examples) override {
    batch_ = header;
    batch_.size = examples;
    batch_.rows = context_;
    examples_.clear();
    lengths_.clear();
    labels_.clear();
    weights_.clear();
    tokens_.assign(static_cast<std::size_t>(inputs_ ? examples * context_ : 0), kPadding);
  }
  void add(std::int64_t example, std::int64_t) override {
    const std::int64_t document = positions_.row(example), length = kept(document);
    if (inputs_) {
      const auto place = examples_.size() * static_cast<std::size_t>(context_);
      stream_.read(documents_.begin(document), std::span(tokens_).subspan(place, static_cast<std::size_t>(length)));
    }
    examples_.push_back(static_cast<std::uint64_t>(document));
    lengths_.push_back(static_cast<std::int32_t>(length));
    if (documents_.labels.empty()) return;
    labels_.push_back(documents_.labels[static_cast<std::size_t>(document)]);
    if (!class_weights_.empty()) weights_.push_back(class_weights_[static_cast<std::size_t>(labels_.back())]);
  }
  const Batch& batch() override {
    batch_.examples = examples_;
    batch_.tokens = tokens_;
    batch_.lengths = lengths_;
    batch_.labels = labels_;
    batch_.weights = weights_;
    return batch_;
  }
  void fetch(std::int64_t example, std::int64_t) const override {
    const std::int64_t document = positions_.row(example);
    stream_.fetch(documents_.begin(document), kept(document));
  }

 private:
  std::int64_t kept(std::int64_t document) const { return std::min(context_, documents_.length(document)); }

  TokenStream stream_;
  const Documents& documents_;
  const FileRows& positions_;
  Index context_;
  bool inputs_;
  std::vector<float> class_weights_;
  Batch batch_;
  std::vector<std::uint64_t> examples_;
  std::vector<std::int32_t> tokens_, lengths_, labels_;
  std::vector<float> weights_;
};

/// A set of documents, each of which is an example with a class.
class DocumentSet final : public Dataset {
 public:
  DocumentSet(const DataSettings& settings, const NodeShare& share, const Preprocessing* trained);
  /// A view of the same documents.
  DocumentSet(const DocumentSet& whole) = default;

  const DatasetInfo& info() const override { return plan_.info; }
  const Preprocessing& preprocessing() const override { return plan_.preprocessing; }
  const std::vector<std::string>& class_names() const override { return plan_.schema.class_names; }
  const std::vector<std::int64_t>& occurrences() override { return occurrences_; }
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
  std::unique_ptr<Dataset> view() const override { return std::make_unique<DocumentSet>(*this); }

 private:
  void check_evaluated() const;
  void visit_classes(Split split, const std::function<bool(std::int32_t)>& visit) const;
  bool has_classes(Split split) const { return plan_.has(split) && !plan_.of(split).labels.empty(); }
  std::unique_ptr<TokenBatches> batches(Split split, const std::vector<float>& class_weights,
                                        const Delivery& delivery) const;

  DataSettings settings_;
  NodeShare share_;
  DocumentPlan plan_;
  std::shared_ptr<const TokenStore> store_;
  bool trained_;                           ///< whether a trained model brings the preprocessing
  std::vector<std::int64_t> occurrences_;  // always empty
};

DocumentSet::DocumentSet(const DataSettings& settings, const NodeShare& share, const Preprocessing* trained)
    : settings_(settings), share_(share), trained_(trained != nullptr) {
  std::optional<hdf5::File> file;
  Agreement(share_).all_do([&] {
    file.emplace(open_set_file(settings_));
    plan_ = plan_documents(*file, settings_, trained);
  });
  store_ = std::make_shared<const TokenStore>(*file, plan_.schema, settings_, share_, plan_.info);
  if (trained == nullptr) Agreement(share_).all_do([&] { check_evaluated(); });
}

/// As for windows: numbers that are no token's are found before training begins.
void DocumentSet::check_evaluated() const {
  for (const Split split : {Split::validation, Split::test}) {
    if (!plan_.has(split)) continue;
    const Range part = part_of(plan_.rows(split).size(), share_.rank, share_.size);
    const TokenStream& stream = store_->stream(*plan_.home[static_cast<std::size_t>(split)]);
    for (std::int64_t position = part.first; position < part.last; ++position) {
      const std::int64_t document = plan_.rows(split).row(position);
      const std::int64_t begin = plan_.of(split).begin(document);
      stream.check({begin, begin + std::min(settings_.context, plan_.of(split).length(document))});
    }
  }
}

/// Calls visit(class) for a split's documents, until it returns false. \pre they have classes
void DocumentSet::visit_classes(Split split, const std::function<bool(std::int32_t)>& visit) const {
  const FileRows& positions = plan_.rows(split);
  for (const auto& run : positions.runs({0, positions.size()})) {
    for (std::int64_t i = 0; i < run.rows; ++i) {
      if (!visit(plan_.of(split).labels[static_cast<std::size_t>(run.first_row + i)])) return;
    }
  }
}

std::vector<std::int64_t> DocumentSet::class_counts() {
  if (!has_classes(Split::train)) return {};
  std::vector<std::int64_t> counts(static_cast<std::size_t>(plan_.info.classes));
  visit_classes(Split::train, [&](std::int32_t label) {
    ++counts[static_cast<std::size_t>(label)];
    return true;
  });
  return counts;
}

std::optional<CommonAnswer> DocumentSet::common_answer(Split split) {
  if (!has_classes(split)) return std::nullopt;
  AnswerComparison answers;
  bool is_common = true;
  visit_classes(split, [&](std::int32_t label) {
    const auto answer = static_cast<float>(label);
    return is_common = answers.add(std::span(&answer, 1));
  });
  if (!is_common) return std::nullopt;
  return answers.common(/*are_labels=*/true, plan_.preprocessing.class_names);
}

std::vector<bool> DocumentSet::seen_classes() {
  if (trained_) return classes_trained(plan_.info.classes, plan_.preprocessing.untrained_classes);
  if (!has_classes(Split::train)) return {};
  return classes_seen(plan_.info.classes, [&](const auto& visit) { visit_classes(Split::train, visit); });
}

Unseen DocumentSet::unseen(Split split) {
  const std::int64_t examples = plan_.rows(split).size();
  if (!has_classes(split)) return {.examples = examples};
  return examples_unseen(seen_classes(), examples, [&](const auto& visit) { visit_classes(split, visit); });
}

std::unique_ptr<TokenBatches> DocumentSet::batches(Split split, const std::vector<float>& class_weights,
                                                   const Delivery& delivery) const {
  if (!plan_.has(split)) throw DataError(fmt::format("{}: has no group '{}'", settings_.path, name_of(split)));
  const std::size_t home = *plan_.home[static_cast<std::size_t>(split)];
  return std::make_unique<DocumentBatches>(store_->stream(home), plan_.documents[home], plan_.rows(split),
                                           settings_.context, delivery.inputs, class_weights);
}

std::unique_ptr<BatchSource> DocumentSet::train(const SourceOptions& options) {
  return make_token_source(settings_, options, plan_.info.train,
                           batches(Split::train, options.class_weights, options.delivery));
}

std::unique_ptr<EvaluationSource> DocumentSet::evaluate(Split split, int rank, int size, Index batch_size,
                                                        const Delivery& delivery) {
  return std::make_unique<TokenPass>(part_of(plan_.rows(split).size(), rank, size), batch_size,
                                     batches(split, {}, delivery));
}

std::unique_ptr<EvaluationSource> DocumentSet::training_part(int part, int parts, Index batch_size,
                                                             const std::vector<float>& class_weights,
                                                             const Delivery& delivery) {
  return std::make_unique<TokenPass>(part_of(plan_.info.train, part, parts), batch_size,
                                     batches(Split::train, class_weights, delivery));
}

std::unique_ptr<Dataset> DocumentSet::fold_view(const Fold&) const {
  require_folds_possible(settings_, SetKind::tokens, plan_.info.resident);
  return nullptr;  // not reached: sets of tokens have no folds
}

}  // namespace

std::unique_ptr<Dataset> open_document_set(const DataSettings& settings, const NodeShare& share,
                                           const Preprocessing* trained) {
  return std::make_unique<DocumentSet>(settings, share, trained);
}

DatasetInfo inspect_document_set(const DataSettings& settings, const hdf5::File& file) {
  DocumentPlan plan = plan_documents(file, settings, nullptr);
  TokenStore::foresee(plan.schema, settings, plan.info);
  return plan.info;
}

}  // namespace unisono::data
