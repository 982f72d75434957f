#include "describe/sparse_sets.hpp"

namespace unisono::data {

std::optional<std::string> describe_sparse(const hdf5::File& file) {
  for (const std::string group : {"train", "validation", "test"}) {
    if (file.exists(group + "/features/indptr")) return describe_csr(file);
    if (file.exists(group + "/ratings")) return describe_ratings(file);
    if (file.exists(group + "/sentences")) return describe_text(file);
    if (file.exists(group + "/counts")) return describe_cooccurrences(file);
  }
  return std::nullopt;
}

}  // namespace unisono::data
