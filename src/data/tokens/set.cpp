#include <fmt/format.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "order/schedule.hpp"
#include "set/agreement.hpp"
#include "set/external.hpp"
#include "set/fold.hpp"
#include "set/form.hpp"
#include "tokens/documents.hpp"
#include "tokens/schema.hpp"
#include "tokens/sources.hpp"
#include "tokens/store.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/data/tokenizer.hpp"

namespace unisono::data {
namespace {

/// A set of tokens: a text, of which each example is a window of T tokens. It is held in memory, once per node, or read
/// from the file through the system's cache.
class TokenSet final : public Dataset {
 public:
  TokenSet(const DataSettings& settings, const NodeShare& share, const Preprocessing* trained);
  /// A view of the same tokens.
  explicit TokenSet(const TokenSet& whole);

  const DatasetInfo& info() const override { return info_; }
  const Preprocessing& preprocessing() const override { return preprocessing_; }
  const std::vector<std::string>& class_names() const override { return preprocessing_.class_names; }
  const std::vector<std::int64_t>& occurrences() override { return occurrences_; }
  Unseen unseen(Split split) override { return {.examples = windows(split)}; }
  std::unique_ptr<BatchSource> train(const SourceOptions& options) override;
  std::unique_ptr<EvaluationSource> evaluate(Split split, int rank, int size, Index batch_size,
                                             const Delivery& delivery) override;
  std::unique_ptr<EvaluationSource> training_part(int part, int parts, Index batch_size,
                                                  const std::vector<float>& class_weights,
                                                  const Delivery& delivery) override;
  std::unique_ptr<Dataset> fold_view(const Fold& fold) const override;
  std::unique_ptr<Dataset> view() const override { return std::make_unique<TokenSet>(*this); }

 private:
  void check_evaluated() const;
  std::int64_t windows(Split split) const;
  std::unique_ptr<TokenBatches> batches(Split split, Index stride, const Delivery& delivery) const;

