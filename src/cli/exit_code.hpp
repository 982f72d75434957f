#pragma once

#include "unisono/session/run.hpp"

namespace unisono::cli {

/// The exit code for a run's result. \throws TrainingError if the run diverged
inline ExitCode exit_code_of(const session::RunResult& result) {
  switch (result.status) {
    case session::RunStatus::complete:
    case session::RunStatus::already_complete:
      return ExitCode::success;
    case session::RunStatus::interrupted:
    case session::RunStatus::stopped:
      return ExitCode::interrupted;
    case session::RunStatus::diverged:
      break;
  }
  throw session::TrainingError(result.message);
}

}  // namespace unisono::cli
