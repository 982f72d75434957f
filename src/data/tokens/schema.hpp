#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "unisono/data/dataset.hpp"
#include "unisono/data/hdf5.hpp"
#include "unisono/data/tokenizer.hpp"

namespace unisono::data {

/// One group of a set of tokens.
struct TokenGroup {
  std::string name;
  std::int64_t tokens = 0;
  hdf5::DatasetShape stored = {};
  bool has_documents = false;  ///< whether the file says where documents begin; else the group is one
  std::int64_t documents = 1;
  bool has_labels = false;  ///< whether each document has a class

  std::string path() const { return name + "/tokens"; }
  std::string documents_path() const { return name + "/documents"; }
  std::string labels_path() const { return name + "/labels"; }
};

/// What a file's metadata say of a set of tokens, before its values are read.
struct TokenSchema {
  std::string path;
  std::array<std::optional<TokenGroup>, 3> groups;       ///< by Split
  Index vocabulary = 0;                                  ///< V
  std::shared_ptr<const TokenizerParts> tokenizer = {};  ///< null: the file holds none
  std::vector<std::string> class_names = {};             ///< of documents; empty: these have no classes
  Recipe recipe = {};                                    ///< which columns documents and classes were

  const std::optional<TokenGroup>& group(Split split) const { return groups[static_cast<std::size_t>(split)]; }
};

/// Reads shapes, types and attributes, and checks that they fit together. \throws DataError naming what is wrong
TokenSchema read_token_schema(const hdf5::File& file);

/// Hash of sizes, the tokenizer and of some tokens of each group; see DatasetInfo::identity.
std::uint64_t identity_of(const hdf5::File& file, const TokenSchema& schema);

/// Reads where documents begin, which windows have no need of: a file in which that is wrong is damaged.
/// \throws DataError naming the place
void check_documents(const hdf5::File& file, const TokenSchema& schema);

/// Tokens [first, first + count) of a group, in the order of the text.
struct TokenRange {
  std::size_t group = 0;  ///< of TokenSchema::groups
  std::int64_t first = 0, count = 0;
};

/// The windows of T tokens in a text of N. In training there are ⌊(N − T) / T⌋, so that each may begin up to T − 1
/// tokens later. An evaluation predicts each token but the first once: ⌈(N − 1) / T⌉ windows, of which the last may
/// have fewer than T predictions.
std::int64_t training_windows(std::int64_t tokens, Index context);
/// How many tokens apart the evaluated windows begin.
inline Index stride_of(const DataSettings& settings) {
  return settings.stride > 0 ? settings.stride : settings.context;
}
std::int64_t evaluation_windows(std::int64_t tokens, Index context, Index stride);

/// Which tokens the splits have; with data.validation_fraction, the last ones of the group `train` are for validation.
/// \throws ConfigError, DataError for splits with too few tokens
std::array<std::optional<TokenRange>, 3> token_ranges(const TokenSchema& schema, const DataSettings& settings,
                                                      bool trained);

/// Whether the examples are documents, each with its class, and not windows of a text: as the file says, or as the
/// trained model knows them.
bool has_document_examples(const TokenSchema& schema, const Preprocessing* trained);

/// \throws ConfigError for settings that do not fit sets of tokens
void check_settings(const DataSettings& settings, const TokenSchema& schema);

/// All of the info but where the tokens are held. \param trained whether the training tokens are only evaluated
DatasetInfo token_info(const hdf5::File& file, const TokenSchema& schema, const DataSettings& settings,
                       const std::array<std::optional<TokenRange>, 3>& ranges, bool trained);

}  // namespace unisono::data