  DataSettings settings_;
  NodeShare share_;
  TokenSchema schema_;
  DatasetInfo info_;
  Preprocessing preprocessing_;
  std::shared_ptr<const TokenStore> store_;
  std::array<std::optional<TokenRange>, 3> ranges_;  ///< by Split
  std::vector<std::int64_t> occurrences_;            // always empty
};

/// \throws ConfigError for settings that do not fit windows of a text
void check_window_settings(const DataSettings& settings, const TokenSchema& schema) {
  check_settings(settings, schema);
  if (settings.split_by != SplitBy::rows) return;
  throw ConfigError(
      fmt::format("data.split_by = \"rows\": {} holds the tokens of a text, whose end is held out for validation; "
                  "remove it, or set it to \"auto\"",
                  schema.path));
}

TokenSet::TokenSet(const DataSettings& settings, const NodeShare& share, const Preprocessing* trained)
    : settings_(settings), share_(share) {
  Agreement agreement(share_);
  std::optional<hdf5::File> file;
  agreement.all_do([&] {
    file.emplace(open_set_file(settings_));
    schema_ = read_token_schema(*file);
    // validation_fraction refers to the training set; this set may be another one.
    if (trained != nullptr && schema_.group(Split::validation)) settings_.validation_fraction = 0;
    trained == nullptr ? check_window_settings(settings_, schema_) : check_settings(settings_, schema_);
    ranges_ = token_ranges(schema_, settings_, trained != nullptr);
    info_ = token_info(*file, schema_, settings_, ranges_, trained != nullptr);
    preprocessing_ = text_preprocessing(schema_, trained);
    info_.token_bytes = token_bytes_of(preprocessing_.tokenizer);
    if (share_.rank == 0) check_documents(*file, schema_);
  });
  store_ = std::make_shared<const TokenStore>(*file, schema_, settings_, share_, info_);
  if (trained == nullptr) agreement.all_do([&] { check_evaluated(); });
}

/// What is evaluated is read from a file for the first time after an epoch, or at the end of the training. One pass
/// over it, which all ranks share, finds a number that is no token's before that. Those that are trained on are found
/// in the first epoch.
void TokenSet::check_evaluated() const {
  for (const Split split : {Split::validation, Split::test}) {
    const auto& range = ranges_[static_cast<std::size_t>(split)];
    if (!range) continue;
    const Range part = part_of(range->count, share_.rank, share_.size);
    store_->stream(range->group).check({range->first + part.first, range->first + part.last});
  }
}

TokenSet::TokenSet(const TokenSet& whole)
    : settings_(whole.settings_),
      share_(whole.share_),
      schema_(whole.schema_),
      info_(whole.info_),
      preprocessing_(whole.preprocessing_),
      store_(whole.store_),
      ranges_(whole.ranges_) {}

std::int64_t TokenSet::windows(Split split) const {
  return split == Split::train ? info_.train : split == Split::validation ? info_.validation : info_.test;
}

std::unique_ptr<TokenBatches> TokenSet::batches(Split split, Index stride, const Delivery& delivery) const {
  const auto& range = ranges_[static_cast<std::size_t>(split)];
  if (!range) throw DataError(fmt::format("{}: has no group '{}'", settings_.path, name_of(split)));
  const TokenText text{.stream = store_->stream(range->group), .first = range->first, .count = range->count};
  return std::make_unique<Windows>(text, settings_.context, stride, delivery.inputs);
}

void refuse_class_weights(const std::vector<float>& weights, const std::string& path) {
  if (weights.empty()) return;
  throw ConfigError(fmt::format("train.class_weights: {} holds tokens, which have no classes; remove it", path));
}

std::unique_ptr<BatchSource> TokenSet::train(const SourceOptions& options) {
  refuse_class_weights(options.class_weights, settings_.path);
  auto text = batches(Split::train, settings_.context, options.delivery);
  if (settings_.windows == WindowPlaces::consecutive) {
    return make_token_source(settings_, options, info_.train, std::move(text));
  }
  // The last window that has a label for each of its tokens begins T + 1 tokens before the end.
  const std::int64_t places = ranges_[static_cast<std::size_t>(Split::train)]->count - settings_.context;
  return make_token_source(settings_, options, info_.train, std::move(text), places);
}

std::unique_ptr<EvaluationSource> TokenSet::evaluate(Split split, int rank, int size, Index batch_size,
                                                     const Delivery& delivery) {
  return std::make_unique<TokenPass>(part_of(windows(split), rank, size), batch_size,
                                     batches(split, stride_of(settings_), delivery));
}

std::unique_ptr<EvaluationSource> TokenSet::training_part(int part, int parts, Index batch_size,
                                                          const std::vector<float>& class_weights,
                                                          const Delivery& delivery) {
  refuse_class_weights(class_weights, settings_.path);
  return evaluate(Split::train, part, parts, batch_size, delivery);
}

std::unique_ptr<Dataset> TokenSet::fold_view(const Fold&) const {
  require_folds_possible(settings_, SetKind::tokens, info_.resident);
  return nullptr;  // not reached: sets of tokens have no folds
}

}  // namespace

std::unique_ptr<Dataset> open_token_set(const DataSettings& settings, const NodeShare& share,
                                        const Preprocessing* trained) {
  bool documents = false;
  Agreement(share).all_do(
      [&] { documents = has_document_examples(read_token_schema(open_set_file(settings)), trained); });
  if (documents) return open_document_set(settings, share, trained);
  return std::make_unique<TokenSet>(settings, share, trained);
}

DatasetInfo inspect_token_set(const DataSettings& settings, const hdf5::File& file) {
  const TokenSchema schema = read_token_schema(file);
  if (has_document_examples(schema, nullptr)) return inspect_document_set(settings, file);
  check_window_settings(settings, schema);
  DatasetInfo info = token_info(file, schema, settings, token_ranges(schema, settings, false), false);
  TokenStore::foresee(schema, settings, info);
  return info;
}

}  // namespace unisono::data
