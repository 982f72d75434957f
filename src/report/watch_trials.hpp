#pragma once

#include <string>

#include "fold_history.hpp"
#include "trials_history.hpp"

namespace unisono::report {

/// How a search goes, as a few lines of text: how far it is, the best so far, the trials that run, the time left.
std::string picture_of(const SearchHistory& search);
/// How a cross-validation goes: how far it is, its metrics so far, the folds that run, the time left.
std::string picture_of(const ValidationHistory& validation);

}  // namespace unisono::report
