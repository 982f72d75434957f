#include "checkpoint/checkpoint_header.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sample_checkpoint.hpp"

namespace unisono::session {
namespace {

CheckpointHeader header_with_all() {
  CheckpointHeader header = testing::sample_header(testing::SampleModel());
  header.reported_step = 5;
  header.unreported = {.loss = 0.1 + 0.2, .examples = 48, .correct = 7};
  header.best_by = {.criterion = "validation accuracy", .value = 0.75, .step = 6};
  header.stopping_by = {.criterion = "validation loss", .value = 1.0 / 3, .step = 3, .waited = 2};
  header.divergence = {.has_first_loss = true, .first_loss = 2.3, .below_until = 4};
  return header;
}

TEST_CASE("what a run decides by comes back from its checkpoint", "[checkpoint_header]") {
  const CheckpointHeader header = header_with_all(), stored = header_from_json(to_json(header));
  CHECK(stored.reported_step == 5);
  CHECK(stored.unreported.loss == header.unreported.loss);
  CHECK(stored.unreported.examples == 48);
  CHECK(stored.best_by.criterion == "validation accuracy");
  CHECK(stored.best_by.step == 6);
  CHECK(stored.stopping_by.value == 1.0 / 3);
  CHECK(stored.stopping_by.waited == 2);
  CHECK(stored.divergence.first_loss == 2.3);
  CHECK(stored.divergence.below_until == 4);
}

TEST_CASE("a checkpoint of before there was any of that is read with nothing decided", "[checkpoint_header]") {
  auto json = nlohmann::json::parse(to_json(header_with_all()));
  for (const char* key : {"reported_step", "unreported", "best_by", "stopping_by", "first_loss", "below_until"}) {
    REQUIRE(json.erase(key) == 1);
  }
  const CheckpointHeader stored = header_from_json(json.dump());
  CHECK(stored.reported_step == stored.step);
  CHECK(stored.unreported.examples == 0);
  CHECK(stored.has_best);
  CHECK(stored.best_by.criterion.empty());
  CHECK(stored.stopping_by.criterion.empty());
  CHECK_FALSE(stored.divergence.has_first_loss);
}

}  // namespace
}  // namespace unisono::session
