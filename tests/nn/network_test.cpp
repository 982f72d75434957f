// What a network promises whatever its layers are.
#include "unisono/nn/network.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <initializer_list>

#include "network_trial.hpp"
#include "reference_backend.hpp"

namespace unisono::nn {
namespace {

std::vector<LayerSettings> all_kinds() {
  const LayerSettings same = convolution(3, {3}, {1});
  return {convolution(3, {3}, {1}),
          pool("max_pool", {2}),
          layer("relu"),
          residual({same, layer("batch_norm"), layer("relu"), same, layer("batch_norm")}, {same, layer("batch_norm")}),
          layer("relu"),
          residual({layer("layer_norm"), same, layer("gelu")}),
          dropout(0.3),
          pool("average_pool", {2}),
          layer("tanh"),
          layer("global_average_pool"),
          dense(7),
          layer("sigmoid"),
          dense(3)};
}

const TrialSettings kAll{.layers = all_kinds(), .in = {2, 8, 8}, .batch = 6, .loss = "softmax_cross_entropy"};

Ranges ready_ranges(Trial& trial) {
  Ranges ranges;
  trial.loss_and_gradient(kernels::Write::overwrite, [&](Index first, Index last) {
    for (Index i = first; i < last; ++i) {
      INFO("g[" << i << "] in [" << first << ", " << last << ")");
      REQUIRE_FALSE(std::isnan(trial.gradient.view()[static_cast<std::size_t>(i)]));
    }
    ranges.emplace_back(first, last);
  });
  return ranges;
}

TEST_CASE("ranges of g become ready from the end to the start, without gaps, and are final", "[network]") {
  ReferenceBackend backend;
  LocalReducer reducer;
  Trial trial(backend, kAll, reducer);
  // All blocks of g were NaN; ready_ranges checks that a range which is ready holds numbers.
  const Ranges ranges = ready_ranges(trial);
  CHECK(ranges.front().second == trial.network.parameters().size());
  CHECK(ranges.back().first == 0);
  for (std::size_t i = 1; i < ranges.size(); ++i) CHECK(ranges[i].second == ranges[i - 1].first);
  CHECK(ranges.size() > 8);
}

TEST_CASE("what is ready does not change any more", "[network]") {
  ReferenceBackend backend;
  LocalReducer reducer;
  Trial trial(backend, kAll, reducer);
  std::vector<float> seen(static_cast<std::size_t>(trial.gradient.size()));
  trial.loss_and_gradient(kernels::Write::overwrite, [&](Index first, Index last) {
    std::copy(trial.gradient.view().begin() + first, trial.gradient.view().begin() + last, seen.begin() + first);
  });
  CHECK(std::equal(seen.begin(), seen.end(), trial.gradient.view().begin()));
}

TEST_CASE("a pass over no examples gives zeros, the same ready ranges, and leaves the running statistics",
          "[network]") {
  ReferenceBackend backend;
  LocalReducer reducer;
  Trial some(backend, kAll, reducer), none(backend, kAll, reducer, 0, 0);
  const std::vector<float> before = canonical(none.network.statistics(), none.statistics.view());
  CHECK(ready_ranges(none) == ready_ranges(some));
  CHECK(std::all_of(none.gradient.view().begin(), none.gradient.view().end(), [](float g) { return g == 0; }));
  CHECK(canonical(none.network.statistics(), none.statistics.view()) == before);

  none.gradient.view()[3] = 5;
  none.loss_and_gradient(kernels::Write::add);
  CHECK(none.gradient.view()[3] == 5);
}

TEST_CASE("the floats between the blocks of g stay as they are, zero since g was allocated", "[network]") {
  // A sum over all of g must not meet anything there: nobody writes there, on any batch, overwriting or adding.
  ReferenceBackend reference;
  const auto one = kernels::make_cpu_backend(1), two = kernels::make_cpu_backend(2);
  LocalReducer reducer;
  constexpr float kSentinel = 42;
  for (kernels::Backend* const backend : std::initializer_list<kernels::Backend*>{&reference, one.get(), two.get()}) {
    for (const Index batch : {1, 6, 65}) {
      INFO(backend->description() << ", batch " << batch);
      TrialSettings settings = kAll;
      settings.batch = batch;
      Trial trial(*backend, settings, reducer);
      trial.loss_and_gradient();
      const ParameterLayout& layout = trial.network.parameters();
      double blocks = 0;
      for (const float g : trial.canonical_gradient()) blocks += static_cast<double>(g) * g;
      CHECK(reference.squared_norm(trial.gradient.view()) == Approx(blocks).epsilon(1e-12));  // order of doubles alone

      std::ranges::fill(trial.gradient.view(), kSentinel);
      trial.loss_and_gradient(kernels::Write::overwrite);
      trial.loss_and_gradient(kernels::Write::add);
      std::vector<float> between(trial.gradient.view().begin(), trial.gradient.view().end());
      fill_blocks(layout, between, kSentinel);
      CHECK(std::ranges::all_of(between, [&](float value) { return value == kSentinel; }));
      CHECK(layout.size() > layout.parameters());
    }
  }
}

TEST_CASE("a pass gives the same bits again", "[network]") {
  ReferenceBackend backend;
  LocalReducer reducer;
  Trial first(backend, kAll, reducer), second(backend, kAll, reducer);
  CHECK(first.loss_and_gradient() == second.loss_and_gradient());
  CHECK(first.canonical_gradient() == second.canonical_gradient());
}

// The transforms of tiles of 4 × 4 pixels multiply errors by some 5 (decision 19); 1e-4 leaves room for much more.
TEST_CASE("model.winograd changes how convolutions are rounded, and nothing else", "[network]") {
  const auto backend = kernels::make_cpu_backend(1);
  LocalReducer reducer;
  const auto gradient = [&](kernels::Winograd winograd) {
    Trial trial(*backend,
                {.layers = {convolution(16, {1}), convolution(32, {3}, {1}), layer("relu"), dense(3)},
                 .in = {2, 9, 10},
                 .winograd = winograd},
                reducer);
    trial.loss_and_gradient(kernels::Write::overwrite);
    return canonical(trial.network.parameters(), trial.gradient.view());
  };
  const auto direct = gradient(kernels::Winograd::none), two = gradient(kernels::Winograd::tiles_2x2);
  const auto four = gradient(kernels::Winograd::tiles_4x4);
  CHECK(direct != two);
  CHECK(direct != four);
  CHECK(two != four);
  const float largest = std::abs(*std::ranges::max_element(direct, {}, [](float g) { return std::abs(g); }));
  for (std::size_t i = 0; i < direct.size(); ++i) {
    REQUIRE(std::abs(two[i] - direct[i]) < 1e-4F * largest);
    REQUIRE(std::abs(four[i] - direct[i]) < 1e-4F * largest);
  }
}

TEST_CASE("dropout masks depend on the example, not on how the batch is cut", "[network]") {
  ReferenceBackend backend;
  LocalReducer reducer;
  const TrialSettings settings{
      .layers = {dense(20), dropout(0.5), layer("tanh"), dropout(0.25), dense(4)}, .in = {5, 1, 1}, .batch = 6};
  Trial whole(backend, settings, reducer);
  const std::vector<float> all = whole.outputs(true);
  std::vector<float> cut;
  for (const auto& [first, last] : std::vector<std::pair<Index, Index>>{{0, 1}, {1, 4}, {4, 6}}) {
    Trial part_of(backend, settings, reducer, first, last);
    const std::vector<float> outputs = part_of.outputs(true);
    cut.insert(cut.end(), outputs.begin(), outputs.end());
  }
  CHECK(cut == all);
}

TEST_CASE("dropout masks differ between epochs, seeds and layers, and there are none outside training", "[network]") {
  ReferenceBackend backend;
  LocalReducer reducer;
  const LayerSettings one = dense(50, "initialiser = 'ones'");
  const TrialSettings settings{.layers = {one, dropout(0.5), dropout(0.5)}, .in = {1, 1, 1}, .batch = 1};
  Trial trial(backend, settings, reducer);
  const std::vector<float> first = trial.outputs(true);
  trial.epoch = 1;
  const std::vector<float> later = trial.outputs(true);
  trial.epoch = 0;
  trial.seed = 2;
  CHECK(first != later);
  CHECK(first != trial.outputs(true));
  // Equal masks of both layers would leave half of the values; independent ones leave a quarter: 12.5 ± 3.1 of 50.
  const auto left = std::count_if(first.begin(), first.end(), [](float y) { return y != 0; });
  CHECK(left < 25);

  const std::vector<float> outside = trial.outputs(false);
  CHECK(std::count(outside.begin(), outside.end(), 0.0F) == 0);
  Trial plain(backend, {.layers = {one}, .in = {1, 1, 1}, .batch = 1}, reducer);
  CHECK(outside == plain.outputs(false));
}

TEST_CASE("several micro-batches can be in flight", "[network]") {
  ReferenceBackend backend;
  LocalReducer reducer;
  const TrialSettings settings{.layers = {convolution(2, {3}), layer("relu"), dense(3)}, .in = {1, 5, 5}, .batch = 4};
  Trial whole(backend, settings, reducer);
  whole.loss_and_gradient();

  // Both forward, then both backward, the second first; each with a workspace of its own.
  Trial one(backend, settings, reducer, 0, 2), two(backend, settings, reducer, 2, 4);
  const auto forward = [&](Trial& trial) {
    const Workspace space = trial.workspace(true);
    kernels::LossSums sums;
    trial.loss->apply(backend, 2, one.network.forward(trial.pass(true), {trial.features}, space), trial.wanted(),
                      trial.scale, one.network.output_gradient(space), sums);
  };
  forward(one);
  forward(two);
  one.network.backward(two.pass(true), {two.plan, two.memory.view()}, one.gradient.view(), kernels::Write::overwrite,
                       {});
  one.network.backward(one.pass(true), {one.plan, one.memory.view()}, one.gradient.view(), kernels::Write::add, {});
  const std::vector<float> a = whole.canonical_gradient(), b = one.canonical_gradient();
  // Two floats are added where the whole batch is rounded once: three roundings of values up to the largest.
  const float largest =
      std::abs(*std::max_element(a.begin(), a.end(), [](float x, float y) { return std::abs(x) < std::abs(y); }));
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) <= 3 * 0x1p-24F * largest);
}

