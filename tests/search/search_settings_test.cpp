#include <catch2/catch.hpp>
#include <string>

#include "search_helpers.hpp"

namespace unisono::search {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

const std::string kSpace = "[search.space]\nx = { linear = [0, 1] }\n";

TEST_CASE("the keys of a search are read, and written as they were", "[search]") {
  SearchSettings settings = search_settings(R"([search]
    method = "tpe"
    trials = 20
    lookahead = 3
    target = 0.98
    median_rule = true
    keep = "none"
    baselines = [{ x = 0.5 }]
    )" + kSpace);
  CHECK(settings.method == SearchKind::tpe);
  CHECK(settings.trials == 20);
  CHECK(settings.lookahead == 3);
  CHECK(settings.has_target);
  CHECK(settings.target == 0.98);
  CHECK(settings.keep == KeptTrials::none);
  REQUIRE(settings.baselines.size() == 1);
  CHECK(settings.baselines[0].place == "s.toml:8:18");

  const std::string text = unisono::effective_config(
      [&](ConfigVisitor& v) { v.section({.name = "search", .meaning = "a search"}, settings); });
  SearchSettings again = search_settings(text);
  CHECK(again.space == settings.space);
  CHECK(again.baselines == settings.baselines);
  CHECK(unisono::effective_config(
            [&](ConfigVisitor& v) { v.section({.name = "search", .meaning = "a search"}, again); }) == text);
  CHECK_THAT(text, Contains("target = [0.98]") && !Contains("least_epochs"));
}

TEST_CASE("a grid needs no number of trials, nor does Hyperband", "[search]") {
  CHECK(search_settings("[search]\nmethod = \"grid\"\n" + kSpace).trials == 0);
  CHECK(search_settings("[search]\nmethod = \"hyperband\"\n" + kSpace).trials == 0);
  CHECK_FALSE(search_settings("[search]\nmethod = \"grid\"\n" + kSpace).has_target);
}

struct WrongSearch {
  std::string keys, complaint;
};

TEST_CASE("bad settings of a search are refused with what to do", "[search]") {
  const auto wrong = GENERATE(values<WrongSearch>({
      {"method = \"bayes\"",
       "'method' in [search] is 'bayes', which does not exist; it is one of 'grid', 'random', "
       "'sobol', 'halving', 'hyperband', 'population', 'tpe'"},
      {"method = \"random\"",
       "missing key 'trials' in [search]: number of trials, baselines included. With a larger number later, a search "
       "goes on, at least 1 and at most 1000000"},
      {"method = \"grid\"\ntrials = 3",
       "unknown key 'trials' in [search]; method 'grid' has no such key, it is a key of 'random', 'sobol', 'halving', "
       "'hyperband', 'population', 'tpe'"},
      {"trials = 3\nlookahead = 2",
       "unknown key 'lookahead' in [search]; method 'random' has no such key, it is a key of 'tpe'"},
      {"method = \"halving\"\ntrials = 3\nmedian_rule = true",
       "unknown key 'median_rule' in [search]; method 'halving' has no such key, it is a key of 'grid', 'random', "
       "'sobol', 'tpe'"},
      {"trials = 0", "'trials' in [search] is 0, but must be at least 1 and at most 1000000"},
      {"trials = 3\nrepeats = 0", "'repeats' in [search] is 0, but must be at least 1 and at most 1000"},
      {"trials = 1\nbaselines = [{ x = 0.1 }, { x = 0.2 }]",
       "in [search]: trials = 1 are fewer than the 2 baselines, which are trials, too; raise trials"},
      {"trials = 3\nbaselines = { x = 0.1 }",
       "in [search]: baselines must be a list of tables, one for each trial: [{ \"optimizer.learning_rate\" = 0.1 }]"},
      {"trials = 3\ntarget = [1, 2]", "in [search]: target must be one number, or \"none\""},
      {"method = \"population\"\ntrials = 5\nexploited_fraction = 0.6",
       "'exploited_fraction' in [search] is 0.6, but must be above 0 and at most 0.5"},
      {"method = \"population\"\ntrials = 5\nrepeats = 2",
       "in [search]: the trials of a population take over weights of each other, so that there is no mean over "
       "repeats: remove repeats, and compare searches with different seeds"},
  }));
  const std::string complaint = complaint_of([&] { search_settings("[search]\n" + wrong.keys + "\n" + kSpace); });
  CHECK_THAT(complaint, StartsWith("s.toml:") && EndsWith(wrong.complaint));
}

TEST_CASE("a search without a space is refused", "[search]") {
  const auto complaint = [](const std::string& text) {
    return complaint_of([&] { search_settings("[search]\ntrials = 3\n" + text); });
  };
  CHECK_THAT(complaint(""), StartsWith("s.toml:1:1: missing key 'space' in [search]: the keys that vary"));
  CHECK_THAT(complaint("space = {}"), Contains("space must be a table with at least one key that varies"));
  CHECK_THAT(complaint("space = [1]"), Contains("space must be a table with at least one key that varies"));
}

TEST_CASE("the reference says for which methods a key is", "[search]") {
  SearchSettings settings;
  const std::string text = config_reference(
      [&](ConfigVisitor& v) { v.section({.name = "search", .meaning = "a search"}, settings); }, ReferenceFormat::text);
  CHECK_THAT(text, Contains("      only for random, sobol, halving, population, tpe\n"));
  CHECK_THAT(text, Contains("  least_epochs = 1\n"));
  CHECK_THAT(text, Contains("      only for halving, hyperband\n"));
  CHECK_THAT(text, Contains("  space, required\n      table: the keys that vary"));
}

}  // namespace
}  // namespace unisono::search
