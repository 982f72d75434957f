// Convolutions of each kind and what follows them, against naive loops.
#include <cudnn.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "simulated_cuda/numbers.hpp"
#include "simulated_cuda/test_support.hpp"

namespace simulated {
namespace {

using Extents = std::vector<std::int64_t>;

/// A descriptor that is destroyed with its owner.
class Desc {
 public:
  explicit Desc(cudnnBackendDescriptorType_t kind) {
    REQUIRE(cudnnBackendCreateDescriptor(kind, &handle) == CUDNN_STATUS_SUCCESS);
  }
  ~Desc() {
    if (handle != nullptr) cudnnBackendDestroyDescriptor(handle);
  }
  Desc(Desc&& other) noexcept : handle(std::exchange(other.handle, nullptr)) {}
  Desc& operator=(Desc&&) = delete;

  template <typename T>
  cudnnStatus_t try_set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::vector<T> values) {
    return cudnnBackendSetAttribute(handle, name, type, static_cast<std::int64_t>(values.size()), values.data());
  }
  template <typename T>
  Desc& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::vector<T> values) {
    REQUIRE(try_set(name, type, std::move(values)) == CUDNN_STATUS_SUCCESS);
    return *this;
  }
  Desc& integers(cudnnBackendAttributeName_t name, Extents values) { return set(name, CUDNN_TYPE_INT64, values); }
  Desc& child(cudnnBackendAttributeName_t name, const Desc& desc) {
    return set<cudnnBackendDescriptor_t>(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, {desc.handle});
  }
  cudnnStatus_t finalize() const { return cudnnBackendFinalize(handle); }
  Desc&& done() && {
    char message[200] = "";
    const auto status = finalize();
    if (status != CUDNN_STATUS_SUCCESS) cudnnGetLastErrorString(message, sizeof message);
    CAPTURE(message);
    REQUIRE(status == CUDNN_STATUS_SUCCESS);
    return std::move(*this);
  }
  cudnnBackendDescriptor_t handle = nullptr;
};

Extents packed(const Extents& extents, bool channels_last = false) {
  if (channels_last) return {extents[1] * extents[2] * extents[3], 1, extents[3] * extents[1], extents[1]};
  return {extents[1] * extents[2] * extents[3], extents[2] * extents[3], extents[3], 1};
}

struct TensorSpec {
  std::int64_t id;
  Extents extents;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  bool is_virtual = false;
  bool channels_last = false;
};

Desc unfinished(const TensorSpec& spec) {
  Desc desc(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  desc.integers(CUDNN_ATTR_TENSOR_UNIQUE_ID, {spec.id})
      .integers(CUDNN_ATTR_TENSOR_DIMENSIONS, spec.extents)
      .integers(CUDNN_ATTR_TENSOR_STRIDES, packed(spec.extents, spec.channels_last))
      .integers(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {4})
      .set<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, {spec.type});
  const bool is_virtual = spec.is_virtual;
  REQUIRE(cudnnBackendSetAttribute(desc.handle, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual) ==
          CUDNN_STATUS_SUCCESS);
  return desc;
}
Desc tensor(const TensorSpec& spec) { return unfinished(spec).done(); }

struct Shape {
  std::int64_t n = 2, c = 4, k = 6, groups = 1;
  Extents image{7, 6}, filter{3, 2};
  Extents before{1, 0}, after{1, 1}, stride{1, 1}, dilation{1, 1};
  cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;

  std::int64_t out(std::size_t i) const {
    return (image[i] + before[i] + after[i] - dilation[i] * (filter[i] - 1) - 1) / stride[i] + 1;
  }
  Extents x() const { return {n, c, image[0], image[1]}; }
  Extents w() const { return {k, c / groups, filter[0], filter[1]}; }
  Extents y() const { return {n, k, out(0), out(1)}; }
};

Desc convolution(const Shape& s) {
  Desc desc(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  desc.integers(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, {2})
      .integers(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, s.before)
      .integers(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, s.after)
      .integers(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, s.stride)
      .integers(CUDNN_ATTR_CONVOLUTION_DILATIONS, s.dilation)
      .set<cudnnDataType_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, {CUDNN_DATA_FLOAT})
      .set<cudnnConvolutionMode_t>(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, {s.mode});
  return std::move(desc).done();
}

