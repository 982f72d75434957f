#include "unisono/session/run_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

namespace unisono::session {
namespace {

/// A vector in a checkpoint's group "optimizer": the optimizer's, or one of the strategy's StateVectors.
struct StateOfRank {
  std::string name;
  Buffer* values;
  std::shared_ptr<const Holding> holding;
  bool common;           ///< the same on all ranks, even if other vectors differ between ranks
  bool adds_up = false;  ///< see StateVector
};

std::vector<StateOfRank> vectors_of(const ModelParts& parts, TrainingParts& training) {
  std::vector<StateOfRank> vectors;
  if (training.method) {
    for (optim::OptimizerState& own : training.method->state()) {
      vectors.push_back({own.name, &own.values, parts.held.state, true});
    }
  } else if (training.optimizer) {
    for (optim::OptimizerState& own : training.optimizer->state()) {
      vectors.push_back({own.name, &own.values, parts.held.state, false});
    }
  }
  for (parallel::StrategyVector& kept : training.vectors) {
    const bool statistics = kept.vector.of == parallel::StateOf::statistics;
    if (statistics && parts.model->statistics_layout().size() == 0) continue;
    const bool common = kept.vector.scope == parallel::StateScope::common;
    vectors.push_back({kept.vector.name, &kept.values, statistics ? parts.held.statistics : parts.held.parameters,
                       common, kept.vector.adds_up});
  }
  return vectors;
}

bool states_are_local(const ModelParts& parts) {
  const auto vectors = parts.strategy->state_vectors();
  const bool kept = std::any_of(vectors.begin(), vectors.end(), [](const parallel::StateVector& vector) {
    return vector.scope != parallel::StateScope::common;
  });
  return parts.grid.data().size() > 1 && (kept || parts.strategy->optimizer_state_is_local());
}

/// The groups of a checkpoint from which this rank reads a vector.
std::vector<std::string> groups_of(const StateOfRank& own, const ModelParts& parts, const StoredCheckpoint& stored) {
  const std::string& vector = own.name;
  if (own.common) return {optimizer_group(0, vector)};
  if (keeps_states_apart(parts, stored)) return {optimizer_group(parts.grid.data().rank(), vector)};
  std::vector<std::string> groups;
  groups.reserve(static_cast<std::size_t>(stored.optimizer_states));
  for (int state = 0; state < stored.optimizer_states; ++state) groups.push_back(optimizer_group(state, vector));
  return groups;
}

}  // namespace

StoredVector parameters_of(ModelParts& parts) {
  return stored_vector("parameters", parts.held.parameters, parts.parameters);
}

StoredVector statistics_of(ModelParts& parts) {
  return stored_vector("statistics", parts.held.statistics, parts.statistics);
}

bool keeps_states_apart(const ModelParts& parts, const StoredCheckpoint& stored) {
  return states_are_local(parts) && stored.optimizer_states == parts.grid.data().size() && stored.seen_by_all;
}

StoredVectors state_of(ModelParts& parts, TrainingParts& training) {
  StoredVectors state = {parameters_of(parts), statistics_of(parts)};
  if (training.average) {
    for (const StoredVector& vector : training.average->state()) state.push_back(vector);
  }
  const bool local = states_are_local(parts);
  for (int rank = 0; rank < (local ? parts.grid.data().size() : 1); ++rank) {
    for (const StateOfRank& own : vectors_of(parts, training)) {
      if (own.common && rank > 0) continue;
      state.push_back(stored_vector(optimizer_group(rank, own.name), own.holding, *own.values));
      if (!local || own.common) continue;
      state.back().of = rank == parts.grid.data().rank() ? ValuesOf::this_replica : ValuesOf::another_replica;
    }
  }
  return state;
}

void require_same_vectors(const ModelParts& parts, TrainingParts& training, const StoredCheckpoint& stored) {
  std::map<std::string, const ParameterLayout*> vectors;
  for (const StateOfRank& own : vectors_of(parts, training)) {
    vectors[own.name] = &own.holding->layout();
  }
  require_same_model(stored.path, parts.model->layout(), parts.model->statistics_layout());
  if (training.average && !stored.header.averaged) {
    throw CheckpointError(fmt::format(
        "{}: holds no averaged weights: resume without train.weight_average, or start a new run with --output DIR",
        stored.path));
  }
  require_same_optimizer(stored.path, vectors);
}

namespace {

/// \param folder prefix of the groups in the checkpoint: "", or that of the averages
void restore_from(const std::string& folder, ModelParts& parts, const StoredCheckpoint& stored) {
  read_vector(parts.grid.all(), stored, {folder + "parameters"}, parameters_of(parts));
  read_vector(parts.grid.all(), stored, {folder + "statistics"}, statistics_of(parts));
}

/// Values that are the mean of those of the stored ranks become this rank's share of their sum.
void share_sum(const ModelParts& parts, const StoredCheckpoint& stored, MutableView values) {
  const auto ranks = static_cast<float>(parts.grid.data().size());
  parts.backend->axpby(static_cast<float>(stored.optimizer_states) / ranks, values, 0, values);
}

}  // namespace

void restore_model(ModelParts& parts, const StoredCheckpoint& stored) {
  restore_from(applied_folder(stored.header), parts, stored);
}

void restore_state(ModelParts& parts, TrainingParts& training, const StoredCheckpoint& stored) {
  restore_from("", parts, stored);
  if (training.average) training.average->restore(stored);
  for (const StateOfRank& own : vectors_of(parts, training)) {
    read_vector(parts.grid.all(), stored, groups_of(own, parts, stored),
                stored_vector(own.name, own.holding, *own.values));
    if (own.adds_up && !keeps_states_apart(parts, stored)) share_sum(parts, stored, own.values->view());
  }
  parts.strategy->restore(stored.header.strategy);
  if (training.method) return training.method->restore(stored.header.method);
  if (training.optimizer) training.optimizer->set_steps(stored.header.optimizer_steps);
}

}  // namespace unisono::session
