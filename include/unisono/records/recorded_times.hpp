#pragma once

#include <span>
#include <string>
#include <vector>

#include "unisono/comm/communicator.hpp"

// Times of events, as files of JSON lines: what a run records of its gradients and messages, and what a simulation
// follows. Readers throw DataError for a file that is missing or empty, or for a line that is not as they say, and name
// the key of the config that asks for the file.

namespace unisono::records {

/// When a rank computed a gradient, in seconds since training began.
struct GradientTime {
  int rank = 0;
  double begin = 0, seconds = 0;
};

/// Lines {"rank": 0, "begin": 0.25, "seconds": 0.125}.
void write_gradient_times(const std::string& path, std::span<const GradientTime> times);
/// \return the seconds of each rank's gradients, in their order; `begin` may be missing
std::vector<std::vector<double>> read_gradient_times(const std::string& path, const std::string& key);

/// Lines {"from": 0, "to": 3, "tag": 12, "seconds": 0.375}, ordered by their seconds.
void write_message_times(const std::string& path, std::span<const comm::Arrival> times);
std::vector<comm::Arrival> read_message_times(const std::string& path, const std::string& key);

/// Lines {"seconds": 3600}. \return ordered
std::vector<double> read_failure_times(const std::string& path, const std::string& key);

/// Lines {"rank": 7, "seconds": 60}. \return seconds by rank, 0 where no line names the rank
std::vector<double> read_start_times(const std::string& path, const std::string& key);

}  // namespace unisono::records