enum class Kind { forward, data, filter };

Desc unfinished_operation(Kind kind, const Shape& s, const Desc& x, const Desc& w, const Desc& y, float beta = 0) {
  const auto make = [&](auto type, auto x_name, auto w_name, auto y_name, auto c_name, auto alpha, auto beta_name) {
    Desc desc(type);
    desc.child(x_name, x).child(w_name, w).child(y_name, y).child(c_name, convolution(s));
    desc.set<float>(alpha, CUDNN_TYPE_FLOAT, {1}).template set<float>(beta_name, CUDNN_TYPE_FLOAT, {beta});
    return desc;
  };
  if (kind == Kind::forward) {
    return make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA);
  }
  if (kind == Kind::data) {
    return make(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA);
  }
  return make(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA);
}

Desc pointwise(cudnnPointwiseMode_t mode, const std::map<cudnnBackendAttributeName_t, const Desc*>& tensors) {
  Desc how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  how.set<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, {mode})
      .set<cudnnDataType_t>(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, {CUDNN_DATA_FLOAT});
  Desc desc(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  desc.child(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, std::move(how).done());
  for (const auto& [name, t] : tensors) desc.child(name, *t);
  return desc;
}
constexpr auto in_x = CUDNN_ATTR_OPERATION_POINTWISE_XDESC;
constexpr auto in_b = CUDNN_ATTR_OPERATION_POINTWISE_BDESC;
constexpr auto out_y = CUDNN_ATTR_OPERATION_POINTWISE_YDESC;

Desc unfinished_graph(const std::vector<const Desc*>& operations) {
  Desc graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  std::vector<cudnnBackendDescriptor_t> handles;
  for (const auto* operation : operations) handles.push_back(operation->handle);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, handles);
  return graph;
}

/// The engines that the heuristics name: their configurations.
std::vector<Desc> configurations(const Desc& graph, cudnnBackendHeurMode_t mode) {
  Desc heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.child(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
      .set<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, {mode});
  if (heuristics.finalize() != CUDNN_STATUS_SUCCESS) return {};
  std::int64_t count = 0;
  REQUIRE(cudnnBackendGetAttribute(heuristics.handle, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0,
                                   &count, nullptr) == CUDNN_STATUS_SUCCESS);
  std::vector<Desc> results;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (std::int64_t i = 0; i < count; ++i) {
    handles.push_back(results.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).handle);
  }
  REQUIRE(cudnnBackendGetAttribute(heuristics.handle, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                   count, &count, handles.data()) == CUDNN_STATUS_SUCCESS);
  REQUIRE(count < std::ssize(results));  // those that were counted and are not given
  while (std::ssize(results) > count) results.pop_back();
  return results;
}

