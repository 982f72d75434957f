#include "run/kept_models.hpp"

#include <fmt/format.h>

#include "unisono/session/run_state.hpp"

namespace unisono::session {
namespace {

class KeptCheckpoints final : public KeptModels {
 public:
  KeptCheckpoints(CheckpointStore& store, ModelParts& parts, TrainingParts& training)
      : store_(store), parts_(parts), training_(training) {}

  void keep(const CheckpointHeader& header, const StoredVectors& state, bool best) override {
    store_.write(header, state, best);
  }
  void copy(const CheckpointHeader& header, const StoredVectors& state) override {
    store_.copy_to_memory(header, state);
  }
  bool is_busy() const override { return store_.is_writing(); }
  void advance() override { store_.advance(); }
  void finish() override { store_.finish(); }
  void count(CounterSet& counters) const override { store_.count(counters); }
  bool is_lasting() const override { return true; }

  void restore_best(std::int64_t step) override {
    store_.finish();
    const StoredCheckpoint best = open_checkpoint(parts_.grid.all(), store_.best());
    if (best.header.step != step) {
      throw CheckpointError(
          fmt::format("{}: is of step {}, but the best evaluation was after step {}; start over with "
                      "--overwrite, or go on without train.early_stopping",
                      best.path, best.header.step, step));
    }
    store_.go_back_to_best(step);
    parts_.held.parameters->begin(step);
    restore_state(parts_, training_, best);
  }

 private:
  CheckpointStore& store_;
  ModelParts& parts_;
  TrainingParts& training_;
};

/// Keeps copies of the vectors that applying the model needs: θ, running statistics, and their moving averages.
class BestInMemory final : public KeptModels {
 public:
  BestInMemory(ModelParts& parts, bool wanted) : parts_(parts), wanted_(wanted) {}

  void keep(const CheckpointHeader&, const StoredVectors& state, bool best) override {
    if (!best || !wanted_) return;
    copies_.clear();
    for (const StoredVector& vector : state) {
      if (vector.group.starts_with("optimizer/")) continue;  // not needed: no step follows
      copies_.push_back({vector.values, vector.memory, std::vector<float>(vector.values.size())});
      vector.memory->copy(vector.values, copies_.back().values);
    }
  }
  bool is_lasting() const override { return false; }

  void restore_best(std::int64_t step) override {
    parts_.held.parameters->begin(step);
    for (const Copy& copy : copies_) copy.memory->copy(copy.values, copy.vector);
  }

 private:
  struct Copy {
    MutableView vector;  ///< of which `values` is a copy
    Allocator* memory;
    std::vector<float> values;
  };

  ModelParts& parts_;
  bool wanted_;
  std::vector<Copy> copies_;
};

}  // namespace

std::unique_ptr<KeptModels> keep_in(CheckpointStore& checkpoints, ModelParts& parts, TrainingParts& training) {
  return std::make_unique<KeptCheckpoints>(checkpoints, parts, training);
}

std::unique_ptr<KeptModels> keep_in_memory(ModelParts& parts, bool best) {
  return std::make_unique<BestInMemory>(parts, best);
}

}  // namespace unisono::session
