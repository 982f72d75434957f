#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unisono/data/dataset.hpp"
#include "unisono/experiment/config.hpp"
#include "unisono/models/model.hpp"

namespace unisono {

/// What a rank's memory goes to.
struct MemoryPart {
  std::string what;
  std::int64_t bytes = 0;
};

struct MemoryContext {
  const Config& config;
  const Model& model;
  const DatasetInfo& data;
  int ranks = 1;
  std::int64_t process_bytes = 0;  ///< resident before any of this: code, MPI, HDF5
};

/// The peak of rank 0, which has the checkpoints on top of what the others have.
std::vector<MemoryPart> predict_memory(const MemoryContext& context);

std::int64_t sum(const std::vector<MemoryPart>& parts);

}  // namespace unisono