std::vector<cudnnBackendNumericalNote_t> notes(const Desc& configuration) {
  Desc engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  std::int64_t count = 0;
  REQUIRE(cudnnBackendGetAttribute(configuration.handle, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                   &count, &engine.handle) == CUDNN_STATUS_SUCCESS);
  std::vector<cudnnBackendNumericalNote_t> result(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  REQUIRE(cudnnBackendGetAttribute(engine.handle, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                   CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, result.data()) == CUDNN_STATUS_SUCCESS);
  result.resize(static_cast<std::size_t>(count));
  return result;
}

const std::vector<cudnnBackendNumericalNote_t> exact{};
const std::vector<cudnnBackendNumericalNote_t> unordered{CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC};

/// A plan of the first engine with these notes that can be built.
Desc plan_for(const Desc& graph, const std::vector<cudnnBackendNumericalNote_t>& wanted) {
  for (auto& configuration : configurations(graph, CUDNN_HEUR_MODE_A)) {
    if (notes(configuration) != wanted) continue;
    Desc plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
    const auto status = plan.finalize();
    if (status == CUDNN_STATUS_SUCCESS) return plan;
    CHECK(status == CUDNN_STATUS_NOT_SUPPORTED);
  }
  FAIL("no engine has these notes");
  return Desc(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
}

struct Library {
  Library() { REQUIRE(cudnnCreate(&handle) == CUDNN_STATUS_SUCCESS); }
  ~Library() { cudnnDestroy(handle); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  cudnnHandle_t handle = nullptr;
};

cudnnStatus_t execute(const Library& library, const Desc& plan, const std::map<std::int64_t, void*>& tensors) {
  std::int64_t bytes = 0;
  REQUIRE(cudnnBackendGetAttribute(plan.handle, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, nullptr,
                                   &bytes) == CUDNN_STATUS_SUCCESS);
  const DeviceArray<std::byte> workspace(static_cast<std::size_t>(bytes));
  Extents ids;
  std::vector<void*> pointers;
  for (const auto& [id, pointer] : tensors) {
    ids.push_back(id);
    pointers.push_back(pointer);
  }
  Desc pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.integers(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids)
      .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, pointers);
  if (bytes != 0) pack.set<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, {workspace.data()});
  const Desc ready = std::move(pack).done();
  const auto status = cudnnBackendExecute(library.handle, plan.handle, ready.handle);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  return status;
}

std::size_t size(const Extents& e) { return static_cast<std::size_t>(e[0] * e[1] * e[2] * e[3]); }

/// Small multiples of 1/8: their products and sums are exact, and they are bf16 and tf32.
std::vector<float> tensor_examples(const Extents& extents, std::size_t salt) {
  std::vector<float> values(size(extents));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(static_cast<int>((i * 29 + salt * 7) % 15) - 7) / 8;
  }
  return values;
}

/// The values in another order: of elements whose tensor has channels last, from packed ones.
std::vector<float> channels_last(const Extents& e, const std::vector<float>& values, bool back = false) {
  std::vector<float> result(values.size());
  for (std::int64_t n = 0, i = 0; n < e[0]; ++n) {
    for (std::int64_t c = 0; c < e[1]; ++c) {
      for (std::int64_t hw = 0; hw < e[2] * e[3]; ++hw, ++i) {
        const auto j = static_cast<std::size_t>((n * e[2] * e[3] + hw) * e[1] + c);
        (back ? result[static_cast<std::size_t>(i)] : result[j]) = values[back ? j : static_cast<std::size_t>(i)];
      }
    }
  }
  return result;
}

/// Adds the products of a convolution to one of the three.
void naive_convolution(Kind kind, const Shape& s, std::vector<float>& x, std::vector<float>& w, std::vector<float>& y) {
  const auto at = [](const Extents& e, std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
    return static_cast<std::size_t>(((a * e[1] + b) * e[2] + c) * e[3] + d);
  };
  const Extents ye = s.y();
  for (std::int64_t n = 0; n < s.n; ++n)
    for (std::int64_t k = 0; k < s.k; ++k)
      for (std::int64_t p = 0; p < ye[2]; ++p)
        for (std::int64_t q = 0; q < ye[3]; ++q)
          for (std::int64_t c = 0; c < s.c / s.groups; ++c)
            for (std::int64_t r = 0; r < s.filter[0]; ++r)
              for (std::int64_t t = 0; t < s.filter[1]; ++t) {
                const bool flip = s.mode == CUDNN_CONVOLUTION;
                const auto h = p * s.stride[0] - s.before[0] + r * s.dilation[0];
                const auto v = q * s.stride[1] - s.before[1] + t * s.dilation[1];
                if (h < 0 || v < 0 || h >= s.image[0] || v >= s.image[1]) continue;
                const auto channel = k / (s.k / s.groups) * (s.c / s.groups) + c;
                float& xv = x[at(s.x(), n, channel, h, v)];
                float& wv = w[at(s.w(), k, c, flip ? s.filter[0] - 1 - r : r, flip ? s.filter[1] - 1 - t : t)];
                float& yv = y[at(ye, n, k, p, q)];
                if (kind == Kind::forward) yv += xv * wv;
                if (kind == Kind::data) xv += yv * wv;
                if (kind == Kind::filter) wv += xv * yv;
              }
}

