#pragma once

#include <catch2/catch.hpp>

#include "pipeline/schedules.hpp"

namespace unisono::parallel {

/// A program and what it was made of.
struct PipelineCase {
  PipelineSchedule schedule = PipelineSchedule::naive;
  int stages = 1, chunks = 1, micro_batches = 1;
  Program program() const { return make_program(schedule, stages, chunks, micro_batches); }
  std::string text() const {
    return std::string(name_of(schedule, kPipelineSchedules)) + " S = " + std::to_string(stages) +
           ", v = " + std::to_string(chunks) + ", m = " + std::to_string(micro_batches);
  }
};

/// Every schedule for S up to 8, m up to 32, and 2 to 4 chunks where there are any.
inline std::vector<PipelineCase> all_pipeline_cases() {
  std::vector<PipelineCase> cases;
  for (const auto& named : kPipelineSchedules) {
    const bool several = named.value == PipelineSchedule::interleaved;
    for (int chunks = several ? 2 : 1; chunks <= (several ? 4 : 1); ++chunks) {
      for (int stages = 1; stages <= 8; ++stages) {
        for (int m = 1; m <= 32; ++m) cases.push_back({named.value, stages, chunks, m});
      }
    }
  }
  return cases;
}

}  // namespace unisono::parallel
