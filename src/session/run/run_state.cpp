#include "unisono/session/run_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "unisono/session/checkpoint_file.hpp"
#include "unisono/tensor/vector_shards.hpp"

namespace unisono::session {
namespace {

/// What a rank has of a vector of θ's size.
enum class Held {
  as_parameters,    ///< what it has of θ
  shard_of_method,  ///< VectorShards
  shard_of_state    ///< StateShards
};

/// A vector in a checkpoint's group "optimizer": the optimizer's, or one of the strategy's StateVectors.
struct StateOfRank {
  std::string name;
  Buffer* values;
  bool common;  ///< the same on all ranks, even if other vectors differ between ranks
  Held held = Held::as_parameters;
  parallel::StateOf of = parallel::StateOf::parameters;
  bool adds_up = false;  ///< see StateVector
};

std::vector<StateOfRank> vectors_of(const ModelParts& parts, TrainingParts& training) {
  std::vector<StateOfRank> vectors;
  if (training.method) {
    for (optim::OptimizerState& own : training.method->state()) {
      vectors.push_back({own.name, &own.values, true, Held::shard_of_method});
    }
  } else if (training.optimizer) {
    const Held held = parts.state_shards ? Held::shard_of_state : Held::as_parameters;
    for (optim::OptimizerState& own : training.optimizer->state()) {
      vectors.push_back({own.name, &own.values, false, held});
    }
  }
  for (parallel::KeptVector& kept : training.vectors) {
    if (kept.vector.of == parallel::StateOf::statistics && parts.model->statistics_layout().size() == 0) continue;
    const bool common = kept.vector.scope == parallel::StateScope::common;
    vectors.push_back(
        {kept.vector.name, &kept.values, common, Held::as_parameters, kept.vector.of, kept.vector.adds_up});
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

HeldVector held_by_stage(std::string group, const ParameterLayout& layout, const ShardMap& map, int rank,
                         Buffer& values) {
  HeldVector vector = divided_vector(std::move(group), layout, map, rank, values.view());
  vector.memory = &values.allocator();
  return vector;
}

/// A shard of a method for the whole training set.
HeldVector held_shard(std::string group, const ModelParts& parts, Buffer& values) {
  const ParameterLayout& layout = parts.model->layout();
  const comm::Communicator& ranks = parts.grid.data();
  HeldVector vector{
      .group = std::move(group), .layout = layout, .values = values.view(), .shards = {}, .common = ranks.size() == 1};
  vector.shards = parts_of(whole_shards(layout), VectorShards(layout.size(), ranks.size()).shard(ranks.rank()));
  return vector;
}

/// The slices of θ, or of this stage's part of it, whose optimizer state this rank keeps.
HeldVector held_slices(std::string group, const ModelParts& parts, Buffer& values) {
  HeldVector vector{.group = std::move(group),
                    .layout = parts.model->layout(),
                    .values = values.view(),
                    .shards = {},
                    .common = false,
                    .memory = &values.allocator()};
  const std::vector<std::size_t> blocks = parts.held_blocks();
  Index begin = 0;  // of the slice, in `values`
  for (const FloatRange& slice : parts.state_shards->ranges_of(parts.grid.data().rank())) {
    for (Shard& one : parts_of(whole_shards(parts.replica->layout()), slice)) {
      one.place.offset += begin;
      one.block = blocks[one.block];
      vector.shards.push_back(std::move(one));
    }
    begin += slice.last - slice.first;
  }
  return vector;
}

}  // namespace

HeldVector held_vector(std::string group, const ModelParts& parts, Buffer& values) {
  const ParameterLayout& layout = parts.model->layout();
  const int rank = parts.grid.all().rank();
  if (parts.stages) return held_by_stage(std::move(group), layout, parts.stages->parameters(), rank, values);
  if (parts.division == nullptr) return whole_vector(std::move(group), layout, values);
  return divided_vector(std::move(group), layout, parts.division->map(), rank, values.view(),
                        parts.division->offsets());
}

HeldVector held_statistics(std::string group, const ModelParts& parts, Buffer& values) {
  const ParameterLayout& layout = parts.model->statistics_layout();
  if (!parts.stages) return whole_vector(std::move(group), layout, values);
  return held_by_stage(std::move(group), layout, parts.stages->statistics(), parts.grid.all().rank(), values);
}

HeldVector statistics_of(ModelParts& parts) { return held_statistics("statistics", parts, parts.statistics); }

HeldVector parameters_of(ModelParts& parts) { return held_vector("parameters", parts, parts.parameters); }

bool keeps_states_apart(const ModelParts& parts, const StoredCheckpoint& stored) {
  return states_are_local(parts) && stored.optimizer_states == parts.grid.data().size() && stored.seen_by_all;
}

namespace {

HeldVector held(const StateOfRank& own, std::string group, const ModelParts& parts) {
  if (own.held == Held::shard_of_method) return held_shard(std::move(group), parts, *own.values);
  if (own.held == Held::shard_of_state) return held_slices(std::move(group), parts, *own.values);
  if (own.of == parallel::StateOf::statistics) return held_statistics(std::move(group), parts, *own.values);
  return held_vector(std::move(group), parts, *own.values);
}

/// Makes a vector that of one replica: its ranks write it, and the others hold none of it.
void keep_apart(HeldVector& vector, bool is_own) {
  vector.common = false;
  if (!is_own) vector.shards.clear();
  for (Shard& shard : vector.shards) shard.copy = 0;
}

}  // namespace

HeldState state_of(ModelParts& parts, TrainingParts& training) {
  HeldState state = {parameters_of(parts), statistics_of(parts)};
  if (training.average) {
    for (const HeldVector& vector : training.average->state()) state.push_back(vector);
  }
  const bool local = states_are_local(parts);
  for (int rank = 0; rank < (local ? parts.grid.data().size() : 1); ++rank) {
    for (const StateOfRank& own : vectors_of(parts, training)) {
      if (own.common && rank > 0) continue;
      state.push_back(held(own, optimizer_group(rank, own.name), parts));
      if (local && !own.common) keep_apart(state.back(), rank == parts.grid.data().rank());
    }
  }
  return state;
}

void require_same_vectors(const ModelParts& parts, TrainingParts& training, const StoredCheckpoint& stored) {
  std::map<std::string, const ParameterLayout*> vectors;
  for (const StateOfRank& own : vectors_of(parts, training)) {
    vectors[own.name] =
        own.of == parallel::StateOf::parameters ? &parts.model->layout() : &parts.model->statistics_layout();
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
    read_vector(parts.grid.all(), stored, groups_of(own, parts, stored), held(own, own.name, parts));
    if (own.adds_up && !keeps_states_apart(parts, stored)) share_sum(parts, stored, own.values->view());
  }
  parts.strategy->restore(stored.header.strategy);
  if (training.method) return training.method->restore(stored.header.method);
  if (training.optimizer) training.optimizer->set_steps(stored.header.optimizer_steps);
}

}  // namespace unisono::session