void check_convolution(Kind kind, const Shape& s, bool last = false, float beta = 0) {
  const Library library;
  const Desc x = tensor({1, s.x(), CUDNN_DATA_FLOAT, false, last});
  const Desc w = tensor({2, s.w(), CUDNN_DATA_FLOAT, false, last});
  const Desc y = tensor({3, s.y(), CUDNN_DATA_FLOAT, false, last});
  const Desc operation = unfinished_operation(kind, s, x, w, y, beta).done();
  const Desc graph = unfinished_graph({&operation}).done();
  auto xv = tensor_examples(s.x(), 1);
  auto wv = tensor_examples(s.w(), 2);
  auto yv = tensor_examples(s.y(), 3);
  const auto arranged = [&](const Extents& e, const std::vector<float>& v) { return last ? channels_last(e, v) : v; };
  const DeviceArray<float> on_x(arranged(s.x(), xv)), on_w(arranged(s.w(), wv)), on_y(arranged(s.y(), yv));
  REQUIRE(execute(library, plan_for(graph, exact), {{1, on_x.data()}, {2, on_w.data()}, {3, on_y.data()}}) ==
          CUDNN_STATUS_SUCCESS);
  auto& result = kind == Kind::forward ? yv : kind == Kind::data ? xv : wv;
  for (auto& value : result) value *= beta;
  naive_convolution(kind, s, xv, wv, yv);
  CHECK(on_x.read() == arranged(s.x(), xv));
  CHECK(on_w.read() == arranged(s.w(), wv));
  CHECK(on_y.read() == arranged(s.y(), yv));
}

TEST_CASE("each kind of convolution, with pads, strides, dilations, groups and both modes", "[simulated][cudnn]") {
  const auto kind = GENERATE(Kind::forward, Kind::data, Kind::filter);
  Shape s;
  SECTION("plain") { check_convolution(kind, s); }
  SECTION("strided") {
    s.stride = {2, 3};
    s.before = {2, 1};
    check_convolution(kind, s);
  }
  SECTION("dilated") {
    s.dilation = {2, 3};
    s.after = {0, 2};
    check_convolution(kind, s);
  }
  SECTION("grouped") {
    s.groups = 2;
    check_convolution(kind, s);
  }
  SECTION("flipped") {
    s.mode = CUDNN_CONVOLUTION;
    check_convolution(kind, s);
  }
  SECTION("channels last") { check_convolution(kind, s, true); }
  SECTION("added to what was there") { check_convolution(kind, s, false, 1); }
}

TEST_CASE("tensor cores round what is multiplied to tf32, and say so", "[simulated][cudnn]") {
  Shape s;
  s.n = s.c = s.k = 1;
  s.image = s.filter = {1, 1};
  s.before = s.after = {0, 0};
  const Library library;
  const Desc x = tensor({1, s.x()}), w = tensor({2, s.w()}), y = tensor({3, s.y()});
  const Desc operation = unfinished_operation(Kind::forward, s, x, w, y).done();
  const Desc graph = unfinished_graph({&operation}).done();
  const float a = 1 + 1.0F / 4096;
  const DeviceArray<float> on_x(std::vector<float>{a}), on_w(std::vector<float>{3}), on_y(1);
  const std::map<std::int64_t, void*> tensors{{1, on_x.data()}, {2, on_w.data()}, {3, on_y.data()}};
  REQUIRE(execute(library, plan_for(graph, exact), tensors) == CUDNN_STATUS_SUCCESS);
  CHECK(on_y.read()[0] == 3 * a);
  const auto cores = plan_for(graph, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE});
  REQUIRE(execute(library, cores, tensors) == CUDNN_STATUS_SUCCESS);
  CHECK(on_y.read()[0] == 3);
}

