#pragma once

#include <string>

#include "history.hpp"
#include "trials_history.hpp"

namespace unisono::report {

/// How a run goes, as a few lines of text: how far it is, losses and metrics, speed, time left.
std::string picture_of(const RunHistory& run);

/// "[====      ]  40 %" \param done from 0 to 1
std::string progress_bar(double done);
/// A curve as a line of blocks: "▇▅▃▂▁". \param width at most so many characters
std::string sparkline(const std::vector<double>& values, std::size_t width);

/// Steps that the run is to make in all; 0: it is not known yet.
double planned_steps(const RunHistory& run);
/// Seconds until the last step, at the speed of the last reports; negative: it is not known.
double seconds_left(const RunHistory& run);

/// How a search goes, as a few lines of text: how far it is, the best so far, the trials that run, the time left.
std::string picture_of(const SearchHistory& search);
/// How a study goes: how far it is, each variant's metric so far, the training that runs.
/// \throws CheckpointError saying what is wrong with the folder
std::string picture_of_study(const std::string& folder, const std::string& status);
/// How a cross-validation goes: how far it is, its metrics so far, the folds that run, the time left.
std::string picture_of(const ValidationHistory& validation);

}  // namespace unisono::report
