#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unisono/data/dataset.hpp"
#include "unisono/experiment/config.hpp"
#include "unisono/models/model.hpp"

namespace unisono::experiment {

/// What a rank's memory goes to.
struct MemoryItem {
  std::string what;
  std::int64_t bytes = 0;
};

struct MemoryContext {
  const Config& config;
  models::Model& model;
  kernels::Backend& backend;
  const data::DatasetInfo& data;
  int ranks = 1, rank = 0;
  const strategies::Division* division = nullptr;  ///< of the model
  const strategies::Strategy& strategy;
  std::int64_t process_bytes = 0;  ///< resident before any of this: code, MPI, HDF5
};

/// How many examples of a micro-batch the largest part of a rank has.
Index largest_part(const Config& config, int ranks);

/// The peak of a rank that sees the run's folder: where not all of them do, rank 0 copies all of a checkpoint. A pass
/// over a few random examples shows what the kernels take for themselves; not collective where the model reduces over
/// this rank alone.
std::vector<MemoryItem> predict_memory(const MemoryContext& context);

std::int64_t sum(const std::vector<MemoryItem>& parts);

}  // namespace unisono::experiment
