#include "divided_model.hpp"

// Models whose layers are divided among ranks give the same bits on any number of ranks, and those of whole models up
// to rounding.

namespace unisono::parallel {
namespace {

void check_divided(const Example& example) {
  const Result whole = result_of(example, 1, 1);
  for (const int leaves : {2, 4}) {
    INFO(leaves << " leaves");
    const Result one = result_of(example, 1, leaves);
    CHECK(one.theta == whole.theta);
    CHECK(one.hits == whole.hits);
    // Sums of some hundred products of numbers around 1 or less, in another order, through some ten layers.
    CHECK(std::abs(one.loss - whole.loss) < 1e-5 * whole.loss);
    CHECK(largest_difference(one.gradient, whole.gradient) < 1e-5 * std::max(1.0, largest(whole.gradient)));
    CHECK(largest(one.gradient) > 0);
    for (int ranks = 2; ranks <= leaves; ranks *= 2) {
      INFO(ranks << " ranks");
      const Result several = result_of(example, ranks, leaves);
      CHECK(several.theta == one.theta);
      CHECK(several.gradient == one.gradient);
      CHECK(several.loss == one.loss);
      CHECK(several.evaluated == one.evaluated);
      CHECK(several.hits == one.hits);
    }
  }
}

TEST_CASE("ranks that share the layers of a GPT compute what one rank computes", "[tensor_parallel]") {
  check_divided({gpt()});
}

TEST_CASE("… of a Llama", "[tensor_parallel]") { check_divided({llama()}); }

TEST_CASE("… of dense layers, some of them whole", "[tensor_parallel]") {
  check_divided({.layers = perceptron(), .of_tokens = false});
}

TEST_CASE("… where some layers are frozen", "[tensor_parallel]") {
  check_divided({.layers = gpt(), .of_tokens = true, .freeze = {"embedding1", "residual1.attention1*"}});
}

TEST_CASE("three ranks add up three leaves in the order in which one rank does", "[tensor_parallel]") {
  const Example example{.layers = perceptron(), .of_tokens = false};
  const Result one = result_of(example, 1, 3), three = result_of(example, 3, 3);
  CHECK(one.gradient == three.gradient);
  CHECK(one.loss == three.loss);
}

TEST_CASE("numbers that several ranks hold count once in norms and files", "[tensor_parallel]") {
  const auto backend = kernels::make_cpu_backend(1);
  LocalReducer alone;
  const auto make = [&](const nn::TensorPart& part) {
    models::ModelContext context{.backend = *backend, .reducer = alone};
    context.part = part;
    return models::make_model(settings_of({gpt()}), Example{gpt()}.inputs(), context);
  };
  const auto whole = make({});
  const auto first = make({.leaves = 2, .first = 0, .count = 1}), second = make({.leaves = 2, .first = 1, .count = 1});
  ReplicaSettings settings;
  settings.tensor = 2;
  const Stages stages({*whole, {first->staged(), second->staged()}, 0}, settings, 1);
  Index counted = 0;
  for (int rank = 0; rank < 2; ++rank) {
    for (const Shard& shard : stages.parameters().shards_of(rank)) counted += shard.copy == 0 ? size_of(shard.box) : 0;
  }
  CHECK(counted == whole->layout().parameters());
  const auto held = [](const models::Model& model, const std::string& name) {
    return std::ranges::any_of(model.layout().blocks(), [&](const Block& block) { return block.name == name; });
  };
  // A sum over ranks has one bias.
  CHECK(held(*first, "residual1.attention1.output.bias"));
  CHECK_FALSE(held(*second, "residual1.attention1.output.bias"));
  CHECK(held(*second, "residual1.layer_norm1.gamma"));
}

}  // namespace
}  // namespace unisono::parallel
