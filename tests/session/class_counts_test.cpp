#include "run/class_counts.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "unisono/comm/communicator.hpp"

namespace unisono::session {
namespace {

/// Examples of K classes; the outputs of many are equal.
struct Examples {
  explicit Examples(Index classes) : k(static_cast<std::size_t>(classes)) {
    for (std::size_t i = 0; i < 100; ++i) {
      answers.push_back(static_cast<float>(i * 37 % 101 % k));
      for (std::size_t c = 0; c < k; ++c) {
        const bool own = static_cast<float>(c) == answers.back();
        rows.push_back(static_cast<float>((i * 13 + c * 5) % 8 + (own ? 3 : 0)) / 16);
      }
    }
  }
  std::size_t k;
  std::vector<float> answers, rows;
};

std::map<std::string, double> metrics_on(int ranks, const Examples& examples, bool probabilities) {
  std::map<std::string, double> metrics;
  comm::run_as_threads(ranks, [&](comm::Communicator& world) {
    const auto classes = static_cast<Index>(examples.k);
    ClassCounts counts({.classes = classes, .outputs = classes, .probabilities = probabilities},
                       {.cells = true, .predictions = true, .ranking = true});
    // The last rank has no examples where there are several.
    const auto n = examples.answers.size(), parts = static_cast<std::size_t>(std::max(1, ranks - 1));
    const auto rank = static_cast<std::size_t>(world.rank());
    if (rank < parts) {
      const std::size_t first = rank * n / parts, last = (rank + 1) * n / parts;
      counts.read(View(examples.rows).subspan(first * examples.k, (last - first) * examples.k),
                  View(examples.answers).subspan(first, last - first), {});
    }
    const auto figures = counts.figures(world);
    if (!world.is_root()) return;
    for (const models::Metric& metric : records::metrics_of(*figures)) metrics[metric.name] = metric.value;
  });
  return metrics;
}

TEST_CASE("metrics of classes have the same bits on any number of ranks", "[classes]") {
  for (const Index classes : {2, 5}) {
    for (const bool probabilities : {true, false}) {
      const Examples examples(classes);
      const auto alone = metrics_on(1, examples, probabilities);
      CHECK(alone.size() == (classes == 2 ? 9U : 6U) + (probabilities ? 3U : 0U));
      CHECK((alone.at("auc") > 0.5 && alone.at("auc") < 1));
      CHECK(metrics_on(3, examples, probabilities) == alone);
      CHECK(metrics_on(4, examples, probabilities) == alone);
    }
  }
}

TEST_CASE("finer scores of two classes rank the examples", "[classes]") {
  comm::run_as_threads(1, [](comm::Communicator& world) {
    ClassCounts counts({.classes = 2, .outputs = 2, .probabilities = true}, {.predictions = true, .ranking = true});
    const std::vector<float> rows = {0, 1, 0, 1}, answers = {0, 1}, scores = {20, 30};
    counts.read(rows, answers, scores);
    if (counts.figures(world)->ranking.front().roc_auc != 1) throw std::logic_error("the probabilities are equal");
  });
}

TEST_CASE("predicted classes are counted by what decides, too", "[classes]") {
  comm::run_as_threads(1, [](comm::Communicator& world) {
    ClassCounts counts({.classes = 2, .outputs = 2, .probabilities = true}, {});
    if (counts.wants_predictions()) throw std::logic_error("nobody wished for probabilities");
    const std::vector<float> rows = {-1, 3, 0}, answers = {0, 1, 1};  // single outputs: above 0 for the second class
    counts.read(rows, answers, {});
    const auto figures = counts.figures(world);
    const records::ClassFigures second = figures->matrix.of(1);
    if (second.recall != 0.5 || second.precision != 1) throw std::logic_error("other classes were counted");
    if (figures->calibration || figures->matrix.has_cells())
      throw std::logic_error("there is more than was wished for");
  });
}

TEST_CASE("answers that are no classes have no figures", "[classes]") {
  for (const float answer : {0.5F, 2.0F, -1.0F}) {
    comm::run_as_threads(2, [answer](comm::Communicator& world) {
      ClassCounts counts({.classes = 2, .outputs = 2}, {});
      const std::vector<float> rows = {0, 1}, answers = {world.rank() == 0 ? 1.0F : answer};
      counts.read(rows, answers, {});
      if (counts.figures(world)) throw std::logic_error("figures of answers that are no classes");
    });
  }
}

}  // namespace
}  // namespace unisono::session
