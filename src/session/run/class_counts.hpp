#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "unisono/comm/communicator.hpp"
#include "unisono/models/model.hpp"
#include "unisono/records/class_figures.hpp"

namespace unisono::session {

/// Counts what a classifier predicts of this rank's examples. Where examples are to be ranked, it keeps their scores: a
/// float for each of two classes' examples, K for more classes.
class ClassCounts final : public models::PredictionReader {
 public:
  struct Wish {
    bool cells = false;    ///< the whole confusion matrix
    bool ranking = false;  ///< areas under the curves
  };
  ClassCounts(const records::ClassReading& reading, Wish wish);

  void read(View rows, View answers, View scores) override;

  /// The figures of all ranks' examples. A rank holds the scores of all examples for one class at a time. Collective.
  /// \return nothing if the answers of some examples are no classes (targets other than 0 and 1)
  std::optional<records::ClassificationFigures> figures(comm::Communicator& group);

 private:
  void keep_scores(View row, std::int32_t label, const float* score);
  std::vector<records::RankingFigures> rank_two(comm::Communicator& group);
  std::vector<records::RankingFigures> rank_more(comm::Communicator& group);

  records::ClassReading reading_;
  Wish wish_;
  records::ClassificationFigures figures_;
  bool are_classes_ = true;
  std::vector<float> negative_, positive_;  ///< scores of the examples of two classes
  std::vector<std::int32_t> labels_;        ///< [n] of more classes
  std::vector<float> rows_;                 ///< [n, K]
};

}  // namespace unisono::session
