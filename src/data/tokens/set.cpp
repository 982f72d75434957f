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
#include "tokens/schema.hpp"
#include "tokens/sources.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/resources.hpp"
#include "unisono/data/tokenizer.hpp"

namespace unisono::data {
namespace {

/// Where the tokens of each group lie among those of all groups in memory, in bytes; the last one is the end.
std::array<std::size_t, 4> places_of(const TokenSchema& schema) {
  std::array<std::size_t, 4> places{};
  for (std::size_t i = 0; i < schema.groups.size(); ++i) {
    const auto tokens = static_cast<std::size_t>(schema.groups[i] ? schema.groups[i]->tokens : 0);
    places[i + 1] = places[i] + aligned_bytes(tokens * token_width(schema.vocabulary));
  }
  return places;
}

std::string text_of(const TokenizerParts& parts) {
  return fmt::format("the tokenizer '{}'", name_of(parts.kind, kTokenizers));
}

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
  void choose_reader(Agreement& agreement);
  void load(const hdf5::File& file, Agreement& agreement);
  void take_tokenizer(const Preprocessing* trained);
  std::int64_t windows(Split split) const;
  WindowWriter writer(Split split, const Delivery& delivery) const;

  DataSettings settings_;
  NodeShare share_;
  TokenSchema schema_;
  DatasetInfo info_;
  Preprocessing preprocessing_;
  std::optional<NodeMemory> memory_;
  std::array<TokenStream, 3> streams_;               ///< by group of the file
  std::array<std::optional<TokenRange>, 3> ranges_;  ///< by Split
  std::vector<std::int64_t> occurrences_;            // always empty
};

TokenSet::TokenSet(const DataSettings& settings, const NodeShare& share, const Preprocessing* trained)
    : settings_(settings), share_(share) {
  Agreement agreement(share_);
  std::optional<hdf5::File> file;
  agreement.all_do([&] {
    file.emplace(open_set_file(settings_));
    schema_ = read_token_schema(*file);
    // validation_fraction refers to the training set; this set may be another one.
    if (trained != nullptr && schema_.group(Split::validation)) settings_.validation_fraction = 0;
    check_settings(settings_, schema_);
    ranges_ = token_ranges(schema_, settings_, trained != nullptr);
    info_ = token_info(*file, schema_, settings_, ranges_, trained != nullptr);
    take_tokenizer(trained);
    info_.token_bytes = token_bytes_of(preprocessing_.tokenizer);
  });
  choose_reader(agreement);
  if (info_.resident) {
    load(*file, agreement);
    return;
  }
  agreement.all_do([&] {
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      if (schema_.groups[i]) streams_[i] = TokenStream(*file, schema_, *schema_.groups[i]);
    }
  });
}

TokenSet::TokenSet(const TokenSet& whole)
    : settings_(whole.settings_),
      share_(whole.share_),
      schema_(whole.schema_),
      info_(whole.info_),
      preprocessing_(whole.preprocessing_),
      streams_(whole.streams_),
      ranges_(whole.ranges_) {}

/// Another text must be made of the tokens that the model knows.
void TokenSet::take_tokenizer(const Preprocessing* trained) {
  if (trained == nullptr) {
    preprocessing_.tokenizer = schema_.tokenizer;
    preprocessing_.known = true;
    return;
  }
  preprocessing_ = *trained;
  const auto &there = schema_.tokenizer, &known = trained->tokenizer;
  if (there == nullptr || known == nullptr || *there == *known) return;
  throw DataError(fmt::format(
      "{}: was imported with {}, but the training set with {}, or with another vocabulary; import the text again with "
      "--tokenizer-from and the training set",
      settings_.path, text_of(*there), text_of(*known)));
}

/// In memory if the tokens need at most half of what is free on every node. Collective.
void TokenSet::choose_reader(Agreement& agreement) {
  const auto bytes = static_cast<std::int64_t>(places_of(schema_).back());
  const std::int64_t available = agreement.smallest(available_memory_bytes().value_or(0));
  info_.resident =
      settings_.reader == Reader::resident || (settings_.reader == Reader::automatic && bytes <= available / 2);
  info_.bytes_per_node = info_.resident ? bytes : 0;
}

/// Reads the tokens into memory that the ranks of a node share. Collective.
void TokenSet::load(const hdf5::File& file, Agreement& agreement) {
  const auto places = places_of(schema_);
  memory_.emplace(share_, places.back());
  const bool shared = agreement.smallest(memory_->shared() || share_.node_size == 1 ? 1 : 0) == 1;
  if (!shared) info_.bytes_per_node = agreement.largest(info_.bytes_per_node * share_.node_size);
  agreement.all_do([&] {
    memory_->take_own();
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      const auto& group = schema_.groups[i];
      if (!group) continue;
      std::byte* const tokens = memory_->data() + places[i];
      const Range part = memory_->part(group->tokens);
      read_tokens(file, schema_, *group, part, tokens);
      streams_[i] = TokenStream(tokens, token_width(schema_.vocabulary), group->tokens);
    }
  });
  memory_->complete();
}

std::int64_t TokenSet::windows(Split split) const {
  return split == Split::train ? info_.train : split == Split::validation ? info_.validation : info_.test;
}

WindowWriter TokenSet::writer(Split split, const Delivery& delivery) const {
  const auto& range = ranges_[static_cast<std::size_t>(split)];
  if (!range) throw DataError(fmt::format("{}: has no group '{}'", settings_.path, name_of(split)));
  return {{.stream = streams_[range->group], .first = range->first, .count = range->count},
          settings_.context,
          delivery.inputs};
}

void refuse_class_weights(const std::vector<float>& weights, const std::string& path) {
  if (weights.empty()) return;
  throw ConfigError(fmt::format("train.class_weights: {} holds tokens, which have no classes; remove it", path));
}

std::unique_ptr<BatchSource> TokenSet::train(const SourceOptions& options) {
  refuse_class_weights(options.class_weights, settings_.path);
  const bool is_fixed = settings_.partition == Partition::fixed;
  const Schedule schedule(info_.train, options, is_fixed);
  const auto number = is_fixed && options.size > 1 ? static_cast<std::uint32_t>(1 + options.rank) : 0U;
  return std::make_unique<WindowSource>(schedule, writer(Split::train, options.delivery), settings_.context,
                                        settings_.shuffle, options, number);
}

std::unique_ptr<EvaluationSource> TokenSet::evaluate(Split split, int rank, int size, Index batch_size,
                                                     const Delivery& delivery) {
  return std::make_unique<WindowPass>(part_of(windows(split), rank, size), batch_size, writer(split, delivery),
                                      settings_.context, stride_of(settings_));
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
  return std::make_unique<TokenSet>(settings, share, trained);
}

DatasetInfo inspect_token_set(const DataSettings& settings, const hdf5::File& file) {
  const TokenSchema schema = read_token_schema(file);
  check_settings(settings, schema);
  const auto ranges = token_ranges(schema, settings, false);
  DatasetInfo info = token_info(file, schema, settings, ranges, false);
  const auto bytes = static_cast<std::int64_t>(places_of(schema).back());
  info.resident = settings.reader == Reader::resident ||
                  (settings.reader == Reader::automatic && bytes <= available_memory_bytes().value_or(0) / 2);
  info.bytes_per_node = info.resident ? bytes : 0;
  return info;
}

}  // namespace unisono::data
