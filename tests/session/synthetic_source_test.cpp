#include "unisono/session/synthetic_source.hpp"

#include <catch2/catch.hpp>

namespace unisono::session {
namespace {

TEST_CASE("the ranks' parts of the micro-batches make up the step", "[synthetic_source]") {
  const models::ModelInputs inputs{
      .features = {.channels = 2, .height = 3, .width = 1}, .classes = 4, .target_size = 0};
  constexpr int kRanks = 3;
  Index examples = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    SyntheticSource source(inputs, {.rank = rank, .size = kRanks, .batch_size = 11, .micro_batches = 2, .seed = 1});
    Index step = 0;
    for (int micro = 0; micro < 2; ++micro) {
      const data::Batch batch = source.next();
      CHECK(batch.global_size == 11);
      CHECK(batch.last_of_step == (micro == 1));
      CHECK(static_cast<Index>(batch.features.size()) == 6 * batch.size);
      CHECK(static_cast<Index>(batch.labels.size()) == batch.size);
      CHECK(batch.targets.empty());
      for (const auto label : batch.labels) CHECK((label >= 0 && label < 4));
      step += batch.size;
    }
    CHECK(source.next().rank_step_size == step);
    examples += step;
  }
  CHECK(examples == 11);
}

TEST_CASE("steps come again from memory, without end", "[synthetic_source]") {
  const models::ModelInputs inputs{
      .features = {.channels = 1, .height = 1, .width = 1}, .classes = 0, .target_size = 1};
  SyntheticSource source(inputs, {.rank = 0, .size = 1, .batch_size = 2, .seed = 1});
  const float first = source.next().features[0];
  CHECK(source.next().features[0] != first);
  source.next();
  source.next();
  const data::Batch again = source.next();
  CHECK(again.features[0] == first);
  CHECK(again.targets.size() == 2);
  CHECK(again.labels.empty());
}

}  // namespace
}  // namespace unisono::session
