#pragma once

#include "unisono/tensor/features.hpp"

namespace unisono::kernels::cuda {

class CudaBackend;

/// Rows of a set in the memory of a GPU, as the set stores them.
class KeptRows final : public KeptFeatures {
 public:
  /// Copies the rows. Waits for the copy.
  KeptRows(CudaBackend& backend, const StoredFeatures& features);

  const StoredFeatures& original() const { return original_; }
  const Buffer& rows() const { return rows_; }
  const Buffer& mean() const { return mean_; }
  const Buffer& factor() const { return factor_; }
  void load(std::span<const std::uint64_t> examples, std::span<const Movement> movements, MutableView x) override;

 private:
  CudaBackend& backend_;
  StoredFeatures original_;
  Buffer rows_;           ///< bytes as the set stores them
  Buffer mean_, factor_;  ///< as in StoredFeatures
};

}  // namespace unisono::kernels::cuda
