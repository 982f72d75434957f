#include "cpu_fixture.hpp"

namespace unisono::kernels::cpu {
namespace {

/// The mask from its definition, one example and one element at a time.
Floats expected_dropout(const DropoutKey& key, const Extent& extent, const std::vector<std::uint64_t>& examples,
                        const Floats& x) {
  Floats y;
  for (std::uint64_t example : examples) {
    RandomStream random(key.seed ^ (std::uint64_t{key.layer} << 32), Purpose::dropout, example, key.epoch);
    for (Index e = 0; e < extent.size(); ++e) {
      const bool kept = random.uniform() >= key.rate;
      y.push_back(kept ? 1.0F / (1.0F - key.rate) * x[y.size()] : 0.0F);
    }
  }
  return y;
}

/// Indices that differ in their upper halves, too.
std::vector<std::uint64_t> some_examples(Index batch) {
  std::vector<std::uint64_t> examples;
  for (Index i = 0; i < batch; ++i) {
    examples.push_back(static_cast<std::uint64_t>(i) * 7919 + (static_cast<std::uint64_t>(i % 3) << 33));
  }
  return examples;
}

Floats dropped(CpuBackend& backend, const DropoutKey& key, const Shape& shape,
               const std::vector<std::uint64_t>& examples, const Floats& x) {
  Buffer y = fresh(backend, shape);
  backend.dropout(key, shape.extent, examples, to_device(backend, shape, x, 5).view(), y.view());
  CHECK(std::isfinite(largest_unused(backend, shape, y.view())));
  return from_device(backend, shape, y);
}

}  // namespace

TEST_CASE("a dropout mask is a function of seed, layer, epoch, example and canonical element", "[dropout][shapes]") {
  const DropoutKey key{.seed = 3, .epoch = 5, .layer = 2, .rate = 0.3F};
  for (const Shape& shape : odd_shapes()) {
    INFO(shape.text());
    const Floats x = random_floats(shape.size(), 51);
    const auto examples = some_examples(shape.batch);
    const Floats y = expected_dropout(key, shape.extent, examples, x);
    in_all_layouts(
        [&](CpuBackend& backend) {
          Buffer in_place = to_device(backend, shape, x);
          backend.dropout(key, shape.extent, examples, in_place.view(), in_place.view());
          return Outputs{{dropped(backend, key, shape, examples, x), from_device(backend, shape, in_place)}, {}};
        },
        [&](const Outputs& outputs) {
          CHECK(outputs.tensors[0] == y);
          CHECK(outputs.tensors[1] == y);
        });
  }
}

TEST_CASE("an example's mask does not depend on its place in the batch", "[dropout]") {
  CpuBackend backend({});
  const Extent extent{3, 4, 4};
  const DropoutKey key{.seed = 1, .epoch = 0, .layer = 1, .rate = 0.5F};
  const Floats ones(static_cast<std::size_t>(70 * extent.size()), 1.0F);
  auto examples = some_examples(70);
  const Floats together = dropped(backend, key, {extent, 70}, examples, ones);
  for (std::size_t n : {0U, 41U, 69U}) {
    const Floats alone = dropped(backend, key, {extent, 1}, {examples[n]}, Floats(48, 1.0F));
    CHECK(std::equal(alone.begin(), alone.end(), together.begin() + static_cast<std::ptrdiff_t>(n * 48)));
  }
}

TEST_CASE("seeds, layers, epochs and examples have masks of their own, which drop at the rate", "[dropout]") {
  CpuBackend backend({});
  const Shape shape{{1, 100, 100}, 1};
  const Floats ones(10000, 1.0F);
  std::vector<Floats> masks;
  for (const DropoutKey& key : {DropoutKey{1, 0, 0, 0.25F}, {2, 0, 0, 0.25F}, {1, 1, 0, 0.25F}, {1, 0, 1, 0.25F}}) {
    masks.push_back(dropped(backend, key, shape, {7}, ones));
  }
  masks.push_back(dropped(backend, {1, 0, 0, 0.25F}, shape, {8}, ones));
  for (const Floats& mask : masks) {
    // Binomial: 2500 ± 43 (σ); five σ.
    CHECK(std::abs(std::count(mask.begin(), mask.end(), 0.0F) - 2500) < 5 * 43);
  }
  for (std::size_t a = 0; a < masks.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      // Independent masks agree at 1/16 + 9/16 of the elements: 6250 ± 48 (σ); five σ.
      Index agree = 0;
      for (std::size_t i = 0; i < 10000; ++i) agree += masks[a][i] == masks[b][i] ? 1 : 0;
      CHECK(std::abs(agree - 6250) < 5 * 48);
    }
  }
}

TEST_CASE("with rate 0 dropout keeps all, and what it drops may be NaN", "[dropout]") {
  CpuBackend backend({});
  const Shape shape{{4, 2, 2}, 3};
  const Floats x = random_floats(shape.size(), 52);
  CHECK(dropped(backend, {.seed = 1}, shape, {1, 2, 3}, x) == x);
  const Floats nan(static_cast<std::size_t>(shape.size()), std::nanf(""));
  const Floats y = dropped(backend, {.seed = 1, .rate = 0.5F}, shape, {1, 2, 3}, nan);
  const Floats mask = expected_dropout({.seed = 1, .rate = 0.5F}, shape.extent, {1, 2, 3}, Floats(nan.size(), 1.0F));
  for (std::size_t i = 0; i < y.size(); ++i) CHECK(std::isnan(y[i]) == (mask[i] != 0));
}

}  // namespace unisono::kernels::cpu
