#include "tokens/store.hpp"

#include <fmt/format.h>

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

void choose_reader(const TokenSchema& schema, const DataSettings& settings, std::int64_t available, DatasetInfo& info) {
  const auto bytes = static_cast<std::int64_t>(places_of(schema).back());
  info.resident =
      settings.reader == Reader::resident || (settings.reader == Reader::automatic && bytes <= available / 2);
  info.bytes_per_node = info.resident ? bytes : 0;
}

}  // namespace

TokenStore::TokenStore(const hdf5::File& file, const TokenSchema& schema, const DataSettings& settings,
                       const NodeShare& share, DatasetInfo& info) {
  Agreement agreement(share);
  choose_reader(schema, settings, agreement.smallest(available_memory_bytes().value_or(0)), info);
  if (info.resident) {
    load(file, schema, share, agreement, info);
    return;
  }
  agreement.all_do([&] {
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      if (schema.groups[i]) streams_[i] = TokenStream(file, schema, *schema.groups[i]);
    }
  });
}

/// Reads the tokens into memory that the ranks of a node share. Collective.
void TokenStore::load(const hdf5::File& file, const TokenSchema& schema, const NodeShare& share, Agreement& agreement,
                      DatasetInfo& info) {
  const auto places = places_of(schema);
  memory_.emplace(share, places.back());
  const bool shared = agreement.smallest(memory_->shared() || share.node_size == 1 ? 1 : 0) == 1;
  if (!shared) info.bytes_per_node = agreement.largest(info.bytes_per_node * share.node_size);
  agreement.all_do([&] {
    memory_->take_own();
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      const auto& group = schema.groups[i];
      if (!group) continue;
      std::byte* const tokens = memory_->data() + places[i];
      const Range part = memory_->part(group->tokens);
      read_tokens(file, schema, *group, part, tokens);
      streams_[i] = TokenStream(tokens, token_width(schema.vocabulary), group->tokens);
    }
  });
  memory_->complete();
}

void TokenStore::foresee(const TokenSchema& schema, const DataSettings& settings, DatasetInfo& info) {
  choose_reader(schema, settings, available_memory_bytes().value_or(0), info);
}

/// Another text must be made of the tokens that the model knows.
Preprocessing text_preprocessing(const TokenSchema& schema, const Preprocessing* trained) {
  if (trained == nullptr) {
    Preprocessing own;
    own.tokenizer = schema.tokenizer;
    own.known = true;
    return own;
  }
  const auto &there = schema.tokenizer, &known = trained->tokenizer;
  if (there == nullptr || known == nullptr || *there == *known) return *trained;
  const std::string own = text_of(*there), trained_on = text_of(*known);
  throw DataError(fmt::format(
      "{}: was imported with {}, but the training set with {}{}; import the text again with --tokenizer-from and the "
      "training set",
      schema.path, own, trained_on, own == trained_on ? ", which has other tokens" : ""));
}

}  // namespace unisono::data