TEST_CASE("the engine that says it is not deterministic is not", "[simulated][cudnn]") {
  Shape s;
  s.c = 16;
  const Library library;
  const Desc x = tensor({1, s.x()}), w = tensor({2, s.w()}), y = tensor({3, s.y()});
  const Desc operation = unfinished_operation(Kind::forward, s, x, w, y).done();
  const Desc graph = unfinished_graph({&operation}).done();
  auto xv = tensor_examples(s.x(), 1);
  for (std::size_t i = 0; i < xv.size(); ++i) xv[i] *= 1 + static_cast<float>(i) * 1e-4F;
  const DeviceArray<float> on_x(xv), on_w(tensor_examples(s.w(), 2)), on_y(size(s.y()));
  const auto plan = plan_for(graph, unordered);
  std::vector<std::vector<float>> results;
  for (int i = 0; i < 2; ++i) {
    REQUIRE(execute(library, plan, {{1, on_x.data()}, {2, on_w.data()}, {3, on_y.data()}}) == CUDNN_STATUS_SUCCESS);
    results.push_back(on_y.read());
  }
  CHECK(results[0] != results[1]);
  for (std::size_t i = 0; i < results[0].size(); ++i) REQUIRE(std::abs(results[0][i] - results[1][i]) < 1e-5F);
}

TEST_CASE("a bias and a ReLU behind a convolution, through virtual tensors of bf16", "[simulated][cudnn]") {
  const Shape s;
  const Library library;
  const auto half = CUDNN_DATA_BFLOAT16;
  const Desc x = tensor({1, s.x(), half}), w = tensor({2, s.w(), half}), b = tensor({4, {1, s.k, 1, 1}, half});
  const Desc v1 = tensor({10, s.y(), CUDNN_DATA_FLOAT, true}), v2 = tensor({11, s.y(), half, true});
  const Desc y = tensor({3, s.y(), half});
  const Desc first = unfinished_operation(Kind::forward, s, x, w, v1).done();
  const Desc second = pointwise(CUDNN_POINTWISE_ADD, {{in_x, &v1}, {in_b, &b}, {out_y, &v2}}).done();
  const Desc third = pointwise(CUDNN_POINTWISE_RELU_FWD, {{in_x, &v2}, {out_y, &y}}).done();
  const Desc graph = unfinished_graph({&third, &first, &second}).done();
  const auto to_half = [](const std::vector<float>& values) {
    std::vector<std::uint16_t> halves(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      store(Number::bfloat16, halves.data(), static_cast<std::int64_t>(i), values[i]);
    }
    return halves;
  };
  auto xv = tensor_examples(s.x(), 1), wv = tensor_examples(s.w(), 2);
  const auto bv = tensor_examples({1, s.k, 1, 1}, 4);
  std::vector<float> yv(size(s.y()));
  const DeviceArray<std::uint16_t> on_x(to_half(xv)), on_w(to_half(wv)), on_b(to_half(bv)), on_y(yv.size());
  const auto plan = plan_for(graph, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE});
  std::map<std::int64_t, void*> tensors{{1, on_x.data()}, {2, on_w.data()}, {3, on_y.data()}, {4, on_b.data()}};
  REQUIRE(execute(library, plan, tensors) == CUDNN_STATUS_SUCCESS);
  naive_convolution(Kind::forward, s, xv, wv, yv);
  const std::size_t plane = yv.size() / static_cast<std::size_t>(s.n * s.k);
  for (std::size_t i = 0; i < yv.size(); ++i) {
    yv[i] = std::max(0.0F, to_bfloat16(yv[i] + bv[i / plane % static_cast<std::size_t>(s.k)]));
  }
  CHECK(on_y.read() == to_half(yv));

  // What is virtual may not be given, what is not must be.
  tensors[10] = on_y.data();
  CHECK(execute(library, plan, tensors) == CUDNN_STATUS_BAD_PARAM);
  tensors.erase(10);
  tensors.erase(4);
  CHECK(execute(library, plan, tensors) == CUDNN_STATUS_BAD_PARAM);
  tensors[4] = reinterpret_cast<std::byte*>(on_b.data()) + 2;
  CHECK(execute(library, plan, tensors) == CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
}

