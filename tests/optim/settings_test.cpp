#include <catch2/catch.hpp>

#include "optimizers.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/optim/catalog.hpp"
#include "unisono/optim/schedule.hpp"

namespace unisono::optim {
namespace {

template <typename Settings>
Settings parse(const std::string& toml) {
  Settings settings;
  parse_config({.path = "test.toml", .text = toml, .overrides = {}},
               [&](ConfigVisitor& visitor) { settings.describe(visitor); });
  return settings;
}

template <typename Settings>
std::string effective(Settings settings) {
  return effective_config([&](ConfigVisitor& visitor) { settings.describe(visitor); });
}

}  // namespace

TEST_CASE("an optimizer's table is read as users write it", "[optimizer][config]") {
  const auto settings =
      parse<OptimizerSettings>("kind = 'sgd'\nlearning_rate = 0.02\nmomentum = 0.9\nweight_decay = 1e-4\n");
  CHECK(settings.kind == "sgd");
  CHECK(settings.learning_rate == 0.02);
  CHECK(number_of(settings, "momentum") == 0.9);
  CHECK(settings.weight_decay == 1e-4);
}

TEST_CASE("each kind has only its own keys, with defaults of its own", "[optimizer][config]") {
  CHECK_THROWS_AS(parse<OptimizerSettings>("kind = 'sgd'\nlearning_rate = 0.1\nbeta1 = 0.9\n"), ConfigError);
  CHECK_THROWS_AS(parse<OptimizerSettings>("kind = 'adam'\nlearning_rate = 0.1\nmomentum = 0.9\n"), ConfigError);
  CHECK(number_of(parse<OptimizerSettings>("kind = 'lamb'\nlearning_rate = 0.1\n"), "epsilon") == 1e-6);
  CHECK(number_of(parse<OptimizerSettings>("kind = 'adam'\nlearning_rate = 0.1\n"), "epsilon") == 1e-8);
  CHECK(number_of(parse<OptimizerSettings>("kind = 'lars'\nlearning_rate = 0.1\n"), "momentum") == 0.9);
  CHECK(number_of(parse<OptimizerSettings>("kind = 'lamb'\nlearning_rate = 0.1\nepsilon = 1e-5\n"), "epsilon") == 1e-5);
}

TEST_CASE("what an optimizer cannot mean is refused", "[optimizer][config]") {
  for (const char* wrong : {"momentum = 0.9", "learning_rate = -1", "learning_rate = 0.1\nmomentum = 1.0",
                            "learning_rate = 0.1\nnesterov = true", "learning_rate = 0.1\nweight_decay = -0.1",
                            "learning_rate = 0.1\nclip_norm = -1", "learning_rate = 0.1\nkind = 'adam'\nepsilon = 0",
                            "learning_rate = 0.1\nkind = 'adam'\nbeta2 = 1.0", "learning_rate = 0.1\nkind = 'sdg'"}) {
    INFO(wrong);
    CHECK_THROWS_AS(parse<OptimizerSettings>(wrong), ConfigError);
  }
}

TEST_CASE("the older key of the decay of all parameters still says so", "[optimizer][config]") {
  const std::string rate = "learning_rate = 0.1\n";
  CHECK(parse<OptimizerSettings>(rate).decay == DecayRule::weights);
  CHECK(parse<OptimizerSettings>(rate + "decay = 'without_embeddings'").decay == DecayRule::without_embeddings);
  const auto older = parse<OptimizerSettings>(rate + "decay_biases_and_norms = true");
  CHECK(older.decay == DecayRule::all);
  CHECK(parse<OptimizerSettings>(effective(older)).decay == DecayRule::all);
  CHECK(parse<OptimizerSettings>(rate + "decay_biases_and_norms = false\ndecay = 'all'").decay == DecayRule::all);
  CHECK_THROWS_WITH(parse<OptimizerSettings>(rate + "decay_biases_and_norms = true\ndecay = 'weights'"),
                    Catch::Contains("decay_biases_and_norms = true means decay = \"all\""));
}

TEST_CASE("the effective config of optimizer and schedule gives the same settings again", "[optimizer][config]") {
  for (const OptimizerKind& kind : optimizer_kinds()) {
    const std::string name(kind.name);
    const OptimizerSettings settings{.kind = name, .learning_rate = 0.25, .weight_decay = 0.125, .clip_norm = 2};
    CHECK(effective(parse<OptimizerSettings>(effective(settings))) == effective(settings));
  }
  const OptimizerSettings changed = with({.kind = "adam", .learning_rate = 0.25}, "beta2 = 0.95");
  CHECK(number_of(parse<OptimizerSettings>(effective(changed)), "beta2") == 0.95);
  for (const auto& kind : kScheduleKinds) {
    const ScheduleSettings settings{.kind = kind.value, .warmup_epochs = 2, .final_factor = 0.5, .milestones = {3, 5}};
    CHECK(effective(parse<ScheduleSettings>(effective(settings))) == effective(settings));
  }
}

TEST_CASE("what a schedule cannot mean is refused", "[schedule][config]") {
  for (const char* wrong : {"kind = 'step'", "kind = 'step'\nmilestones = [5, 3]", "kind = 'step'\nmilestones = [3, 3]",
                            "kind = 'linear'\nfinal_factor = 1.5", "kind = 'exponential'\nfinal_factor = 0",
                            "kind = 'linear'\npower = 2", "kind = 'polynomial'\npower = 0", "warmup_epochs = -1",
                            "kind = 'sawtooth'", "warmup_epochs = 1\nwarmup_steps = 10",
                            "kind = 'wsd'\ndecay_fraction = 0", "kind = 'cosine'\ndecay = 'sqrt'"}) {
    INFO(wrong);
    CHECK_THROWS_AS(parse<ScheduleSettings>(wrong), ConfigError);
  }
}

}  // namespace unisono::optim
