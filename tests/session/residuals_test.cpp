// What compressed gradients have not sent yet, on other numbers of ranks.
#include <catch2/catch.hpp>
#include <cmath>

#include "expect.hpp"
#include "sample_checkpoint.hpp"
#include "scratch_folder.hpp"
#include "small_runs.hpp"
#include "unisono/session/model_parts.hpp"
#include "unisono/session/run_state.hpp"

namespace unisono::session {
namespace {

const models::ModelInputs kInputs{.features = {2, 1, 1}, .classes = 2};

/// A rank's vectors of a run whose gradients are compressed.
class ResidualHolder {
 public:
  explicit ResidualHolder(comm::Communicator& world)
      : world_(world),
        log_(world.rank(), false),
        place_(world),
        parts_({world, place_, log_}, config_, kInputs),
        training_(parts_, config_) {
    parts_.initialise(1);
  }

  MutableView residual() { return training_.vectors[0].values.view(); }
  void write(const std::string& path) {
    CheckpointHeader header = testing::sample_header(testing::SampleModel());
    header.config = settings::effective_config(config_);
    header.inputs = kInputs;
    testing::write_checkpoint(world_, path, header, state_of(parts_, training_));
  }
  void restore(const std::string& path) { restore_state(parts_, training_, open_checkpoint(world_, path)); }

 private:
  comm::Communicator& world_;
  Log log_;
  NodePlace place_;
  const settings::Config config_ = testing::perceptron("none.h5", {"strategy.compression.kind=\"bf16\""});
  ModelParts parts_;
  TrainingParts training_;
};

/// Of the value i on a rank, in a place that holds a parameter.
float unsent(Index i, int rank) { return 0.01F * static_cast<float>(i + 1) * static_cast<float>(rank * rank - 2); }

/// The sums over the ranks of what is restored on some ranks from a checkpoint.
std::vector<float> restored(const std::string& path, int ranks) {
  std::vector<float> sums;
  comm::run_as_threads(ranks, [&](comm::Communicator& world) {
    ResidualHolder holder(world);
    holder.restore(path);
    std::vector<float> own(holder.residual().begin(), holder.residual().end());
    world.allreduce_sum(own);
    if (world.is_root()) sums = own;
  });
  return sums;
}

TEST_CASE("residuals keep their sum on another number of ranks, and their bits on the same", "[residuals]") {
  const testing::ScratchFolder folder;
  for (const int writers : {1, 3, 4}) {
    const std::string path = folder.path(std::to_string(writers) + ".h5");
    std::vector<double> sums;
    comm::run_as_threads(writers, [&](comm::Communicator& world) {
      ResidualHolder holder(world);
      const MutableView residual = holder.residual();
      if (world.is_root()) sums.resize(residual.size());
      // Only places of parameters are kept: the layers' padding is 0.
      for (std::size_t i = 0; i < 12; ++i) {
        residual[i] = unsent(static_cast<Index>(i), world.rank());
        if (!world.is_root()) continue;
        for (int rank = 0; rank < writers; ++rank) sums[i] += static_cast<double>(unsent(static_cast<Index>(i), rank));
      }
      holder.write(path);
      holder.restore(path);
      for (std::size_t i = 0; i < 12; ++i) EXPECT(residual[i] == unsent(static_cast<Index>(i), world.rank()));
    });
    for (const int readers : {1, 2, 3, 4, 5}) {
      INFO(writers << " ranks, then " << readers);
      const std::vector<float> after = restored(path, readers);
      REQUIRE(after.size() == sums.size());
      // At most four values below 1.2 are added up, divided and multiplied, and at most five of these added up.
      for (std::size_t i = 0; i < sums.size(); ++i) CHECK(std::abs(after[i] - sums[i]) <= 12 * 0x1p-24 * 4 * 1.2);
    }
  }
}

}  // namespace
}  // namespace unisono::session