TEST_CASE("gradients of a filter in float from tensors of bf16 have a fallback engine alone", "[simulated][cudnn]") {
  Shape s;
  s.c = GENERATE(3, 8);
  s.k = GENERATE(5, 16);
  const bool packs = s.c == 8 && s.k == 16;
  const auto half = CUDNN_DATA_BFLOAT16;
  const Desc x = tensor({1, s.x(), half}), w = tensor({2, s.w()}), y = tensor({3, s.y(), half});
  const Desc operation = unfinished_operation(Kind::filter, s, x, w, y).done();
  const Desc graph = unfinished_graph({&operation}).done();
  CHECK(configurations(graph, CUDNN_HEUR_MODE_A).empty());
  CHECK(configurations(graph, CUDNN_HEUR_MODE_INSTANT).empty());
  CHECK(configurations(graph, CUDNN_HEUR_MODE_FALLBACK).size() == (packs ? 1 : 0));
  const Desc forward = unfinished_operation(Kind::forward, s, x, tensor({4, s.w(), half}), tensor({5, s.y()})).done();
  CHECK(configurations(unfinished_graph({&forward}).done(), CUDNN_HEUR_MODE_INSTANT).empty());
}

TEST_CASE("a ReLU's gradient", "[simulated][cudnn]") {
  const Extents extents{1, 2, 1, 2};
  const Library library;
  const Desc x = tensor({1, extents}), dy = tensor({2, extents}), dx = tensor({3, extents});
  const Desc operation = pointwise(CUDNN_POINTWISE_RELU_BWD, {{in_x, &x},
                                                              {CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, &dy},
                                                              {CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, &dx}})
                             .done();
  const Desc graph = unfinished_graph({&operation}).done();
  const DeviceArray<float> on_x(std::vector<float>{-1, 0, 1, 2}), on_dy(std::vector<float>{5, 6, 7, 8}), on_dx(4);
  const auto plan = plan_for(graph, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE});
  REQUIRE(execute(library, plan, {{1, on_x.data()}, {2, on_dy.data()}, {3, on_dx.data()}}) == CUDNN_STATUS_SUCCESS);
  CHECK(on_dx.read() == std::vector<float>{0, 0, 7, 8});
}

TEST_CASE("work with a shape or pointers that do not suit the plan is refused or aborts", "[simulated][cudnn][death]") {
  const Shape s;
  const Library library;
  const Desc x = tensor({1, s.x()}), w = tensor({2, s.w()}), y = tensor({3, s.y()});
  const Desc operation = unfinished_operation(Kind::forward, s, x, w, y).done();
  const Desc plan = plan_for(unfinished_graph({&operation}).done(), exact);
  const DeviceArray<float> on_x(size(s.x())), on_w(size(s.w())), on_y(size(s.y()));
  std::vector<float> host(size(s.y()));
  const auto run = [&](void* xp, void* wp, void* yp) {
    return death([&] { execute(library, plan, {{1, xp}, {2, wp}, {3, yp}}); });
  };
  CHECK_THAT(run(on_x.data() + 1, on_w.data(), on_y.data()), Contains("tensor 1"));
  CHECK_THAT(run(on_x.data(), on_w.data(), host.data()), Contains("tensor 3"));
  CHECK_THAT(run(on_y.data(), on_w.data(), on_y.data()), Contains("overlap"));
  CHECK(run(on_x.data(), on_w.data(), on_y.data()) == "exit 0");
  fail_next(Call::convolution);
  CHECK(execute(library, plan, {{1, on_x.data()}, {2, on_w.data()}, {3, on_y.data()}}) ==
        CUDNN_STATUS_EXECUTION_FAILED);
}