TEST_CASE("LeNet has 431,080 parameters and the flops of its products", "[network]") {
  ReferenceBackend backend;
  const Network lenet(
      {.layers = {convolution(20, {5}), pool("max_pool", {2}), layer("relu"), convolution(50, {5}),
                  pool("max_pool", {2}), layer("relu"), layer("flatten"), dense(500), layer("relu"), dense(10)}},
      {{1, 28, 28}}, backend);
  // 20·25 + 20, 50·20·25 + 50, 800·500 + 500, 500·10 + 10
  CHECK(lenet.parameters().parameters() == 520 + 25050 + 400500 + 5010);
  CHECK(lenet.parameters().parameters() == 431080);
  const std::vector<LayerRow> rows = lenet.rows(64);
  CHECK(rows[0].flops == 4.0 * 20 * 24 * 24 * 25);  // no gradient of the images
  CHECK(rows[3].flops == 6.0 * 50 * 8 * 8 * 20 * 25);
  CHECK(rows[7].flops == 6.0 * 800 * 500);
  CHECK(rows[3].parameters == 25050);
  CHECK(rows[0].activation == 64 * 20 * 24 * 24);
  CHECK(rows[8].kind == "relu (in dense1)");
  CHECK(rows[8].activation == 0);
}

TEST_CASE("ResNet-20 has 272,474 parameters", "[network]") {
  LayerSettings norm = layer("batch_norm");
  const auto bare = [](std::int64_t channels, std::int64_t kernel, std::int64_t stride) {
    return convolution(channels, {kernel}, {kernel / 2}, "bias = false" + numbers("stride", {stride}));
  };
  std::vector<LayerSettings> layers = {bare(16, 3, 1), norm, layer("relu")};
  for (const std::int64_t channels : {16, 32, 64}) {
    for (int block = 0; block < 3; ++block) {
      const bool halves = channels > 16 && block == 0;
      std::vector<LayerSettings> shortcut;
      if (halves) shortcut = {bare(channels, 1, 2), norm};
      layers.push_back(
          residual({bare(channels, 3, halves ? 2 : 1), norm, layer("relu"), bare(channels, 3, 1), norm}, shortcut));
      layers.push_back(layer("relu"));
    }
  }
  layers.push_back(layer("global_average_pool"));
  layers.push_back(dense(10));
  ReferenceBackend backend;
  const Network resnet({.layers = layers}, {{3, 32, 32}}, backend);
  // Stem 432 + 32; 16 channels: 3 (2·2304 + 64); 32: 4608 + 9216 + 128 + (512 + 64) + 2 (2·9216 + 128);
  // 64: 18432 + 36864 + 256 + (2048 + 128) + 2 (2·36864 + 256); 650. He et al. count 0.27 million.
  CHECK(resnet.parameters().parameters() == 464 + 14016 + 14528 + 37120 + 57728 + 147968 + 650);
  CHECK(resnet.parameters().parameters() == 272474);
  CHECK(resnet.statistics().parameters() == 2 * (16 * 7 + 32 * 7 + 64 * 7));
  CHECK(resnet.out() == Shape{{10, 1, 1}});
}

}  // namespace
}  // namespace unisono::nn
