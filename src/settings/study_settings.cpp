#include "unisono/settings/study_settings.hpp"

namespace unisono::settings {

void StudySettings::describe(ConfigVisitor& visitor) {
  visitor.field({.name = "seeds",
                 .meaning = "how many seeds the serial run and each variant are trained with: seed, seed + 1, …",
                 .minimum = 2,
                 .maximum = 10000},
                seeds);
  visitor.field({.name = "margin",
                 .meaning = "difference of the metric that does not matter: a variant is equivalent if the interval of "
                            "its difference lies inside ± margin; 0: none is",
                 .minimum = 0},
                margin);
  visitor.field({.name = "metric",
                 .meaning = "by what variants are compared, as \"validation.accuracy\" or \"test.loss\"; auto: the "
                            "accuracy where there is one, otherwise the loss, of the validation set or, without one, "
                            "of the test set"},
                metric);
  visitor.numbers_or({.name = "target", .meaning = "value of the metric for the time to target"}, target, target_word,
                     {{"serial", "the mean of the serial runs, less the margin"}});
  visitor.require("target", target.size() <= 1, "target is one number, or \"serial\"");
  visitor.field(
      {.name = "optimum",
       .meaning = "for linear models, also compute the minimum by L-BFGS, and say how far from it each variant "
                  "ends"},
      optimum);
  visitor.any_value(
      {.name = "variants",
       .meaning = "an array of tables, each of keys of this config with other values: { optimizer = { kind "
                  "= \"adam\", beta2 = 0.98 }, ranks = [2, 4] }. A table with a kind replaces the "
                  "config's; of one without, each key replaces the config's. ranks and threads: numbers "
                  "of ranks, and of threads of a rank, each of which is a variant; unset: keys that it "
                  "removes from the config, as [\"train.batch_size\"]; name: how it is called"},
      variants);
}

}  // namespace unisono::settings
