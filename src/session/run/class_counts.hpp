#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
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
    bool cells = false;        ///< the whole confusion matrix
    bool predictions = false;  ///< figures of probabilities; the others below need it, too
    bool ranking = false;      ///< areas under the curves
    bool curves = false;       ///< the curves; only with their areas
    bool threshold = false;    ///< of two classes
  };
  ClassCounts(const records::ClassReading& reading, Wish wish);

  bool wants_predictions() const override { return wish_.predictions; }
  void read(View rows, View answers, View scores) override;

  /// The figures of all ranks' examples. A rank holds the scores of all examples for one class at a time. Collective.
  /// \return nothing if the answers of some examples are no classes (targets other than 0 and 1)
  std::optional<records::ClassificationFigures> figures(comm::Communicator& group);
  /// The threshold of all ranks' examples: see records::best_threshold. Collective. \pre it was wished for
  std::optional<records::ChosenThreshold> threshold(comm::Communicator& group, std::string_view metric) const;

 private:
  void keep_scores(View row, std::int32_t label, const float* score);
  void rank_more(comm::Communicator& group);

  records::ClassReading reading_, without_threshold_;
  Wish wish_;
  records::ClassificationFigures figures_;
  bool are_classes_ = true;
  std::vector<float> negative_, positive_;                  ///< scores of the examples of two classes
  std::vector<float> negative_outputs_, positive_outputs_;  ///< the second class's outputs for them
  std::vector<std::int32_t> labels_;                        ///< [n] of more classes
  std::vector<float> rows_;                                 ///< [n, K]
};

}  // namespace unisono::session
