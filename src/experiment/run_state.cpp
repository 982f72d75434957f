#include "run_state.hpp"

#include <algorithm>
#include <span>

#include "checkpoint_header.hpp"

namespace unisono {
namespace {

constexpr int kRoot = 0, kTag = 71;

using Vectors = std::vector<std::vector<float>>;

bool states_are_local(const ModelParts& parts) {
  return parts.world.size() > 1 && parts.strategy->optimizer_state_is_local();
}

void copy(View from, std::vector<float>& to) { to.assign(from.begin(), from.end()); }

Vectors mean_of(const std::vector<Vectors>& ranks) {
  Vectors mean = ranks.front();
  for (std::size_t i = 0; i < mean.size(); ++i) {
    for (std::size_t k = 0; k < mean[i].size(); ++k) {
      double sum = 0;
      for (const Vectors& rank : ranks) sum += rank[i][k];
      mean[i][k] = static_cast<float>(sum / static_cast<double>(ranks.size()));
    }
  }
  return mean;
}

void broadcast(Communicator& world, MutableView values) { world.broadcast(std::as_writable_bytes(values), kRoot); }

/// The root's copy, then everybody's.
void broadcast_from(Communicator& world, const std::vector<float>* from, MutableView to) {
  if (from != nullptr) std::copy(from->begin(), from->end(), to.begin());
  broadcast(world, to);
}

void restore_own_states(ModelParts& parts, TrainingParts& training, const std::optional<Checkpoint>& checkpoint) {
  auto& own = training.optimizer->state();
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (!parts.world.is_root()) {
      parts.world.receive(std::as_writable_bytes(own[i].values.view()), kRoot, kTag);
      continue;
    }
    for (int rank = 1; rank < parts.world.size(); ++rank) {
      parts.world.send(std::as_bytes(View(checkpoint->optimizer[static_cast<std::size_t>(rank)][i])), rank, kTag);
    }
    std::copy(checkpoint->optimizer[0][i].begin(), checkpoint->optimizer[0][i].end(), own[i].values.data());
  }
}

void restore_common_state(ModelParts& parts, TrainingParts& training, const std::optional<Checkpoint>& checkpoint) {
  Vectors common;
  if (checkpoint && !checkpoint->optimizer.empty()) common = mean_of(checkpoint->optimizer);
  auto& own = training.optimizer->state();
  for (std::size_t i = 0; i < own.size(); ++i) {
    broadcast_from(parts.world, parts.world.is_root() ? &common[i] : nullptr, own[i].values.view());
  }
}

CheckpointHeader broadcast_header(Communicator& world, const std::optional<Checkpoint>& checkpoint) {
  const std::string json = world.broadcast_text(world.is_root() ? to_json(checkpoint->header) : "");
  CheckpointHeader header = header_from_json(json);
  header.config = world.broadcast_text(world.is_root() ? checkpoint->header.config : "");
  return header;
}

}  // namespace

CheckpointLayout checkpoint_layout(const ModelParts& parts, const TrainingParts& training) {
  CheckpointLayout layout{
      .parameters = parts.model->layout(), .statistics = parts.model->statistics_layout(), .optimizer = {}};
  for (const OptimizerState& state : training.optimizer->state()) layout.optimizer.push_back(state.name);
  return layout;
}

void copy_state(ModelParts& parts, TrainingParts& training, Checkpoint* checkpoint) {
  const bool local = states_are_local(parts);
  auto& own = training.optimizer->state();
  if (checkpoint == nullptr) {
    for (OptimizerState& state : own) {
      if (local) parts.world.send(std::as_bytes(View(state.values.view())), kRoot, kTag);
    }
    return;
  }
  copy(parts.parameters.view(), checkpoint->parameters);
  copy(parts.statistics.view(), checkpoint->statistics);
  checkpoint->optimizer.resize(own.empty() ? 0 : (local ? static_cast<std::size_t>(parts.world.size()) : 1));
  for (std::size_t rank = 0; rank < checkpoint->optimizer.size(); ++rank) {
    Vectors& vectors = checkpoint->optimizer[rank];
    vectors.resize(own.size());
    for (std::size_t i = 0; i < own.size(); ++i) {
      vectors[i].resize(static_cast<std::size_t>(own[i].values.size()));
      if (rank == kRoot) {
        copy(own[i].values.view(), vectors[i]);
      } else {
        parts.world.receive(std::as_writable_bytes(MutableView(vectors[i])), static_cast<int>(rank), kTag);
      }
    }
  }
}

CheckpointHeader restore_state(ModelParts& parts, TrainingParts& training,
                               const std::optional<Checkpoint>& checkpoint) {
  Communicator& world = parts.world;
  CheckpointHeader header = broadcast_header(world, checkpoint);
  broadcast_from(world, checkpoint ? &checkpoint->parameters : nullptr, parts.parameters.view());
  broadcast_from(world, checkpoint ? &checkpoint->statistics : nullptr, parts.statistics.view());
  const auto stored = world.max(static_cast<std::int64_t>(checkpoint ? checkpoint->optimizer.size() : 0));
  if (states_are_local(parts) && stored == world.size()) {
    restore_own_states(parts, training, checkpoint);
  } else {
    restore_common_state(parts, training, checkpoint);
  }
  training.optimizer->set_steps(header.optimizer_steps);
  return header;
}

}  // namespace unisono
