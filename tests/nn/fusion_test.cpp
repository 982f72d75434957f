#include <catch2/catch.hpp>

#include "graph.hpp"
#include "network_trial.hpp"
#include "reference_backend.hpp"

namespace unisono::nn {
namespace {

std::vector<std::string> fused_nodes(const std::vector<LayerSettings>& layers, const kernels::Extent& in,
                                     const kernels::Backend& backend = ReferenceBackend()) {
  Graph graph = build_graph({.layers = layers}, {in});
  fuse(graph, backend);
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) names.push_back(node.name);
  return names;
}

TEST_CASE("a ReLU goes into the dense, convolution or batch norm layer before it", "[fusion]") {
  using Names = std::vector<std::string>;
  const kernels::Extent in{2, 4, 4};
  CHECK(fused_nodes({dense(3), layer("relu"), dense(2)}, in) == Names{"dense1", "dense2"});
  CHECK(fused_nodes({convolution(3, {3}), layer("relu")}, in) == Names{"convolution1"});
  CHECK(fused_nodes({layer("batch_norm"), layer("relu")}, in) == Names{"batch_norm1"});
  CHECK(fused_nodes({dense(3), layer("tanh")}, in) == Names{"dense1", "tanh1"});
  CHECK(fused_nodes({pool("max_pool", {2}), layer("relu")}, in) == Names{"max_pool1", "relu1"});
  CHECK(fused_nodes({dense(3), layer("relu"), layer("relu")}, in) == Names{"dense1", "relu2"});
}

TEST_CASE("a residual block's addition and the ReLU behind it go into the branch's last batch norm", "[fusion]") {
  using Names = std::vector<std::string>;
  const std::vector<LayerSettings> branch = {convolution(2, {3}, {1}), layer("batch_norm"), layer("relu"),
                                             convolution(2, {3}, {1}), layer("batch_norm")};
  CHECK(fused_nodes({residual(branch), layer("relu")}, {2, 4, 4}) ==
        Names{"residual1.convolution1", "residual1.batch_norm1", "residual1.convolution2", "residual1.batch_norm2"});

  Graph graph =
      build_graph({.layers = {residual(branch, {convolution(2, {1})}), layer("relu"), dense(3)}}, {{2, 4, 4}});
  fuse(graph, ReferenceBackend());
  REQUIRE(graph.nodes.size() == 6);  // shortcut, 4 of the branch, dense
  CHECK(graph.nodes[0].name == "residual1.shortcut.convolution1");
  CHECK(graph.nodes[4].residual == 1);  // the shortcut's result
  CHECK(graph.nodes[5].input == 5);
  CHECK(graph.configured.back().node == 5);
}

TEST_CASE("a pooling and a ReLU in either order go into the convolution before them, where the device can",
          "[fusion]") {
  using Names = std::vector<std::string>;
  const auto cpu = kernels::make_cpu_backend(1);
  const kernels::Extent in{2, 4, 4};
  const LayerSettings wide = convolution(3, {3}, {1}), halved = pool("max_pool", {2}), relu = layer("relu");
  CHECK(fused_nodes({wide, halved, relu, dense(2)}, in, *cpu) == Names{"convolution1", "dense1"});
  CHECK(fused_nodes({wide, relu, halved, dense(2)}, in, *cpu) == Names{"convolution1", "dense1"});
  CHECK(fused_nodes({wide, halved}, in, *cpu) == Names{"convolution1"});
  CHECK(fused_nodes({wide, halved, relu}, in) == Names{"convolution1", "max_pool1", "relu1"});
  CHECK(fused_nodes({wide, halved, halved}, in, *cpu) == Names{"convolution1", "max_pool2"});
  CHECK(fused_nodes({wide, pool("average_pool", {2})}, in, *cpu) == Names{"convolution1", "average_pool1"});
  CHECK(fused_nodes({wide, pool("max_pool", {3})}, in, *cpu) == Names{"convolution1", "max_pool1"});
  CHECK(fused_nodes({convolution(3, {2}), halved}, in, *cpu) == Names{"convolution1", "max_pool1"});  // 3 × 3
  CHECK(fused_nodes({wide, layer("tanh"), halved}, in, *cpu) == Names{"convolution1", "tanh1", "max_pool1"});

  Graph graph = build_graph({.layers = {wide, halved, relu, dense(2)}}, {in});
  fuse(graph, *cpu);
  CHECK(text_of(graph.shape(1)) == "3×2×2");
  CHECK(graph.configured[1].kind == "max_pool (in convolution1)");
  CHECK(text_of(graph.configured[0].out) == "3×4×4");
}

TEST_CASE("the table of layers says where a fused layer went", "[fusion]") {
  Graph graph = build_graph({.layers = {dense(3), layer("relu"), dense(2)}}, {{4, 1, 1}});
  fuse(graph, ReferenceBackend());
  CHECK(graph.configured[1].kind == "relu (in dense1)");
  CHECK(graph.configured[1].node == -1);
  CHECK(graph.configured[2].node == 1);
}

TEST_CASE("a layer whose output has another reader is not fused with its successor", "[fusion]") {
  // The shortcut reads dense1's output, so that its ReLU must stay outside.
  CHECK(fused_nodes({dense(4), residual({layer("relu"), dense(4)})}, {4, 1, 1}) ==
        std::vector<std::string>{"dense1", "residual1.relu1", "residual1.dense1", "residual1"});
}

// Dropout layers of rate 0 change no bit, and keep their neighbours apart.
TEST_CASE("a fused ReLU gives the same bits as one of its own", "[fusion]") {
  ReferenceBackend backend;
  LocalReducer reducer;
  const LayerSettings apart = dropout(0), relu = layer("relu"), norm = layer("batch_norm"), same = convolution(2, {2});
  const kernels::Extent in{2, 4, 4};
  Trial one(backend, {.layers = {same, relu, same, norm, relu, dense(5), relu, dense(3)}, .in = in}, reducer);
  Trial other(backend,
              {.layers = {same, apart, relu, same, norm, apart, relu, dense(5), apart, relu, dense(3)}, .in = in},
              reducer);
  CHECK(one.outputs(false) == other.outputs(false));
  CHECK(one.loss_and_gradient() == other.loss_and_gradient());
  CHECK(one.canonical_gradient() == other.canonical_gradient());
  CHECK(canonical(one.network.statistics(), one.statistics.view()) ==
        canonical(other.network.statistics(), other.statistics.view()));
}

// Fused, the sum is rounded once; apart, the norm's result and the sum are: values differ by 2⁻²⁴ of themselves, and
// what follows (a convolution, a ReLU, a dense layer) raises that less than sixteenfold.
TEST_CASE("a fused addition gives the same numbers as one of its own", "[fusion]") {
  ReferenceBackend backend;
  LocalReducer reducer;
  const LayerSettings apart = dropout(0), relu = layer("relu"), norm = layer("batch_norm");
  const LayerSettings same = convolution(2, {3}, {1});
  const kernels::Extent in{2, 4, 4};
  Trial one(backend,
            {.layers = {same, residual({same, norm, relu, same, norm}, {same, norm}), relu, dense(3)}, .in = in},
            reducer);
  Trial other(
      backend,
      {.layers = {same, residual({same, norm, relu, same, norm, apart}, {same, norm}), relu, dense(3)}, .in = in},
      reducer);
  CHECK(one.loss_and_gradient() == Approx(other.loss_and_gradient()).epsilon(0x1p-20));
  const std::vector<float> a = one.canonical_gradient(), b = other.canonical_gradient();
  const float largest = *std::max_element(a.begin(), a.end());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) <= 0x1p-20F * largest);
}

}  // namespace
}  // namespace unisono::nn
