#include "pipeline/schedules.hpp"

#include <algorithm>

#include "all_schedules.hpp"

namespace unisono::parallel {
namespace {

/// The most flights of a stage at a time, in micro-batches × chunks.
///   naive 1; gpipe m; 1f1b min(m, S−s)
///   interleaved      min(vm, (v−1)g + 2(S−s) − 1)            g: the largest of interleaved_groups; S where S divides m
///   zero_bubble      min(m, S)
int formula_flights(PipelineSchedule schedule, int stages, int chunks, int micro_batches, int stage) {
  switch (schedule) {
    case PipelineSchedule::naive:
      return 1;
    case PipelineSchedule::gpipe:
      return micro_batches;
    case PipelineSchedule::interleaved: {
      const int group = interleaved_groups(stages, micro_batches).front();
      return std::min(chunks * micro_batches, (chunks - 1) * group + 2 * (stages - stage) - 1);
    }
    case PipelineSchedule::zero_bubble:
      return std::min(micro_batches, stages);
    default:
      return std::min(micro_batches, stages - stage);
  }
}

// All orders of F, B and W, and some that are equal.
constexpr PassSeconds kSeconds[] = {{1, 1, 1}, {1, 2, 1}, {1, 1, 2}, {2, 1, 1}, {1, 2, 3},        {1, 3, 2},
                                    {3, 1, 2}, {3, 2, 1}, {2, 3, 1}, {2, 1, 3}, {0.37, 0.5, 0.4}, {1e-4, 2e-4, 3e-3}};

double simulated(const PipelineCase& one, const PassSeconds& seconds) {
  return simulate(one.program(), equal_costs(one.stages, one.chunks, seconds)).seconds;
}

}  // namespace

TEST_CASE("programs of equal stages are as long as their schedule's formula says", "[pipeline]") {
  for (const PipelineCase& one : all_pipeline_cases()) {
    INFO(one.text());
    const Program program = one.program();
    for (const PassSeconds& seconds : kSeconds) {
      const auto formula = formula_seconds(one.schedule, one.stages, one.chunks, one.micro_batches, seconds);
      if (one.micro_batches >= one.stages) REQUIRE(formula);
      if (!formula) continue;
      const Simulation simulation = simulate(program, equal_costs(one.stages, one.chunks, seconds));
      // Sums of some hundred terms: far below 1e-9.
      REQUIRE(simulation.seconds == Approx(*formula).epsilon(1e-9).margin(0));
    }
  }
}

TEST_CASE("formulas by numbers: S = 4, m = 8", "[pipeline]") {
  const PassSeconds seconds{1, 2, 1};
  const auto length = [&](PipelineSchedule schedule, int chunks, int m) {
    return formula_seconds(schedule, 4, chunks, m, seconds);
  };
  CHECK(length(PipelineSchedule::naive, 1, 8) == 8 * 4 * 4.0);
  CHECK(length(PipelineSchedule::gpipe, 1, 8) == (8 + 3) * 4.0);
  CHECK(length(PipelineSchedule::one_forward_one_backward, 1, 8) == (8 + 3) * 4.0);
  CHECK(length(PipelineSchedule::interleaved, 2, 8) == (8 + 1.5) * 4.0);
  CHECK(length(PipelineSchedule::zero_bubble, 1, 8) == 8 * 4 + 3 * (1 + 2 - 1.0));
  CHECK_FALSE(length(PipelineSchedule::interleaved, 2, 3));
  CHECK_FALSE(length(PipelineSchedule::zero_bubble, 1, 3));
}

TEST_CASE("ZB-H1 has the bubble (S−1)(F + max(0, B−W)) unless F is the shortest pass", "[pipeline]") {
  for (const PassSeconds& seconds : kSeconds) {
    const auto [f, b, w] = seconds;
    const double bubble = simulated({PipelineSchedule::zero_bubble, 4, 1, 8}, seconds) - 8 * seconds.sum();
    const double of_last_stage = f + std::max(0.0, b - w);
    if (f >= std::min(b, w)) {
      CHECK(bubble == Approx(3 * of_last_stage).epsilon(1e-9));
    } else {  // S flights do not fill the time until the first stage's first gradient
      CHECK(bubble == Approx(3 * std::max(b, of_last_stage)).epsilon(1e-9));
    }
  }
}

TEST_CASE("flights are as many as the formula says", "[pipeline]") {
  for (const PipelineCase& one : all_pipeline_cases()) {
    const Program program = one.program();
    for (int stage = 0; stage < one.stages; ++stage) {
      INFO(one.text() << ", stage " << stage);
      REQUIRE(peak_of_flights(program, stage) ==
              formula_flights(one.schedule, one.stages, one.chunks, one.micro_batches, stage));
    }
  }
}

TEST_CASE("interleaved flights where S divides m and m is at least 2S", "[pipeline]") {
  for (int stages = 1; stages <= 8; ++stages) {
    for (int chunks = 2; chunks <= 4; ++chunks) {
      for (int stage = 0; stage < stages; ++stage) {
        CHECK(formula_flights(PipelineSchedule::interleaved, stages, chunks, 2 * stages, stage) ==
              (chunks - 1) * stages + 2 * (stages - stage) - 1);
      }
    }
  }
}

TEST_CASE("fewer micro-batches than stages are simulated: never shorter than one's way there and back", "[pipeline]") {
  const PassSeconds seconds{1, 1, 1};
  CHECK(simulated({PipelineSchedule::interleaved, 8, 2, 1}, seconds) == Approx(8 * 3));
  // Its last gradient of weights ends the step; those of the other stages come while it travels.
  CHECK(simulated({PipelineSchedule::zero_bubble, 8, 1, 1}, seconds) == Approx(8 * 2 + 1));
}

TEST_CASE("evaluation has the length of its forward passes", "[pipeline]") {
  for (int chunks = 1; chunks <= 3; ++chunks) {
    for (int stages = 1; stages <= 8; ++stages) {
      for (int m = stages; m <= 20; ++m) {
        const Simulation simulation =
            simulate(forward_program(stages, chunks, m), equal_costs(stages, chunks, {3, 1, 1}));
        REQUIRE(simulation.seconds == Approx(3 * (m + (stages - 1.0) / chunks)).epsilon(1e-9));
        REQUIRE(simulation.stages.front().flights == 0);
      }
    }
  }
}

}  // namespace unisono::parallel
