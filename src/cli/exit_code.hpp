#pragma once

#include "unisono/experiment/run.hpp"

namespace unisono::cli {

/// The exit code for a run's result. \throws TrainingError if the run diverged
inline ExitCode exit_code_of(const experiment::RunResult& result) {
  switch (result.status) {
    case experiment::RunStatus::complete:
    case experiment::RunStatus::already_complete:
      return ExitCode::success;
    case experiment::RunStatus::interrupted:
    case experiment::RunStatus::stopped:
      return ExitCode::interrupted;
    case experiment::RunStatus::diverged:
      break;
  }
  throw experiment::TrainingError(result.message);
}

}  // namespace unisono::cli
