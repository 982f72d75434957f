#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "unisono/trials/study_analysis.hpp"
#include "unisono/trials/study_plan.hpp"

namespace unisono::trials {
namespace {

using Catch::Matchers::Contains;

/// A config with these variants.
ConfigText config_with(const std::string& variants) {
  return {"study.toml",
          "name = \"s\"\n[data]\npath = \"set.h5\"\n[model]\nkind = \"network\"\nloss = \"softmax_cross_entropy\"\n"
          "layers = [{ kind = \"dense\", units = 10 }]\n[optimizer]\nkind = \"sgd\"\nlearning_rate = 0.1\nmomentum = "
          "0.9\n[train]\n"
          "batch_size = 8\n[strategy]\nkind = \"allreduce\"\n[study]\nseeds = 2\nmargin = 0.01\nvariants = [\n" +
              variants + "\n]\n",
          {}};
}

TEST_CASE("a variant's ranks and threads are ways of their own, with names and folders", "[study]") {
  const auto variants =
      variants_of(config_with("{ ranks = [1, 2] },\n"
                              "{ strategy = { kind = \"averaging\", period = 16 }, ranks = 4, threads = [1, 2] },\n"
                              "{ optimizer.learning_rate = 0.5, name = \"Fast: ½\" },\n"
                              "{ strategy = { kind = \"hogwild\" }, threads = 2 },\n"
                              "{ strategy = { kind = \"hogwild\", threads = 3 } }"),
                  {}, 4);
  REQUIRE(variants.size() == 8);
  CHECK(variants[6].config.strategy.threads == 2);
  CHECK(variants[7].threads() == 3);
  CHECK(variants[0].text() == "serial");
  CHECK(variants[0].folder == "serial");
  CHECK(variants[0].config.strategy.kind == "serial");
  CHECK(variants[0].config.train.threads == 1);
  CHECK(variants[1].text() == "as the config says, 1 rank");
  CHECK(variants[2].ranks == 2);
  CHECK(variants[2].config.strategy.kind == "allreduce");
  CHECK(variants[3].text() == "averaging (period 16), 4 ranks");
  CHECK(variants[3].folder == "averaging-period-16-4-ranks");
  CHECK(variants[4].text() == "averaging (period 16), 4 ranks of 2 threads");
  CHECK(variants[4].cores() == 8);
  CHECK(variants[5].folder == "Fast-1-rank");
  // Of a table without a kind each key is replaced, and the others stay.
  CHECK(variants[5].config.optimizer.learning_rate == 0.5);
  CHECK(settings::effective_config(variants[5].config).find("momentum = 0.9") != std::string::npos);
  CHECK(settings::effective_config(variants[5].config).find("study") == std::string::npos);
}

TEST_CASE("a variant's mistakes are named with its place", "[study]") {
  CHECK_THROWS_WITH(
      variants_of(config_with("{ ranks = 2 }"), {}, 1),
      "study.toml:20:1: study.variants[0]: ranks = 2, but this job has 1 rank: start it with mpirun -n 2, "
      "or ask for fewer");
  CHECK_THROWS_WITH(variants_of(config_with("{}, { train = { batch_size = 0.5 } }"), {}, 1),
                    Contains("study.variants[1]: train.batch_size=0.5"));
  CHECK_THROWS_WITH(variants_of(config_with(""), {}, 1), Contains("the study has no variants"));
  CHECK_THROWS_WITH(variants_of(config_with("{ name = 3 }"), {}, 1), Contains("name is a text"));
  CHECK_THROWS_WITH(variants_of(config_with("{ ranks = [2, 2] }"), {}, 4), Contains("2 is there twice"));
  CHECK_THROWS_WITH(variants_of(config_with("{ output = \"x\" }"), {}, 4), Contains("see --output"));
}

TEST_CASE("a record is the same after it was written and read", "[study]") {
  const StudyRecord record{.variant = "abc",
                           .seed = 7,
                           .message = "",
                           .value = 0.9,
                           .loss = 0.25,
                           .steps = 30,
                           .examples = 720,
                           .seconds = {.compute = 1.5, .evaluation = 0.5},
                           .curve = {{10, 240, 0.5, 0.7}, {30, 720, 1.5, 0.9}},
                           .distance = {.known = true, .different = 3, .relative = 0.125, .largest = 0.5}};
  const nlohmann::json json = to_json(record);
  const StudyRecord again = study_record_from(nlohmann::json::parse(json.dump()));
  CHECK(to_json(again) == json);
  CHECK(std::isnan(again.objective));
  CHECK(std::isnan(again.distance.predictions));
  CHECK(again.training_seconds() == 1.5);
  CHECK_FALSE(study_record_from(to_json(StudyRecord{.variant = "d", .seed = 1, .diverged = true})).distance.known);
}

TEST_CASE("a study makes one training at a time, seed by seed, and none that has a record", "[study]") {
  StudyPlan plan{.name = "s", .folder = "f"};
  const ConfigText text = config_with("{ ranks = 2 }");
  plan.variants = variants_of(text, {}, 2);
  plan.settings = study_of(text, {});
  plan.first_seed = 5;
  StudyProgress progress(plan);
  REQUIRE(progress.trainings().size() == 4);
  progress.add({.variant = plan.variants[1].identity, .seed = 5});
  std::vector<std::string> made;
  while (const auto next = progress.next()) {
    const StudyTraining& training = progress.at(*next);
    made.push_back(plan.run_folder(training));
    progress.started(*next);
    CHECK_FALSE(progress.next());
    CHECK_FALSE(progress.is_complete());
    progress.add({.variant = training.variant->identity, .seed = training.seed});
    progress.ended(*next, {});
  }
  CHECK(progress.is_complete());
  const std::string second = plan.variants[1].folder;
  CHECK(made ==
        std::vector<std::string>{"f/runs/serial/seed-5", "f/runs/serial/seed-6", "f/runs/" + second + "/seed-6"});
}

TEST_CASE("curves are read between their points", "[study]") {
  const std::vector<CurvePoint> curve = {{10, 100, 1, 0.5}, {20, 200, 3, 0.7}, {30, 300, 5, 0.6}};
  CHECK(std::isnan(value_at(curve, &CurvePoint::updates, 9)));
  CHECK(value_at(curve, &CurvePoint::updates, 10) == 0.5);
  CHECK(value_at(curve, &CurvePoint::examples, 150) == Approx(0.6));
  CHECK(value_at(curve, &CurvePoint::seconds, 4) == Approx(0.65));
  CHECK(value_at(curve, &CurvePoint::seconds, 50) == 0.6);
  CHECK(std::isnan(value_at({}, &CurvePoint::seconds, 1)));
  CHECK(seconds_to(curve, 0.6, true) == Approx(2));
  CHECK(seconds_to(curve, 0.4, true) == 1);
  CHECK(std::isnan(seconds_to(curve, 0.8, true)));
  CHECK(seconds_to(curve, 0.55, false) == 1);
}

TEST_CASE("what rounding explains grows with the steps, and not without end", "[study]") {
  const ModelDistance distance{.known = true, .different = 5, .relative = 100 * 0x1p-24};
  CHECK(is_rounding(distance, 100));
  CHECK_FALSE(is_rounding(distance, 99));
  CHECK_FALSE(is_rounding({.known = true, .different = 5, .relative = 2e-4}, 1'000'000));
  CHECK_FALSE(is_rounding({}, 100));
}

TEST_CASE("a study's figures, by hand", "[study]") {
  StudyPlan plan{.name = "s", .folder = "f"};
  const ConfigText text = config_with("{ ranks = 2 }, { train.batch_size = 4, name = \"lost\" }");
  plan.variants = variants_of(text, {}, 2);
  plan.settings = study_of(text, {});
  plan.metric = {data::Split::validation, "accuracy", true};
  plan.first_seed = 1;
  const auto record = [&](std::size_t variant, std::int64_t seed, double value, double seconds) {
    return StudyRecord{.variant = plan.variants[variant].identity,
                       .seed = seed,
                       .value = value,
                       .loss = 1 - value,
                       .steps = 20,
                       .seconds = {.compute = seconds, .evaluation = 100},
                       .curve = {{10, 80, seconds / 2, value / 2}, {20, 160, seconds, value}},
                       .distance = {.known = variant > 0, .different = 1, .relative = 0.5, .classes = 0.25}};
  };
  const std::vector<StudyRecord> records = {record(0, 1, 0.8, 4),
                                            record(1, 1, 0.9, 2),
                                            record(0, 2, 0.84, 4),
                                            record(1, 2, 0.92, 2.4),
                                            {.variant = plan.variants[2].identity, .seed = 1, .diverged = true},
                                            record(2, 2, 0.8, 8)};
  const StudyResult result = analyse(plan, records);
  REQUIRE(result.variants.size() == 3);
  const VariantResult &serial = result.variants[0], &two = result.variants[1], &lost = result.variants[2];
  CHECK(serial.judgement.verdict == records::Verdict::reference);
  CHECK(two.judgement.difference.mean == Approx(0.09));
  CHECK(two.judgement.verdict == records::Verdict::unclear);  // two seeds
  CHECK(lost.judgement.verdict == records::Verdict::diverged);
  CHECK(lost.diverged == 1);
  CHECK(two.seconds == Approx(2.2));
  CHECK(two.speed_up == Approx(4 / 2.2));
  CHECK(two.efficiency == Approx(2 / 2.2));
  CHECK(result.target == Approx(0.82 - 0.01));
  CHECK(serial.reached == 1);
  CHECK(two.reached == 2);
  CHECK(result.updates == 20);
  CHECK(result.seconds == Approx(2));        // the fastest training
  CHECK(serial.at_seconds == Approx(0.41));  // half of the variant: (0.4 + 0.42) / 2
  CHECK(two.loss_difference == Approx(-0.09));
  CHECK(two.classes == 0.25);
  const std::string page = to_markdown(plan, result);
  CHECK_THAT(page, Contains("| diverged for 1 of 2 seeds"));
  CHECK_THAT(page, Contains("1.82 ×"));
  CHECK(to_json(plan, result, records)["trainings"].size() == 6);

  std::vector<StudyRecord> partly = records;
  partly[2].value = std::numeric_limits<double>::quiet_NaN();  // the serial run's, of the second seed
  const StudyResult unknown = analyse(plan, partly);
  CHECK(unknown.variants[1].judgement.verdict == records::Verdict::undefined);
  CHECK(unknown.target == Approx(0.8 - 0.01));
  const std::string without = to_markdown(plan, unknown);
  CHECK_THAT(without, Contains("| 0.8 ± 0 (1 of 2)") && Contains("| undefined for 1 of 2 seeds") && !Contains("nan"));
  const nlohmann::ordered_json way = to_json(plan, unknown, partly)["ways"][1];
  CHECK((way["undefined"] == 1 && way["verdict"] == "undefined" && !way.contains("difference")));
}

}  // namespace
}  // namespace unisono::trials
