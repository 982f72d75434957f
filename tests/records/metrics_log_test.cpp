#include "unisono/records/metrics_log.hpp"

#include <catch2/catch.hpp>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "scratch_folder.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::records {
namespace {

using testing::bytes_of;
using testing::ScratchFolder;

TEST_CASE("a line is in the file as soon as it was written", "[metrics_log]") {
  const ScratchFolder folder;
  MetricsLog log(folder.path("metrics.jsonl"), 0);
  log.write({{"step", 1}, {"loss", 0.5}});
  log.write({{"step", 2}, {"loss", 0.25}});
  CHECK(testing::bytes_of(folder.path("metrics.jsonl")) == "{\"step\":1,\"loss\":0.5}\n{\"step\":2,\"loss\":0.25}\n");
}

TEST_CASE("a resumed run drops the lines of the steps that it makes again, and a line that was cut short",
          "[metrics_log]") {
  const ScratchFolder folder;
  folder.file("m", "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n{\"ste");
  {
    MetricsLog log(folder.path("m"), 2);
    log.write({{"step", 3}, {"again", true}});
  }
  CHECK(testing::bytes_of(folder.path("m")) == "{\"step\":1}\n{\"step\":2}\n{\"step\":3,\"again\":true}\n");
}

TEST_CASE("a reader follows a run that goes on, and leaves a line that is being written", "[metrics_log]") {
  const ScratchFolder folder;
  MetricsReader reader(folder.path(""));
  CHECK_FALSE(reader.next());  // there is no file yet
  MetricsLog log(folder.path("metrics.jsonl"), 0);
  CHECK_FALSE(reader.next());
  log.write({{"event", "train"}, {"step", 1}});
  log.write({{"event", "evaluation"}, {"step", 1}});
  const auto report = reader.next(), evaluation = reader.next();
  REQUIRE((report && evaluation));
  CHECK(report->is_report());
  CHECK_FALSE(evaluation->is_report());
  CHECK(evaluation->fields().dump() == R"({"event":"evaluation","step":1})");
  CHECK_FALSE(reader.next());

  std::ofstream file(folder.path("metrics.jsonl"), std::ios::app);
  file << R"({"step": 2)" << std::flush;
  CHECK_FALSE(reader.next());
  file << "}\ndamaged\n[3]\n" << std::flush;
  CHECK(reader.next()->fields().at("step") == 2);
  CHECK(reader.next()->fields() == nlohmann::ordered_json::object());
  CHECK(reader.next()->fields() == nlohmann::ordered_json::object());
  CHECK_FALSE(reader.next());
}

TEST_CASE("a summary that is missing or damaged is an empty object", "[metrics_log]") {
  const ScratchFolder folder;
  CHECK(read_summary(folder.path("")).empty());
  folder.file("summary.json", "{\"steps\": 3}");
  CHECK(read_summary(folder.path("")).at("steps") == 3);
  folder.file("summary.json", "{\"steps\": ");
  CHECK(read_summary(folder.path("")).empty());
}

TEST_CASE("a full disk is an output error", "[metrics_log]") {
  MetricsLog log("/dev/full", 0);
  CHECK_THROWS_AS(log.write({{"step", 1}}), OutputError);
}

TEST_CASE("metrics and seconds become objects; what is no number becomes null", "[metrics_log]") {
  CHECK(
      to_json(std::vector<models::Metric>{{"loss", std::numeric_limits<double>::quiet_NaN()}, {"accuracy", 0.5, true}})
          .dump() == R"({"loss":null,"accuracy":0.5})");
  const auto json = to_json(Seconds{.compute = 1,
                                    .exposed_communication = 2,
                                    .straggler_wait = 4,
                                    .bubble = 256,
                                    .input = 8,
                                    .optimizer = 16,
                                    .evaluation = 32,
                                    .checkpoint = 64,
                                    .other = 128});
  CHECK(json.at("total") == 511);
  double parts = 0;
  for (const auto& [name, value] : json.items()) parts += name == "total" ? 0 : value.get<double>();
  CHECK(parts == 511);
}

TEST_CASE("a metric is written with or without its split", "[metrics]") {
  using Parsed = std::pair<std::optional<data::Split>, std::string>;
  CHECK(split_and_metric("loss") == Parsed{std::nullopt, "loss"});
  CHECK(split_and_metric("validation.loss") == Parsed{data::Split::validation, "loss"});
  CHECK(split_and_metric("test accuracy") == Parsed{data::Split::test, "accuracy"});
  CHECK(split_and_metric("train.") == Parsed{std::nullopt, "train."});
  CHECK(split_and_metric("validation_loss") == Parsed{std::nullopt, "validation_loss"});
}

}  // namespace
}  // namespace unisono::records
