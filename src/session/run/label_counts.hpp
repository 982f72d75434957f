#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unisono/comm/communicator.hpp"
#include "unisono/models/model.hpp"
#include "unisono/records/multilabel_figures.hpp"

namespace unisono::session {

/// Counts which of several labels a model predicts of this rank's examples. Where examples are to be ranked, it keeps
/// K probabilities of each.
class LabelCounts final : public models::PredictionReader {
 public:
  /// \param labels K \param ranking whether areas under the curves are wanted \param curves the curves, with their
  /// areas
  LabelCounts(Index labels, bool ranking, bool curves)
      : ranks_(ranking), draws_(curves), figures_{.counts = records::MultilabelCounts(labels)} {}

  bool wants_predictions() const override { return true; }
  void read(View rows, View answers, View scores) override;

  /// The figures of all ranks' examples. A rank holds the probabilities of all examples for one label at a time.
  /// Collective. \param set what was evaluated, for messages \throws DataError, on all ranks, where the targets of some
  /// example are not 0 and 1
  records::MultilabelFigures figures(comm::Communicator& group, const std::string& set);

 private:
  void rank(comm::Communicator& group);

  bool ranks_, draws_;
  bool are_labels_ = true;
  records::MultilabelFigures figures_;
  std::vector<float> probabilities_;   ///< [n, K]
  std::vector<std::uint8_t> targets_;  ///< [n, K]
};

}  // namespace unisono::session
