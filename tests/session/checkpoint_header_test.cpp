#include "checkpoint/checkpoint_header.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sample_checkpoint.hpp"

namespace unisono::session {
namespace {

CheckpointHeader header_with_all() {
  CheckpointHeader header = testing::sample_header(testing::SampleModel());
  header.reported_step = 5;
  header.unreported = {{.loss = 0.1 + 0.2, .examples = 48, .correct = 7}, {.loss = 1, .examples = 16}};
  header.best_by = {.criterion = "validation accuracy", .value = 0.75, .step = 6};
  header.stopping_by = {.criterion = "validation loss", .value = 1.0 / 3, .step = 3, .waited = 2};
  header.divergence = {.has_first_loss = true, .first_loss = 2.3, .below_until = 4};
  return header;
}

TEST_CASE("what a run decides by comes back from its checkpoint", "[checkpoint_header]") {
  const CheckpointHeader header = header_with_all(), stored = header_from_json(to_json(header));
  CHECK(stored.reported_step == 5);
  REQUIRE(stored.unreported.size() == 2);
  CHECK(stored.unreported[0].loss == header.unreported[0].loss);
  CHECK(stored.unreported[0].examples == 48);
  CHECK(stored.unreported[1].loss == 1);
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
  CHECK(stored.unreported.empty());
  CHECK(stored.has_best);
  CHECK(stored.best_by.criterion.empty());
  CHECK(stored.stopping_by.criterion.empty());
  CHECK_FALSE(stored.divergence.has_first_loss);
}

TEST_CASE("the sum over ranks, as earlier versions stored it, is that of one rank", "[checkpoint_header]") {
  auto json = nlohmann::json::parse(to_json(header_with_all()));
  json["unreported"] = nlohmann::json(json["unreported"][0]);
  const CheckpointHeader stored = header_from_json(json.dump());
  REQUIRE(stored.unreported.size() == 1);
  CHECK(stored.unreported[0].correct == 7);
}

}  // namespace
}  // namespace unisono::session
