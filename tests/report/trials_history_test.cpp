#include "trials_history.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <sstream>

#include "history.hpp"
#include "scratch_folder.hpp"
#include "sections.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/records/journal.hpp"
#include "watch.hpp"

namespace unisono::report {
namespace {

using nlohmann::json;
using testing::ScratchFolder;

constexpr const char* kConfig = R"(
name = "a"
[data]
path = "a.h5"
[model]
kind = "linear"
[optimizer]
kind = "sgd"
learning_rate = 0.1
[train]
epochs = 4
)";

std::string search_config(const std::string& method, int trials) {
  return std::string(kConfig) + "[search]\nmethod = \"" + method + "\"\ntrials = " + std::to_string(trials) +
         "\n[search.space]\n\"optimizer.learning_rate\" = { log = [1e-3, 1.0] }\n\"train.batch_size\" = [8, 16]\n";
}

/// Writes what a job would.
class Writer {
 public:
  Writer(const ScratchFolder& folder, std::string kind, std::string config, int folds = 0)
      : journal_(folder.path("journal.jsonl")), kind_(std::move(kind)), config_(std::move(config)), folds_(folds) {
    begin();
  }
  void begin() { journal_.append({{"job", kind_}, {"config", config_}, {"folds", folds_}}); }
  void start(const records::TrialRun& training, double at) {
    journal_.append({{"started", to_json(training)}, {"at", at}});
  }
  void end(const records::TrialRun& training, double at, double value,
           records::TrialStatus status = records::TrialStatus::complete) {
    records::TrialResult result{.status = status, .value = value, .larger_is_better = true};
    result.metrics = {{data::Split::validation, "loss", 1 - value, false},
                      {data::Split::validation, "accuracy", value, true}};
    result.epochs = training.epochs > 0 ? training.epochs : 4;
    result.seconds = 1;
    journal_.append({{"ended", to_json(training)}, {"result", to_json(result)}, {"at", at}});
  }

