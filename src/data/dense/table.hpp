#pragma once

#include <mutex>
#include <optional>

#include "dense/resident.hpp"
#include "order/schedule.hpp"
#include "set/agreement.hpp"
#include "set/fold.hpp"
#include "source/evaluation.hpp"
#include "source/feed.hpp"

namespace unisono::data {

/// An opened set with dense features, or the view of one of its folds.
class Table final : public Dataset {
 public:
  Table(const DataSettings& settings, const NodeShare& share, const Preprocessing* trained);
  /// A view of the same examples.
  explicit Table(const Table& whole);
  /// The view of a fold.
  Table(const Table& whole, const Fold& fold);

  const DatasetInfo& info() const override { return plan_.info; }
  const Preprocessing& preprocessing() const override { return plan_.preprocessing; }
  const std::vector<std::string>& class_names() const override { return plan_.schema.class_names; }
  const std::vector<std::int64_t>& occurrences() override { return occurrences_; }
  std::vector<std::int64_t> class_counts() override;
  std::unique_ptr<BatchSource> train(const SourceOptions& options) override;
  std::unique_ptr<EvaluationSource> evaluate(Split split, int rank, int size, Index batch_size,
                                             const Delivery& delivery) override;
  std::unique_ptr<EvaluationSource> training_part(int part, int parts, Index batch_size,
                                                  const std::vector<float>& class_weights,
                                                  const Delivery& delivery) override;
  std::unique_ptr<Dataset> fold_view(const Fold& fold) const override;
  std::unique_ptr<Dataset> view() const override;

 private:
  void load(Agreement& agreement);
  void fit_normalization(Agreement& agreement);
  void divide(const Fold& fold);
  void encode(const Table& whole);
  const Normalization& normalization() const { return plan_.preprocessing.normalization; }
  bool fixed() const { return settings_.partition == Partition::fixed; }
  BatchStyle style(const GroupSchema& group, std::uint64_t seed) const;
  BatchStyle training_style(const GroupSchema& group, const std::vector<float>& class_weights) const;
  /// A pass over part `part` of `parts` of a split.
  struct Pass {
    Split split;
    int part, parts;
    Index batch_size;
  };
  std::unique_ptr<EvaluationSource> sequential(const Pass& pass, const BatchStyle& style, const Delivery& delivery);
  std::unique_ptr<EvaluationSource> resident_part(Range part, Index batch_size, const BatchStyle& style);
  bool needs_no_conversion(Range part) const;
  const RowBlock& resident_rows(Split split, Range positions);
  const RawTable& raw_table() const;
  std::unique_ptr<Feed> feed(const Schedule& schedule, const SourceOptions& options);

  DataSettings settings_;
  NodeShare share_;
  std::optional<hdf5::File> file_;
  SetPlan plan_;
  std::optional<SharedRows> shared_;
  const GroupBlocks* blocks_ = nullptr;  ///< the rows of all groups in memory; null: streamed, or each rank's own
  OwnRows own_;
  std::shared_ptr<RowConversion> conversion_;  ///< of the last pass over a training part; null: there was none
  std::vector<float> conversion_weights_;      ///< its class weights
  std::vector<std::int64_t> occurrences_;      // always empty for tables

  const Table* whole_ = nullptr;                 ///< of a view: the set that was opened
  std::shared_ptr<const EncodedTable> encoded_;  ///< of a view whose recipe has a fit of its own
  mutable FoldCopies<EncodedTable> encodings_;   ///< of the views of this set
  mutable std::once_flag raw_read_;
  mutable std::optional<RawTable> raw_;
};

}  // namespace unisono::data
