#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "unisono/data/dataset.hpp"
#include "unisono/models/model.hpp"
#include "unisono/settings/config.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::session {

/// One item of a rank's predicted memory.
struct MemoryItem {
  std::string what;
  std::int64_t bytes = 0;
  bool once = false;  ///< whether all ranks of one process have it together
};

/// The run whose memory is predicted, of which each rank holds the whole model, or rows of it. For the stages of
/// pipelines see StagePlan.
struct MemoryContext {
  const settings::Config& config;
  models::Model& model;
  kernels::Backend& backend;  ///< a new backend, whose scratch memory nothing else has used
  const data::DatasetInfo& data;
  int ranks = 1, rank = 0;
  bool one_node = false;  ///< whether all ranks are on one node, and share memory
  std::shared_ptr<parallel::RowHolding> rows =
      nullptr;  ///< rows that the strategy gives to this rank; null: all of the model
  const strategies::Strategy& strategy;
  std::int64_t process_bytes = 0;  ///< resident memory before anything is allocated: code, MPI, HDF5
  /// That a pass may take which measures the kernels' own memory; 0: that is estimated.
  std::int64_t most_tried_bytes = std::int64_t{1} << 30;
};

/// The largest number of examples of a micro-batch that a rank has.
Index largest_part(const settings::Config& config, int ranks);

/// The most micro-batches of a step that a replica has, where it has whole ones.
int micro_batches_of_replica(const settings::Config& config, int replicas);

/// The examples that a rank evaluates at once, at most.
Index evaluation_batch(const settings::Config& config, const data::DatasetInfo& data, int replicas);

/// The examples in a rank's memory: the node's shared copy, of which a rank touches all pages in time if it reads
/// inputs, or a rank's own part.
std::int64_t examples_bytes(const settings::Config& config, const data::DatasetInfo& data, int ranks,
                            bool reads_inputs = true);

/// Batches in memory for each source: one in use, two prepared.
inline constexpr Index kPrefetchedBatches = 3;

/// Predicts a rank's peak memory, if all ranks see the run's folder (otherwise rank 0 needs a copy of a whole
/// checkpoint). Runs a pass over a few random examples to measure the kernels' own memory; collective only if the model
/// reduces over several ranks.
std::vector<MemoryItem> predict_memory(const MemoryContext& context);

/// Predicts what all ranks together take in one process, as simulated ones do, apart from what the process has already.
std::int64_t predict_memory_of_all(const MemoryContext& context);

/// What a run adds to a process that has only read its config, measured on small models: code pages, the stacks of
/// threads, HDF5's caches.
inline constexpr std::int64_t kRunningBytes = std::int64_t{2} << 20;

/// A forward and a backward pass over random examples, whose results are forgotten: for what can be asked of the
/// backend, or of the model's groups, afterwards. Collective only if the model reduces over several ranks.
void try_pass(models::Model& model, kernels::Backend& backend, const data::DatasetInfo& data, Index batch);

/// An estimate of the kernels' own memory without a pass: a layer's transposed inputs, and for a convolution the
/// gradients of parts of the batch.
std::int64_t estimated_scratch_bytes(const models::Model& model, Index batch);

/// How many vectors of g's size a replica needs, at most, to sum gradients reproducibly.
std::int64_t reproducible_vectors(const settings::Config& config, int replicas);

/// The total bytes of a prediction.
std::int64_t sum(const std::vector<MemoryItem>& parts);

}  // namespace unisono::session
