#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "small_runs.hpp"
#include "unisono/data/import.hpp"
#include "unisono/records/statistics.hpp"

// Verdicts about variants that differ from the serial run by their seeds alone: records/statistics on real runs.

namespace unisono::session {
namespace {

/// The validation accuracies of real serial runs that differ by their seeds alone.
std::vector<double> pool_of_runs(int seeds) {
  const testing::ScratchFolder folder;
  data::make_digits({.train = 200, .validation = 400, .test = 10}, {.path = folder.path("digits.h5")});
  std::vector<double> accuracies;
  const auto self = comm::make_self_communicator();
  Log log(0, false);
  Job job(*self, log);
  for (int seed = 0; seed < seeds; ++seed) {
    const settings::Config config = testing::perceptron(
        folder.path("digits.h5"),
        {"seed=" + std::to_string(seed), "strategy.kind=\"serial\"", "train.epochs=6",
         R"(model.layers=[{kind="flatten"}, {kind="dense", units=12}, {kind="relu"}, {kind="dense", units=10}])"});
    const RunResult result = run(job, *self, config, testing::quiet());
    for (const models::Metric& metric : result.evaluations.at(data::Split::validation)) {
      if (metric.name == "accuracy") accuracies.push_back(metric.value);
    }
  }
  return accuracies;
}

/// Studies whose runs are drawn from a pool, each run at most once in a study.
class Resampling {
 public:
  explicit Resampling(const std::vector<double>& pool) : pool_(pool) {}

  /// Of how many of 200 studies some variant has this verdict. \param planted added to the variants' metrics
  int studies_with(std::initializer_list<records::Verdict> verdicts, std::size_t seeds, std::size_t variants,
                   double planted) {
    int count = 0;
    for (int study = 0; study < 200; ++study) {
      bool found = false;
      for (const records::Judgement& one : records::judge(draw(seeds, variants, planted), 0, true)) {
        found = found || std::ranges::find(verdicts, one.verdict) != verdicts.end();
      }
      count += found ? 1 : 0;
    }
    return count;
  }

 private:
  std::vector<records::Pairs> draw(std::size_t seeds, std::size_t variants, double planted) {
    std::ranges::shuffle(pool_, random_);
    const std::vector<double> serial(pool_.begin(), pool_.begin() + static_cast<std::ptrdiff_t>(seeds));
    std::vector<records::Pairs> pairs;
    for (std::size_t variant = 1; variant <= variants; ++variant) {
      std::vector<double> values;
      for (std::size_t i = 0; i < seeds; ++i) values.push_back(pool_[variant * seeds + i] + planted);
      pairs.push_back({.variant = values, .reference = serial});
    }
    return pairs;
  }

  std::vector<double> pool_;
  std::mt19937_64 random_{7};
};

TEST_CASE("of 200 studies of real runs without a difference, at most 16 say that there is one", "[long][study]") {
  const std::vector<double> pool = pool_of_runs(80);
  const double deviation = records::deviation_of(pool);
  CHECK(records::mean_of(pool) > 0.5);
  CHECK(deviation > 0.005);  // several examples of 400
  Resampling resampling(pool);
  // Each comparison is wrong with a chance of 5 %; Holm's correction keeps it there for seven of them. Of 200 studies
  // more than 16 would then be wrong in 1 of 35 draws of all of them.
  for (const std::size_t seeds : {5, 10}) {
    for (const std::size_t variants : {1, 7}) {
      INFO(seeds << " seeds, " << variants << " variants");
      CHECK(resampling.studies_with({records::Verdict::better, records::Verdict::worse}, seeds, variants, 0) <= 16);
    }
  }
  // A planted difference that is to the seeds' deviation as 0.5 to 0.3.
  const double planted = deviation * 0.5 / 0.3;
  for (const std::size_t seeds : {5, 10, 20}) {
    const double power = records::power_of_pairs(planted, deviation * std::sqrt(2.0), static_cast<std::int64_t>(seeds));
    const double share = resampling.studies_with({records::Verdict::better}, seeds, 1, planted) / 200.0;
    INFO(seeds << " seeds: stated " << power << ", seen " << share);
    // Four deviations of a binomial share, and 5 points since accuracies are not quite normal.
    CHECK(std::abs(share - power) < 4 * std::sqrt(power * (1 - power) / 200) + 0.05);
    if (seeds == 10) CHECK(share >= 0.8);
  }
}

}  // namespace
}  // namespace unisono::session
