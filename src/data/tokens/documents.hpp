#pragma once

#include <memory>

#include "tokens/schema.hpp"
#include "unisono/data/dataset.hpp"

namespace unisono::data {

/// Opens a set of texts with classes: each document is an example, of its first T tokens. Collective; see open_dataset.
/// \param trained not null: the set is only evaluated with this trained model; its documents need no classes
/// \throws DataError for documents without a token, or classes that the model does not know
std::unique_ptr<Dataset> open_document_set(const DataSettings& settings, const NodeShare& share,
                                           const Preprocessing* trained);

/// The info of such a set, without reading its tokens.
DatasetInfo inspect_document_set(const DataSettings& settings, const hdf5::File& file);

}  // namespace unisono::data
