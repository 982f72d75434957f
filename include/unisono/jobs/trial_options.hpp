#pragma once

#include <string>

#include "unisono/records/run_folder.hpp"

namespace unisono::jobs {

/// What a search, a cross-validation or a study is asked to do in addition to its config.
struct TrialOptions {
  std::string output = {};  ///< its folder; empty: runs/<name>-search, runs/<name>-cross-validation, studies/<name>
  records::Existing existing = records::Existing::refuse;
};

}  // namespace unisono::jobs
