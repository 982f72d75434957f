#pragma once

#include <array>
#include <memory>
#include <optional>

#include "set/agreement.hpp"
#include "tokens/schema.hpp"
#include "tokens/stream.hpp"

namespace unisono::data {

/// The tokens of a file's groups: in memory, once per node, or read from the file through the system's cache.
class TokenStore {
 public:
  /// In memory if the tokens need at most half of what is free on every node, or as data.reader says. Collective.
  /// \param info is told which it is, and how many bytes a node needs \param share must outlive the store
  /// \throws DataError naming the place of a number that is no token's
  TokenStore(const hdf5::File& file, const TokenSchema& schema, const DataSettings& settings, const NodeShare& share,
             DatasetInfo& info);

  /// \param group of TokenSchema::groups
  const TokenStream& stream(std::size_t group) const { return streams_[group]; }

  /// The same choice for this process alone, without reading tokens.
  static void foresee(const TokenSchema& schema, const DataSettings& settings, DatasetInfo& info);

 private:
  void load(const hdf5::File& file, const TokenSchema& schema, const NodeShare& share, Agreement& agreement,
            DatasetInfo& info);

  std::optional<NodeMemory> memory_;
  std::array<TokenStream, 3> streams_;  ///< by group of the file
};

/// How a set's texts are read: as for the trained model or, without one, as the set says.
/// \throws DataError where the set has another tokenizer than the one that the model was trained on
Preprocessing text_preprocessing(const TokenSchema& schema, const Preprocessing* trained);

}  // namespace unisono::data
