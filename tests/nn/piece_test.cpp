// A network cut into pieces computes the bits of the whole one.
#include "unisono/nn/piece.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <stdexcept>

#include "flight.hpp"
#include "reference_backend.hpp"

namespace unisono::nn {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// As if a second rank gave the same values.
class TwiceReducer final : public Reducer {
 public:
  void sum(std::span<double> values) override {
    for (double& value : values) value *= 2;
  }
};

struct PieceResult {
  std::vector<float> first_outputs, second_outputs, gradient, statistics;
  Ranges ready;
  bool operator==(const PieceResult&) const = default;
};

/// How two micro-batches are run.
struct Order {
  PassKind kind = PassKind::training;
  kernels::Write write = kernels::Write::overwrite;  ///< of the first one's gradient
  Index first_batch = 3;                             ///< examples of the first micro-batch
};

/// F0 F1 B1 B0, or in halves F0 F1 I1 I0 W1 W0.
PieceResult run(const std::vector<Piece>& pieces, Trial& shared, Trial& other, const Order& order) {
  Flight first(pieces, shared, order.kind), second(pieces, other, order.kind);
  if (order.write == kernels::Write::add) {
    fill_blocks(shared.network.parameters(), shared.gradient.view(), 0.375F);
  }
  PieceResult result;
  result.first_outputs = first.forward(shared);
  result.second_outputs = second.forward(shared);
  if (order.kind == PassKind::training) {
    second.backward(shared, order.write, result.ready);
    first.backward(shared, kernels::Write::add, result.ready);
  } else {
    second.backward_inputs(shared);
    first.backward_inputs(shared);
    second.backward_weights(shared, order.write, result.ready);
    first.backward_weights(shared, kernels::Write::add, result.ready);
  }
  result.gradient = shared.canonical_gradient();
  result.statistics = canonical(shared.network.statistics(), shared.statistics.view());
  return result;
}

/// Of pieces between these cut points; of the whole network where there are none.
PieceResult run(kernels::Backend& backend, const TrialSettings& settings, Reducer& reducer,
                const std::vector<int>& cuts, const Order& order) {
  Trial shared(backend, settings, reducer, 0, order.first_batch);
  Trial other(backend, settings, reducer, order.first_batch, settings.batch);
  return run(pieces_between(shared.network, cuts), shared, other, order);
}

/// The whole network by itself, in the order of Order: F0 F1 B1 B0.
PieceResult run_whole(kernels::Backend& backend, const TrialSettings& settings, Reducer& reducer, const Order& order) {
  Trial shared(backend, settings, reducer, 0, order.first_batch);
  Trial other(backend, settings, reducer, order.first_batch, settings.batch);
  const Network& network = shared.network;
  if (order.write == kernels::Write::add) fill_blocks(network.parameters(), shared.gradient.view(), 0.375F);
  const auto pass_of = [&](Trial& data) {
    Pass pass = data.pass(true);
    pass.parameters = shared.theta.view();
    pass.statistics = shared.statistics.view();
    return pass;
  };
  const auto forward = [&](Trial& data) {
    const Workspace space = data.workspace(true);
    const View outputs = network.forward(pass_of(data), data.inputs(), space);
    std::vector<float> values(static_cast<std::size_t>(data.batch * network.out().extent.size()));
    if (data.batch == 0) return values;
    kernels::LossSums sums;
    data.loss->apply(backend, data.batch, outputs, data.wanted(), {data.scale, {}}, network.output_gradient(space),
                     sums);
    backend.store(network.out().extent, data.batch, outputs, values);
    return values;
  };
  PieceResult result;
  const auto backward = [&](Trial& data, kernels::Write write) {
    network.backward(pass_of(data), {data.plan, data.memory.view()}, shared.gradient.view(), write,
                     [&](Index first, Index last) { result.ready.emplace_back(first, last); });
  };
  result.first_outputs = forward(shared);
  result.second_outputs = forward(other);
  backward(other, order.write);
  backward(shared, kernels::Write::add);
  result.gradient = shared.canonical_gradient();
  result.statistics = canonical(network.statistics(), shared.statistics.view());
  return result;
}

bool has_residual_blocks(const TrialSettings& settings) {
  return std::ranges::find(settings.layers, "residual", &LayerSettings::kind) != settings.layers.end();
}

/// Every cut into at most four pieces, both kinds of backward pass; activations of residual blocks are kept, or
/// computed anew.
void check_all_cuts(const TrialSettings& settings, std::size_t most_cuts = 3) {
  ReferenceBackend reference;
  const auto one = kernels::make_cpu_backend(1), two = kernels::make_cpu_backend(2);
  TwiceReducer reducer;
  for (kernels::Backend* const backend : std::initializer_list<kernels::Backend*>{&reference, one.get(), two.get()}) {
    const std::size_t most = backend == one.get() ? most_cuts : 1;
    for (const kernels::Write write : {kernels::Write::overwrite, kernels::Write::add}) {
      const Order order{PassKind::training, write};
      const PieceResult whole = run_whole(*backend, settings, reducer, order);
      CHECK(std::ranges::none_of(whole.gradient, [](float g) { return std::isnan(g); }));
      const int cuts = static_cast<int>(Trial(*backend, settings, reducer).network.cut_points().size());
      REQUIRE(cuts > 1);
      for_each_choice(cuts, most, [&](const std::vector<int>& chosen) {
        INFO(backend->description() << ", cut at " << Catch::Detail::stringify(chosen));
        CHECK(run(*backend, settings, reducer, chosen, order) == whole);
        CHECK(run(*backend, settings, reducer, chosen, {PassKind::halves, write}) == whole);
      });
      if (!has_residual_blocks(settings)) continue;
      TrialSettings again = settings;
      again.recomputes_blocks = true;
      for_each_choice(cuts, 1, [&](const std::vector<int>& chosen) {
        INFO(backend->description() << ", computed anew, cut at " << Catch::Detail::stringify(chosen));
        CHECK(run(*backend, again, reducer, chosen, order) == whole);
        CHECK(run(*backend, again, reducer, chosen, {PassKind::halves, write}) == whole);
      });
    }
  }
}

LayerSettings norm(const std::string& statistics = "auto") {
  return layer("batch_norm", "statistics = '" + statistics + "'");
}

const LayerSettings kSame = convolution(3, {3}, {1});

/// Begins with layers that learn nothing and may run in place.
TrialSettings row_network() {
  return {.layers = {layer("tanh"), dense(6), layer("gelu"), layer("layer_norm"), dense(7), layer("relu"), dropout(0.4),
                     residual({dense(7), layer("tanh")}), layer("leaky_relu"), layer("elu"), layer("softplus"),
                     dense(4), layer("silu"), layer("sigmoid")},
          .in = {4, 1, 1},
          .batch = 5};
}

TEST_CASE("a network of images in at most four pieces, two micro-batches in flight, gives the whole one's bits",
          "[piece]") {
  check_all_cuts(image_network());
}

TEST_CASE("a network of rows in at most four pieces, two micro-batches in flight, gives the whole one's bits",
          "[piece]") {
  check_all_cuts(row_network(), 2);
}

TEST_CASE("a residual block whose branch begins in place, norms behind each other, and the last pools, in pieces",
          "[piece]") {
  check_all_cuts({.layers = {norm(), kSame, residual({layer("tanh"), kSame, norm()}), layer("tanh"),
                             residual({norm(), layer("relu"), kSame}), layer("global_average_pool"), dense(2)},
                  .in = {3, 4, 4},
                  .batch = 5});
}

TEST_CASE("a classifier of texts in pieces gives the whole one's bits", "[piece]") {
  for (const char* pool : {"pool = 'last'", "pool = 'mean'"}) {
    check_all_cuts(text_classifier({layer("embedding", "units = 6"),
                                    residual({layer("layer_norm"), layer("attention", "heads = 2, dropout = 0.2")}),
                                    layer("rms_norm"), layer("sequence_pool", pool), dropout(0.3), dense(4)},
                                   7, 9, 4, 5),
                   2);
  }
}

TEST_CASE("pieces of a network with frozen blocks give the whole one's bits", "[piece][freeze]") {
  const std::vector<std::vector<std::string>> patterns = {{"convolution1"},
                                                          {"convolution1", "residual1"},
                                                          {"batch_norm1", "dense1.weight"},
                                                          {"residual1.batch_norm1", "residual1.batch_norm2.gamma"},
                                                          {"*.bias", "residual2"},
                                                          {"dense*"}};
  for (const std::vector<std::string>& freeze : patterns) {
    INFO(Catch::Detail::stringify(freeze));
    TrialSettings settings = image_network();
    settings.freeze = freeze;
    check_all_cuts(settings, 1);
  }
}

TEST_CASE("a piece before which nothing learns gives no gradient of its inputs", "[piece][freeze]") {
  ReferenceBackend backend;
  const Network network({.layers = {dense(3), layer("tanh"), dense(3), layer("tanh"), dense(2)}}, {{4, 1, 1}}, backend,
                        {.freeze = {"dense1"}});
  CHECK(network.cut_points().size() == 4);
  CHECK_FALSE(network.piece(0, 1).gives_input_gradient());
  CHECK_FALSE(network.piece(1, 5).gives_input_gradient());
  CHECK_FALSE(network.piece(2, 3).gives_input_gradient());
  CHECK(network.piece(3, 5).gives_input_gradient());
}

TEST_CASE("pieces run without examples where others have some", "[piece][batch_norm]") {
  const auto backend = kernels::make_cpu_backend(1);
  TwiceReducer reducer;
  const TrialSettings settings = image_network();
  const auto cuts = static_cast<int>(Trial(*backend, settings, reducer).network.cut_points().size());
  for (const Index first_batch : {Index{0}, settings.batch}) {
    for (const kernels::Write write : {kernels::Write::overwrite, kernels::Write::add}) {
      const PieceResult whole = run_whole(*backend, settings, reducer, {PassKind::training, write, first_batch});
      for_each_choice(cuts, 1, [&](const std::vector<int>& chosen) {
        INFO("cut at " << Catch::Detail::stringify(chosen));
        CHECK(run(*backend, settings, reducer, chosen, {PassKind::training, write, first_batch}) == whole);
        CHECK(run(*backend, settings, reducer, chosen, {PassKind::halves, write, first_batch}) == whole);
      });
    }
  }
}

TEST_CASE("residual blocks are computed anew on ranks without examples, too", "[piece][batch_norm]") {
  const auto backend = kernels::make_cpu_backend(1);
  TwiceReducer reducer;
  TrialSettings settings = image_network();
  for (const Index first_batch : {Index{0}, settings.batch}) {
    const Order order{PassKind::training, kernels::Write::add, first_batch};
    settings.recomputes_blocks = false;
    const PieceResult kept = run_whole(*backend, settings, reducer, order);
    settings.recomputes_blocks = true;
    CHECK(run_whole(*backend, settings, reducer, order) == kept);
  }
}

TEST_CASE("pieces lie between two different cut points", "[piece]") {
  ReferenceBackend backend;
  const Network network({.layers = {dense(3), layer("tanh"), dense(2)}}, {{4, 1, 1}}, backend);
  REQUIRE(network.cut_points().size() == 2);
  CHECK(network.piece(0, 3).parameters() == FloatRange{0, network.parameters().size()});
  CHECK(network.piece(2, 3).parameters() ==
        FloatRange{network.parameters().block("dense2.weight").offset, network.parameters().size()});
  const FloatRange none = network.piece(1, 2).parameters();
  CHECK(none.first == none.last);
  for (const auto& [first, last] : {std::pair{-1, 1}, std::pair{1, 1}, std::pair{2, 1}, std::pair{0, 4}}) {
    CHECK_THROWS_AS(network.piece(first, last), std::out_of_range);
  }
}

std::vector<std::string> names_of_cuts(const Network& network) {
  std::vector<std::string> names;
  for (const CutPoint& point : network.cut_points()) names.push_back(point.after);
  return names;
}

TEST_CASE("cut points lie outside residual blocks and not in front of what was fused", "[piece]") {
  ReferenceBackend backend;
  const LayerSettings relu = layer("relu");
  const auto cuts = [&](const std::vector<LayerSettings>& layers) {
    return names_of_cuts(Network({.layers = layers}, {{3, 4, 4}}, backend));
  };
  using Names = std::vector<std::string>;
  CHECK(cuts({kSame, relu, dense(2)}) == Names{"convolution1"});
  CHECK(cuts({kSame, residual({kSame, norm(), relu, kSame, norm()}), relu, dense(2)}) ==
        Names{"convolution1", "residual1.batch_norm2"});
  CHECK(cuts({kSame, residual({kSame, relu}, {kSame}), dense(2), layer("flatten"), dense(2)}) ==
        Names{"convolution1", "residual1", "dense1"});
  CHECK(cuts({residual({kSame}), dense(2)}) == Names{"residual1"});
  CHECK(cuts({dense(2)}).empty());
}

TEST_CASE("cut points say what the pieces beside them cost", "[piece]") {
  ReferenceBackend backend;
  const Network lenet(
      {.layers = {convolution(20, {5}), pool("max_pool", {2}), layer("relu"), convolution(50, {5}),
                  pool("max_pool", {2}), layer("relu"), layer("flatten"), dense(500), layer("relu"), dense(10)}},
      {{1, 28, 28}}, backend);
  const std::vector<CutPoint> points = lenet.cut_points();
  REQUIRE(points.size() == 7);
  double flops = 0;
  for (const LayerRow& row : lenet.rows(1)) flops += row.flops;
  for (const CutPoint& point : points) {
    CHECK(point.before.flops() + point.behind.flops() == flops);
    CHECK(point.before.parameters + point.behind.parameters == 431080);
    CHECK(point.boundary == point.shape.extent.size());
  }
  const CutPoint& third = points[2];
  CHECK(third.after == "relu1");
  CHECK(third.boundary == 20 * 12 * 12);
  CHECK(third.before.forward == 2.0 * 20 * 24 * 24 * 25);
  CHECK(third.before.backward_weights == 2.0 * 20 * 24 * 24 * 25);
  CHECK(third.before.backward_inputs == 0);  // of the images
  CHECK(third.before.parameters == 520);
  const PieceCost middle = lenet.piece(3, 6).cost();
  CHECK(middle.flops() == 6.0 * 50 * 8 * 8 * 20 * 25);
  CHECK(middle.parameters == 25050);
}

TEST_CASE("making activations anew leaves the running statistics", "[piece][batch_norm]") {
  const auto backend = kernels::make_cpu_backend(1);
  LocalReducer reducer;
  const TrialSettings settings = image_network();
  Trial once(*backend, settings, reducer), twice(*backend, settings, reducer);
  const auto result_of = [](Trial& trial, bool anew) {
    std::vector<Piece> pieces;
    pieces.push_back(trial.network.piece(0, 2));
    pieces.push_back(trial.network.piece(2, static_cast<int>(trial.network.cut_points().size()) + 1));
    Flight flight(pieces, trial, PassKind::training);
    flight.forward(trial);
    if (anew) flight.forward(trial, /*updates_statistics=*/false);
    Ranges ready;
    flight.backward(trial, kernels::Write::overwrite, ready);
    return std::pair{trial.canonical_gradient(), canonical(trial.network.statistics(), trial.statistics.view())};
  };
  const auto expected = result_of(once, false);
  CHECK(expected == result_of(twice, true));
  CHECK(expected.second != canonical(Trial(*backend, settings, reducer).network.statistics(),
                                     Trial(*backend, settings, reducer).statistics.view()));
}

TEST_CASE("moments of micro-batches that are applied later, in order, give the running statistics of passes in a row",
          "[piece][batch_norm]") {
  TwiceReducer reducer;
  ReferenceBackend reference;
  const auto cpu = kernels::make_cpu_backend(2);
  for (kernels::Backend* const backend : std::initializer_list<kernels::Backend*>{&reference, cpu.get()}) {
    TrialSettings settings = image_network();
    settings.batch = 6;
    Trial in_a_row(*backend, settings, reducer), later(*backend, settings, reducer);
    const std::vector<float> before = canonical(later.network.statistics(), later.statistics.view());
    std::vector<Buffer> moments;
    const Piece piece = later.network.piece(0, static_cast<int>(later.network.cut_points().size()) + 1);
    CHECK(piece.moments_size() > 0);
    for (const Index first : {4, 2, 0}) {  // in another order than that of the micro-batches
      Trial data(*backend, settings, reducer, first, first + 2);
      Pass pass = data.pass(true);
      moments.emplace(moments.begin(), piece.moments_size());
      pass.statistics = later.statistics.view();
      pass.moments = moments.front().view();
      const WorkspacePlan plan = piece.plan(2, PassKind::training);
      Buffer memory(plan.floats);
      piece.forward(pass, {data.features}, {plan, memory.view()});
    }
    CHECK(canonical(later.network.statistics(), later.statistics.view()) == before);
    for (const Index first : {0, 2, 4}) {
      Trial data(*backend, settings, reducer, first, first + 2);
      Pass pass = data.pass(true);
      pass.statistics = in_a_row.statistics.view();
      in_a_row.network.forward(pass, {data.features}, data.workspace(true));
      piece.apply_moments(later.pass(true), moments[static_cast<std::size_t>(first / 2)].view());
    }
    const std::vector<float> expected = canonical(in_a_row.network.statistics(), in_a_row.statistics.view());
    CHECK(canonical(later.network.statistics(), later.statistics.view()) == expected);
    CHECK(expected != before);
  }
}

}  // namespace
}  // namespace unisono::nn