 private:
  records::Journal journal_;  // locked, as that of a running job
  std::string kind_, config_;
  int folds_;
};

TEST_CASE("spans of trainings, over pauses of the job", "[report]") {
  const ScratchFolder folder;
  {
    Writer job(folder, "search", search_config("random", 4));
    job.start({.trial = 0}, 0);
    job.start({.trial = 1}, 0);
    job.end({.trial = 0}, 2, 0.5);
    job.start({.trial = 2}, 2);
    job.begin();  // it was killed
    job.start({.trial = 1}, 0.5);
    job.start({.trial = 2}, 0.5);
    job.end({.trial = 2}, 3, 0.75);
    const TrialsHistory running = read_trials(folder.path(""));
    CHECK(running.status == "running");
    CHECK(running.running() == 1);
    CHECK(running.trainings.back().end == 5);
    CHECK(running.trainings[3].is_running);  // trial 1, once more
    CHECK(running.trainings[3].start == 2.5);
    CHECK(running.seconds >= 5);
  }
  const TrialsHistory job = read_trials(folder.path(""));
  CHECK(job.kind == "search");
  CHECK(job.trainings.size() == 5);
  CHECK(job.ended() == 2);
  CHECK(job.running() == 0);
  CHECK(job.trainings[1].end == 2);  // the last sign of life before the kill
  CHECK(job.at_once() == 2);
  CHECK(job.rows().of_training == std::vector<std::size_t>{0, 1, 0, 0, 1});
  CHECK(job.seconds == 5);
}

TEST_CASE("the journal tells all about a search", "[report]") {
  const ScratchFolder folder;
  {
    Writer job(folder, "search", search_config("random", 8));
    for (int trial = 0; trial < 4; ++trial) {
      job.start({.trial = trial}, trial);
      if (trial < 3) job.end({.trial = trial}, trial + 1, trial == 1 ? 0.9 : 0.5);
    }
    const SearchHistory search = read_search(folder.path(""), {});
    CHECK(search.job.status == "running");
    CHECK(search.metric == "validation accuracy");
    CHECK(search.larger_is_better);
    CHECK(search.plan->best() == 1);
    CHECK(search.value(1) == 0.9);
    CHECK(std::isnan(search.value(3)));
    CHECK(search.steps.size() == 3);
    // Five trainings are left, of a second each, one at a time, of which one has begun.
    CHECK(seconds_left(search) == Approx(5).margin(0.5));
    const std::string picture = picture_of(search);
    CHECK(picture.find("trials 3/8  1 running") != std::string::npos);
    CHECK(picture.find("best validation accuracy       0.9  trial 1") != std::string::npos);
    CHECK(picture.find(" left") != std::string::npos);
  }
  const SearchHistory search = read_search(folder.path(""), {});
  CHECK(search.job.status == "unfinished");
  const SearchTable table = table_of(search);
  CHECK(table.trials == std::vector<std::int64_t>{0, 1, 2});
  REQUIRE(table.columns.size() == 2);
  CHECK(table.columns[0].axis.spacing == plot::Spacing::logarithmic);
  CHECK(table.columns[1].axis.choices == std::vector<std::string>{"8", "16"});
  CHECK(cells_of(search, 1)[0] == search.settings_of(1)[0].second);
}

TEST_CASE("of halving, the time left is that of the steps to come", "[report]") {
  const ScratchFolder folder;
  Writer job(folder, "search",
             std::string(kConfig) +
                 "[search]\nmethod = \"halving\"\ntrials = 4\nreduction_factor = 2\n"
                 "[search.space]\n\"optimizer.learning_rate\" = [0.1, 0.2, 0.3]\n");
  for (int trial = 0; trial < 2; ++trial) {
    job.start({.trial = trial, .epochs = 1}, trial);
    job.end({.trial = trial, .epochs = 1}, trial + 1, 0.1 * trial);
  }
  job.start({.trial = 1, .epochs = 2}, 2);
  const SearchHistory search = read_search(folder.path(""), {});
  // Rungs of 1, 2 and 4 epochs for 4, 2 and 1 trials: 4 + 2 + 2 epochs, of which 2 are done, at a second each.
  CHECK(seconds_left(search) == Approx(6).margin(0.5));
  CHECK(search.steps[1].epochs == 1);
}

TEST_CASE("a trial that failed has no value, and repeats are averaged", "[report]") {
  const ScratchFolder folder;
  Writer job(folder, "search", search_config("random", 3) + "[search.extra]\n");
  CHECK_THROWS_AS(read_search(folder.path(""), {}), ConfigError);

  const ScratchFolder other;
  std::string config = search_config("random", 3);
  config.replace(config.find("trials = 3"), 10, "trials = 3\nrepeats = 2");
  Writer twice(other, "search", config);
  for (const int repeat : {0, 1}) {
    for (const int trial : {0, 1}) {
      twice.start({.trial = trial, .repeat = repeat}, 0);
      const bool fails = trial == 1 && repeat == 1;
      twice.end({.trial = trial, .repeat = repeat}, 1, 0.5 + 0.2 * repeat,
                fails ? records::TrialStatus::diverged : records::TrialStatus::complete);
    }
  }
  const SearchHistory search = read_search(other.path(""), {});
  CHECK(search.value(0) == Approx(0.6));
  CHECK(std::isnan(search.value(1)));
  REQUIRE(search.steps.size() == 2);
  CHECK(std::isnan(search.steps[1].value));
}

TEST_CASE("folds that have ended are known before the cross-validation ends", "[report]") {
  const ScratchFolder folder;
  Writer job(folder, "cross_validation", kConfig, 4);
  for (int fold = 0; fold < 3; ++fold) job.start({.fold = fold}, 0);
  job.end({.fold = 2}, 1, 0.5);
  job.end({.fold = 0}, 2, 0.7);
  const ValidationHistory validation = read_validation(folder.path(""));
  CHECK(validation.job.status == "running");
  REQUIRE(validation.folds.size() == 2);
  CHECK(validation.folds[0].fold == 0);
  CHECK(validation.values("accuracy") == std::vector<double>{0.7, 0.5});
  REQUIRE(validation.figures.size() == 2);
  CHECK(validation.figures[1].interval.mean == Approx(0.6));
  CHECK(validation.figures[1].interval.low < 0.5);
  const std::string picture = picture_of(validation);
  CHECK(picture.find("folds 2/4  1 running") != std::string::npos);
  CHECK(picture.find("mean accuracy                  0.6") != std::string::npos);
}

TEST_CASE("a journal of which a line was changed is refused", "[report]") {
  const ScratchFolder folder;
  folder.file("journal.jsonl", "0123456789abcdef {\"job\":\"search\",\"config\":\"\"}\n");
  CHECK_THROWS_AS(read_trials(folder.path("")), CheckpointError);
}

TEST_CASE("lines of CSV with quotes", "[report]") {
  std::istringstream file("a,\"b,\"\"c\"\"\nd\",\n1,2,3\n\nlast");
  std::vector<std::string> fields;
  REQUIRE(read_csv_line(file, fields));
  CHECK(fields == std::vector<std::string>{"a", "b,\"c\"\nd", ""});
  REQUIRE(read_csv_line(file, fields));
  CHECK(fields == std::vector<std::string>{"1", "2", "3"});
  REQUIRE(read_csv_line(file, fields));
  CHECK(fields == std::vector<std::string>{""});
  REQUIRE(read_csv_line(file, fields));
  CHECK(fields == std::vector<std::string>{"last"});
  CHECK_FALSE(read_csv_line(file, fields));
}

TEST_CASE("classes are pooled from predictions", "[report]") {
  const ScratchFolder folder;
  const std::vector<std::string> names = {"<cat>", "fold", "a,b"}, none;
  const auto three = read_classes(
      folder.file("p.csv", "example,fold,label,p0,p1,p2\n0,1,0,0.5,0.3,0.2\n1,0,2,0.4,0.5,0.1\n2,1,1,0.1,0.8,0.1\n"),
      names);
  REQUIRE(three);
  CHECK(three->names == names);
  CHECK(three->matrix.cell(0, 0) == 1);
  CHECK(three->matrix.cell(2, 1) == 1);
  CHECK(three->matrix.cell(1, 1) == 1);
  const auto margins =
      read_classes(folder.file("m.csv", "example,fold,label,margin1\n0,0,1,0.3\n1,0,0,-2\n2,0,0,3\n"), none);
  REQUIRE(margins);
  CHECK(margins->names.empty());
  CHECK(margins->matrix.cell(1, 1) == 1);
  CHECK(margins->matrix.cell(0, 0) == 1);
  CHECK(margins->matrix.cell(0, 1) == 1);
  const auto one = read_classes(folder.file("o.csv", "example,fold,label,p1\n0,0,1,0.3\n1,0,0,0.2\n"), none);
  REQUIRE(one);
  CHECK(one->matrix.cell(1, 0) == 1);
  CHECK_FALSE(read_classes(folder.file("r.csv", "example,fold,y0\n0,0,1\n"), none));
  CHECK_FALSE(read_classes(folder.file("l.csv", "example,fold,label,p0,p1\n0,0,7,1,2\n"), none));
  CHECK_FALSE(read_classes(folder.path("none.csv"), none));
}

TEST_CASE("tables of earlier versions name the outputs by the classes", "[report]") {
  const ScratchFolder folder;
  const auto three = read_classes(
      folder.file("p.csv", "example,fold,label,<cat>,dog,\"a,b\"\n0,1,0,0.5,0.3,0.2\n1,0,2,0.4,0.5,0.1\n"), {});
  REQUIRE(three);
  CHECK(three->names == std::vector<std::string>{"<cat>", "dog", "a,b"});
  CHECK(three->matrix.cell(2, 1) == 1);
  const auto unnamed = read_classes(folder.file("u.csv", "example,fold,label,output_0,output_1\n0,0,1,1,2\n"), {});
  REQUIRE(unnamed);
  CHECK(unnamed->names.empty());
}

}  // namespace
}  // namespace unisono::report
