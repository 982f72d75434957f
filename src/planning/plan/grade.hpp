#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "plan/prediction.hpp"

namespace unisono::planning {

/// What a run's summary says of its steps. Seconds are those of as many examples as a step of all ranks has.
struct Happened {
  std::string folder = {}, device = {};
  Ranks ranks = {};
  int threads = 1;
  double computing = 0, exchange = 0, other = 0;  ///< gradient and update; messages and waiting; input and the rest
  double bubble = 0;                              ///< waiting for other stages of a pipeline
  double step() const { return computing + exchange + bubble + other; }
  double examples_per_second = 0;
  double memory_bytes = 0;  ///< of the largest rank
};

/// \param batch examples of a step of all ranks \throws CheckpointError where the folder has no summary of steps,
/// ConfigError where hosts had different numbers of ranks
Happened read_happened(const std::string& run_folder, double batch);

/// A prediction beside what happened, part by part.
class Grade {
 public:
  Grade(const Prediction& predicted, const Happened& happened, const std::string& cpu);
  /// A table, and what a reader must know of it.
  std::string text() const;
  /// As a run folder has it: prediction.json.
  nlohmann::ordered_json json() const;

 private:
  struct Part {
    std::string name, unit;
    double predicted, happened;  ///< predicted: −1 where it is not
  };
  std::vector<Part> parts_;
  std::string title_, note_;
};

}  // namespace unisono::planning