TEST_CASE("descriptors are checked when they are set and finalized", "[simulated][cudnn]") {
  const Shape s;
  const Desc x = tensor({1, s.x()}), w = tensor({2, s.w()}), y = tensor({3, s.y()});
  SECTION("types, counts and names of attributes") {
    Desc t = unfinished({1, s.x()});
    const auto id = CUDNN_ATTR_TENSOR_UNIQUE_ID;
    CHECK(t.try_set<float>(id, CUDNN_TYPE_FLOAT, {1}) == CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
    CHECK(t.try_set<std::int64_t>(id, CUDNN_TYPE_INT64, {1, 2}) == CUDNN_STATUS_BAD_PARAM);
    CHECK(t.try_set<std::int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, {1}) == CUDNN_STATUS_BAD_PARAM);
    std::int64_t value = 0;
    CHECK(cudnnBackendGetAttribute(t.handle, id, CUDNN_TYPE_INT64, 1, nullptr, &value) == CUDNN_STATUS_NOT_INITIALIZED);
    CHECK(t.finalize() == CUDNN_STATUS_SUCCESS);
    CHECK(cudnnBackendGetAttribute(t.handle, id, CUDNN_TYPE_INT64, 1, nullptr, &value) == CUDNN_STATUS_SUCCESS);
    CHECK(t.finalize() == CUDNN_STATUS_BAD_PARAM);
    CHECK(t.try_set<std::int64_t>(id, CUDNN_TYPE_INT64, {2}) == CUDNN_STATUS_BAD_PARAM);
    CHECK(cudnnBackendFinalize(nullptr) == CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  }
  SECTION("tensors") {
    CHECK(Desc(CUDNN_BACKEND_TENSOR_DESCRIPTOR).finalize() == CUDNN_STATUS_BAD_PARAM);
    CHECK(unfinished({1, s.x()}).integers(CUDNN_ATTR_TENSOR_STRIDES, {1, 1, 1, 1}).finalize() != CUDNN_STATUS_SUCCESS);
    CHECK(unfinished({1, s.x()}).integers(CUDNN_ATTR_TENSOR_STRIDES, {9, 3, 1}).finalize() != CUDNN_STATUS_SUCCESS);
    CHECK(unfinished({1, s.x()}).integers(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {3}).finalize() != CUDNN_STATUS_SUCCESS);
  }
  SECTION("extents of convolutions") {
    const auto made = [&](Extents xe, Extents we, Extents ye) {
      return unfinished_operation(Kind::forward, s, tensor({1, xe}), tensor({2, we}), tensor({3, ye})).finalize();
    };
    CHECK(made(s.x(), s.w(), s.y()) == CUDNN_STATUS_SUCCESS);
    CHECK(made({3, 4, 7, 6}, s.w(), s.y()) == CUDNN_STATUS_BAD_PARAM);
    CHECK(made(s.x(), {6, 3, 3, 2}, s.y()) == CUDNN_STATUS_BAD_PARAM);
    CHECK(made(s.x(), {6, 1, 3, 2}, s.y()) == CUDNN_STATUS_BAD_PARAM);  // 4 groups of 6 filters
    CHECK(made(s.x(), s.w(), {2, 5, 7, 6}) == CUDNN_STATUS_BAD_PARAM);
    CHECK(made(s.x(), s.w(), {2, 6, 7, 5}) == CUDNN_STATUS_BAD_PARAM);
  }
  SECTION("what is set must be finalized") {
    CHECK(unfinished_operation(Kind::forward, s, unfinished({1, s.x()}), w, y).finalize() == CUDNN_STATUS_BAD_PARAM);
    Desc graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    const Desc operation = unfinished_operation(Kind::forward, s, x, w, y);
    CHECK(graph.try_set<cudnnBackendDescriptor_t>(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                                  {operation.handle}) == CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
  }
  SECTION("graphs") {
    const Desc same_id = unfinished_operation(Kind::forward, s, x, tensor({1, s.w()}), y).done();
    CHECK(unfinished_graph({&same_id}).finalize() == CUDNN_STATUS_BAD_PARAM);
    const Desc never_written = tensor({9, s.y(), CUDNN_DATA_FLOAT, true});
    const Desc relu = pointwise(CUDNN_POINTWISE_RELU_FWD, {{in_x, &never_written}, {out_y, &y}}).done();
    CHECK(unfinished_graph({&relu}).finalize() == CUDNN_STATUS_BAD_PARAM);
  }
  SECTION("pointwise operations") {
    const Desc wide = tensor({7, {1, 5, 1, 1}});
    const Desc other = tensor({8, s.y()});
    CHECK(pointwise(CUDNN_POINTWISE_ADD, {{in_x, &y}, {in_b, &wide}, {out_y, &other}}).finalize() ==
          CUDNN_STATUS_BAD_PARAM);
    CHECK(pointwise(CUDNN_POINTWISE_ADD, {{in_x, &y}, {out_y, &other}}).finalize() == CUDNN_STATUS_BAD_PARAM);
    CHECK(pointwise(CUDNN_POINTWISE_EXP, {{in_x, &y}, {out_y, &other}}).finalize() == CUDNN_STATUS_NOT_SUPPORTED);
  }
}

}  // namespace
}  // namespace simulated
