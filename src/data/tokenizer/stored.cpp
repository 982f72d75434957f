#include <fmt/format.h>

#include "set/external.hpp"
#include "tokenizer/kinds.hpp"
#include "unisono/base/errors.hpp"

// The group `tokenizer` of a set: its attribute `kind`, and what that kind is made from.

namespace unisono::data {
namespace {

constexpr const char* kGroup = "tokenizer";
constexpr const char* kVocabulary = "tokenizer/vocabulary";
constexpr const char* kMerges = "tokenizer/merges";
constexpr const char* kModel = "tokenizer/model";
constexpr std::uint64_t kMostModelBytes = 256 << 20;

TokenizerKind kind_in(const hdf5::File& file) {
  const std::string where = fmt::format("{}: /{}", file.path(), kGroup);
  if (!file.has_attribute(kGroup, "kind")) throw DataError(where + " has no attribute 'kind'; import the text again");
  const auto kind = file.read_attribute<std::string>(kGroup, "kind");
  for (const auto& one : kTokenizers) {
    if (one.name == kind) return one.value;
  }
  throw DataError(fmt::format("{} is of the kind '{}', which this version does not know", where, kind));
}

std::string read_model(const hdf5::File& file) {
  const hdf5::DatasetShape shape = file.shape(kModel);
  if (shape.type != hdf5::Type::uint8 || shape.extent.size() != 1 || shape.rows() > kMostModelBytes) {
    throw DataError(fmt::format("{}: /{} is not the bytes of a model; import the text again", file.path(), kModel));
  }
  const auto bytes = file.read<std::uint8_t>(kModel);
  return {bytes.begin(), bytes.end()};
}

std::vector<std::string> read_list(const hdf5::File& file, const char* list) {
  if (file.count_strings(list) > static_cast<std::uint64_t>(kMostTokens)) {
    throw DataError(fmt::format("{}: /{} has more than {} entries", file.path(), list, kMostTokens));
  }
  return file.read_strings(list);
}

}  // namespace

void write_tokenizer(hdf5::File& file, const TokenizerParts& parts) {
  file.create_group(kGroup);
  file.write_attribute(kGroup, "kind", std::string(name_of(parts.kind, kTokenizers)));
  if (parts.end_of_text) file.write_attribute(kGroup, "end_of_text", std::int64_t{1});
  if (!parts.vocabulary.empty()) file.write_names(kVocabulary, parts.vocabulary);
  if (!parts.merges.empty()) file.write_names(kMerges, parts.merges);
  if (!parts.model.empty()) file.write(kModel, std::vector<std::uint8_t>(parts.model.begin(), parts.model.end()));
}

bool has_tokenizer(const std::string& path, bool external_files) {
  return open_set_file(path, external_files).exists(kGroup);
}

std::shared_ptr<const TokenizerParts> read_tokenizer(const hdf5::File& file) {
  if (!file.exists(kGroup)) return nullptr;
  TokenizerParts parts{.kind = kind_in(file)};
  if (file.has_attribute(kGroup, "end_of_text")) {
    parts.end_of_text = file.read_attribute<std::int64_t>(kGroup, "end_of_text") != 0;
  }
  if (file.exists(kVocabulary)) parts.vocabulary = read_list(file, kVocabulary);
  if (file.exists(kMerges)) parts.merges = read_list(file, kMerges);
  if (file.exists(kModel)) parts.model = read_model(file);
  return std::make_shared<const TokenizerParts>(std::move(parts));
}

}  // namespace unisono::data
