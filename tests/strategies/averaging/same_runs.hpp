#pragma once

#include <catch2/catch.hpp>

#include "../small_network.hpp"
#include "averaging.hpp"
#include "optimizers.hpp"

// Averaging of a small network with batch norms and dropout, and comparisons of whole runs.

namespace unisono::strategies {

/// Three ranks with uneven parts (7 of 23 examples a step, the last one 2) under Adam, whose state every rank keeps.
inline Training network_training(const std::string& keys) {
  return {.model = small_network(true),
          .strategy = strategy_of("kind = 'averaging', optimizer_state = 'keep', " + keys),
          .optimizer = {.kind = "adam", .learning_rate = 0.02},
          .ranks = 3,
          .batch_size = 7,
          .epochs = 3};
}

/// Whether θ, the running statistics and the optimizer's state have the same bits on every rank.
inline bool same_runs(const std::vector<Outcome>& a, const std::vector<Outcome>& b) {
  bool same = a.size() == b.size();
  for (std::size_t rank = 0; same && rank < a.size(); ++rank) {
    same = a[rank].parameters == b[rank].parameters && a[rank].statistics == b[rank].statistics;
    for (std::size_t i = 0; same && i < a[rank].optimizer_state.size(); ++i) {
      same = std::ranges::equal(a[rank].optimizer_state[i].values.view(), b[rank].optimizer_state[i].values.view());
    }
  }
  return same;
}

/// Stops a training after each of these steps, resumes it, and compares with the whole run.
inline void check_resumes(const Examples& examples, Training training, std::initializer_list<std::int64_t> stops) {
  const auto whole = train(examples, training);
  for (const std::int64_t stop : stops) {
    INFO("stopped after step " << stop);
    training.stop_after = stop;
    const auto stopped = train(examples, training);
    REQUIRE(stopped[0].records.back().step == stop);
    training.stop_after = 1000;
    training.resumed = &stopped;
    CHECK(same_runs(train(examples, training), whole));
    training.resumed = nullptr;
  }
}

}  // namespace unisono::strategies
