#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cooccurrence/pair_table.hpp"
#include "import/spill.hpp"

namespace unisono::data {

/// Sorted runs of sums in a file, which are merged when they are read.
class PairRuns {
 public:
  /// \param beside path of the output: the file is made next to it
  explicit PairRuns(const std::string& beside) : file_(beside) {}

  /// \param sums ascending by place, each place once
  void add(std::span<const PairSum> sums);
  std::int64_t size() const { return static_cast<std::int64_t>(runs_.size()); }

  /// Visits the merged sums of all runs, ascending by place, each place once. \param memory_bytes for all buffers; each
  /// run has at least 4 KiB
  void for_each(std::uint64_t memory_bytes, const std::function<void(const PairSum&)>& visit);

 private:
  SpillFile file_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> runs_;  ///< where each begins and ends in the file
};

}  // namespace unisono::data
