#include "operations.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "unisono/base/random.hpp"
#include "unisono/tensor/layout.hpp"

namespace unisono {
namespace {

using Floats = std::vector<float>;

/// Numbers of eight bits of mantissa, as bfloat16 holds them, in [low, high).
Floats numbers(Index count, std::uint64_t stream, float low = -1, float high = 1) {
  RandomStream random(7, Purpose::test, stream);
  Floats values(static_cast<std::size_t>(count));
  for (float& value : values) {
    int exponent = 0;
    const float mantissa = std::frexp(random.uniform(low, high), &exponent);
    value = std::ldexp(std::round(std::ldexp(mantissa, 8)), exponent - 8);
  }
  return values;
}

/// A backend, and vectors in its memory. New memory is full of NaN: what nobody writes shows.
class Device {
 public:
  explicit Device(kernels::Backend& backend) : backend_(backend) {}

  Buffer vector(Index size) const {
    Buffer buffer(size, backend_.memory());
    const Floats nan(static_cast<std::size_t>(size), std::numeric_limits<float>::quiet_NaN());
    backend_.memory().copy(nan, buffer.view());
    return buffer;
  }
  Buffer vector(const Floats& values) const {
    Buffer buffer(static_cast<Index>(values.size()), backend_.memory());
    backend_.memory().copy(values, buffer.view());
    return buffer;
  }
  Floats values(const Buffer& buffer) const {
    Floats values(static_cast<std::size_t>(buffer.size()));
    backend_.memory().copy(buffer.view(), values);
    return values;
  }

  Buffer activations(const kernels::Extent& extent, Index batch) const {
    return vector(backend_.activation_size(extent, batch));
  }
  Buffer activations(const kernels::Extent& extent, Index batch, const Floats& canonical) const {
    Buffer buffer = activations(extent, batch);
    if (batch == 0) return buffer;
    backend_.load(extent, batch, canonical, buffer.view());
    backend_.submit();
    return buffer;
  }
  Floats canonical(const kernels::Extent& extent, Index batch, const Buffer& buffer) const {
    Floats values(static_cast<std::size_t>(batch * extent.size()));
    if (batch > 0) backend_.store(extent, batch, buffer.view(), values);
    return values;
  }

  /// Parameters in the backend's order.
  Buffer parameters(const Block& block, const Floats& canonical) const {
    Floats stored(canonical.size());
    from_canonical(block, canonical, stored);
    return vector(stored);
  }
  /// A layer's weights and biases as a pass finds them in θ.
  struct Layer {
    Buffer theta;
    View w, b;
  };
  /// Begins a pass of it. \param biases may be empty
  Layer begin_pass(const Block& block, const Floats& weights, const Floats& biases) const {
    const std::size_t behind = static_cast<std::size_t>(round_up_to_line(std::ssize(weights)));
    Floats stored(behind + biases.size());
    from_canonical(block, weights, std::span(stored).first(weights.size()));
    std::ranges::copy(biases, stored.begin() + static_cast<std::ptrdiff_t>(behind));
    Layer layer{.theta = vector(stored), .w = {}, .b = {}};
    layer.w = layer.theta.view().first(weights.size());
    if (!biases.empty()) layer.b = layer.theta.view().subspan(behind);
    backend_.begin_pass(layer.theta.view());
    return layer;
  }
  Floats canonical(const Block& block, const Buffer& buffer) const {
    const Floats stored = values(buffer);
    Floats canonical(stored.size());
    to_canonical(block, stored, canonical);
    return canonical;
  }

 private:
  kernels::Backend& backend_;
};

Block block_of(std::vector<Index> shape, std::vector<int> axes) {
  Block block;
  block.shape = std::move(shape);
  block.axes = std::move(axes);
  return block;
}

std::string text_of(const kernels::Extent& e) { return fmt::format("{}×{}×{}", e.channels, e.height, e.width); }

const char* name_of(kernels::Activation activation) {
  constexpr const char* kNames[] = {"none", "relu",       "gelu", "tanh",     "sigmoid",
                                    "silu", "leaky ReLU", "ELU",  "softplus", "gelu by tanh"};
  return kNames[static_cast<int>(activation)];
}

struct Batched {
  kernels::Extent extent;
  Index batch;
};
std::vector<Batched> odd_shapes() {
  std::vector<Batched> shapes;
  for (const Index batch : {1, 3, 33}) {
    for (const kernels::Extent extent :
         {kernels::Extent{1, 1, 1}, {7, 1, 1}, {64, 1, 1}, {3, 5, 4}, {16, 4, 4}, {33, 2, 3}}) {
      shapes.push_back({extent, batch});
    }
  }
  return shapes;
}

using Table = std::vector<Operation>;

// --- Dense and convolution -------------------------------------------------------------------------------------------

void add_dense(Table& table) {
  struct Case {
    kernels::Extent in;
    Index units, batch;
    kernels::Activation activation;
    bool bias;
    kernels::Write write;
  };
  std::vector<Case> cases;
  for (const Index batch : {1, 5, 64}) {
    for (const kernels::Extent in : {kernels::Extent{1, 1, 1}, {13, 1, 1}, {64, 1, 1}, {3, 4, 5}}) {
      for (const Index units : {1, 10, 32}) {
        cases.push_back({in, units, batch, kernels::Activation::none, true, kernels::Write::overwrite});
        cases.push_back({in, units, batch, kernels::Activation::relu, true, kernels::Write::overwrite});
      }
    }
  }
  for (const kernels::Write write : {kernels::Write::overwrite, kernels::Write::add}) {
    for (const kernels::Activation activation : {kernels::Activation::none, kernels::Activation::relu}) {
      for (const bool bias : {false, true}) cases.push_back({{20, 1, 1}, 24, 17, activation, bias, write});
    }
  }
  for (const Case& c : cases) {
    const kernels::DenseSpec spec{c.in, c.units, c.activation};
    const std::string name =
        fmt::format("dense {} → {}, batch {}, {}, {}, {}", text_of(c.in), c.units, c.batch, name_of(c.activation),
                    c.bias ? "bias" : "no bias", c.write == kernels::Write::add ? "added" : "overwritten");
    table.push_back(
        {name, [=](kernels::Backend& backend) -> Results {
           const Device device(backend);
           const kernels::Extent out{c.units, 1, 1};
           const Index inputs = c.in.size();
           const Block block = block_of({c.units, c.in.channels, c.in.height, c.in.width}, backend.dense_weight_axes());
           const Buffer x = device.activations(c.in, c.batch, numbers(c.batch * inputs, 1));
           const auto layer = device.begin_pass(block, numbers(c.units * inputs, 2), numbers(c.bias ? c.units : 0, 3));
           Buffer y = device.activations(out, c.batch);
           backend.dense_forward(spec, c.batch, x.view(), layer.w, layer.b, y.view());
           const Floats forward = device.canonical(out, c.batch, y);

           // Backward at outputs that are the same for all: masks of rounded ones could differ.
           const Buffer given = device.activations(out, c.batch, numbers(c.batch * c.units, 4));
           Buffer dy = device.activations(out, c.batch, numbers(c.batch * c.units, 5));
           Buffer dx = device.activations(c.in, c.batch);
           Buffer dw = device.parameters(block, numbers(c.units * inputs, 6));
           Buffer db = c.bias ? device.vector(numbers(c.units, 7)) : Buffer();
           backend.dense_backward(spec, c.batch, x.view(), layer.w, given.view(), dy.view(), dx.view(), dw.view(),
                                  db.view(), c.write);
           // y: rounded once more where cuBLASLt has no kernel that adds the bias.
           Results results = {{"y", forward, static_cast<double>(inputs + 1), true, 2},
                              {"dx", device.canonical(c.in, c.batch, dx), static_cast<double>(c.units)},
                              {"dw", device.canonical(block, dw), static_cast<double>(c.batch + 1), false}};
           if (c.bias) results.push_back({"db", device.values(db), static_cast<double>(c.batch + 1), false});
           return results;
         }});
  }
}

void add_convolutions(Table& table) {
  struct Case {
    const char* what;
    kernels::ConvolutionSpec spec;
    Index batch;
    bool bias;
    kernels::Write write = kernels::Write::overwrite;
  };
  const auto spec = [](kernels::Extent in, Index channels, Index kernel, Index stride, Index padding,
                       kernels::Activation activation) {
    kernels::ConvolutionSpec s{.in = in, .channels = channels, .kernel_height = kernel, .kernel_width = kernel};
    s.stride_height = s.stride_width = stride;
    s.padding_height = s.padding_width = padding;
    s.activation = activation;
    return s;
  };
  constexpr auto kNone = kernels::Activation::none, kRelu = kernels::Activation::relu;
  std::vector<Case> cases = {{"3×3", spec({8, 6, 6}, 16, 3, 1, 1, kNone), 3, false},
                             {"3×3, bias", spec({8, 6, 6}, 16, 3, 1, 1, kNone), 3, true},
                             {"3×3, bias and ReLU", spec({8, 6, 6}, 16, 3, 1, 1, kRelu), 3, true},
                             {"3×3, ReLU", spec({8, 6, 6}, 16, 3, 1, 1, kRelu), 2, false},
                             {"5×5 of one channel", spec({1, 12, 12}, 20, 5, 1, 0, kRelu), 4, true},
                             {"3×3 of three channels, stride 2", spec({3, 9, 7}, 5, 3, 2, 1, kRelu), 2, true},
                             {"1×1, stride 2", spec({16, 8, 8}, 32, 1, 2, 0, kNone), 2, false},
                             {"added to", spec({4, 5, 5}, 6, 3, 1, 1, kRelu), 2, true, kernels::Write::add}};
  kernels::ConvolutionSpec grouped = spec({6, 7, 8}, 9, 3, 1, 2, kNone);
  grouped.groups = 3;
  grouped.dilation_height = 2;
  grouped.kernel_width = 2;
  cases.push_back({"grouped, dilated, oblong", grouped, 2, true});
  for (const Case& c : cases) {
    table.push_back(
        {fmt::format("convolution {} of {}", c.what, text_of(c.spec.in)), [=](kernels::Backend& backend) -> Results {
           const Device device(backend);
           const kernels::ConvolutionSpec& s = c.spec;
           const kernels::Extent out = s.out();
           const Block block = block_of({s.channels, s.in.channels / s.groups, s.kernel_height, s.kernel_width},
                                        backend.convolution_weight_axes());
           const Buffer x = device.activations(s.in, c.batch, numbers(c.batch * s.in.size(), 11));
           const auto layer = device.begin_pass(block, numbers(block.size(), 12), numbers(c.bias ? s.channels : 0, 13));
           Buffer y = device.activations(out, c.batch);
           backend.convolution_forward(s, c.batch, x.view(), layer.w, layer.b, y.view());
           const Floats forward = device.canonical(out, c.batch, y);

           const Buffer given = device.activations(out, c.batch, numbers(c.batch * out.size(), 14));
           Buffer dy = device.activations(out, c.batch, numbers(c.batch * out.size(), 15));
           Buffer dx = device.activations(s.in, c.batch);
           Buffer dw = device.parameters(block, numbers(block.size(), 16));
           Buffer db = c.bias ? device.vector(numbers(s.channels, 17)) : Buffer();
           backend.convolution_backward(s, c.batch, x.view(), layer.w, given.view(), dy.view(), dx.view(), dw.view(),
                                        db.view(), c.write);
           const auto inputs = static_cast<double>(block.row_size());
           const auto outputs = static_cast<double>(s.channels / s.groups * s.kernel_height * s.kernel_width);
           const auto places = static_cast<double>(c.batch * out.height * out.width);
           // dw: rounded where cuDNN has no tuned engine that gives floats, as for bf16 on an H100.
           Results results = {{"y", forward, inputs + 1, true, 2},
                              {"dx", device.canonical(s.in, c.batch, dx), outputs},
                              {"dw", device.canonical(block, dw), places + 1, true, 2}};
           if (c.bias) results.push_back({"db", device.values(db), places + 1, false});
           return results;
         }});
  }
}

// --- Pooling ---------------------------------------------------------------------------------------------------------

void add_pools(Table& table) {
  struct Case {
    kernels::PoolSpec spec;
    Index batch;
  };
  std::vector<Case> cases;
  for (const kernels::PoolKind kind : {kernels::PoolKind::max, kernels::PoolKind::average}) {
    cases.push_back({{kind, {5, 6, 6}}, 3});
    cases.push_back({{kind, {3, 7, 9}, 3, 2, 2, 1, 1, 0}, 2});
    cases.push_back({{kind, {16, 5, 5}, 3, 3, 1, 1, 1, 1}, 2});
    cases.push_back({{kind, {2, 8, 5}, 2, 2, 3, 3, 0, 0}, 1});
    cases.push_back({{.kind = kind, .in = {4, 7, 5}, .height = 4, .width = 3, .out_height = 3, .out_width = 2}, 2});
  }
  for (const Case& c : cases) {
    const std::string name =
        fmt::format("{} pool {}×{} of {}", c.spec.kind == kernels::PoolKind::max ? "max" : "average", c.spec.height,
                    c.spec.width, text_of(c.spec.in));
    table.push_back({name, [=](kernels::Backend& backend) -> Results {
                       const Device device(backend);
                       const kernels::Extent out = c.spec.out();
                       Floats inputs = numbers(c.batch * c.spec.in.size(), 21);
                       for (std::size_t i = 0; i < inputs.size(); i += 3) inputs[i] = 0.5F;  // ties
                       const Buffer x = device.activations(c.spec.in, c.batch, inputs);
                       Buffer y = device.activations(out, c.batch);
                       backend.pool_forward(c.spec, c.batch, x.view(), y.view());
                       const Floats forward = device.canonical(out, c.batch, y);
                       const Buffer dy = device.activations(out, c.batch, numbers(c.batch * out.size(), 22));
                       Buffer dx = device.activations(c.spec.in, c.batch);
                       const bool average = c.spec.kind == kernels::PoolKind::average;
                       backend.pool_backward(c.spec, c.batch, average ? View{} : x.view(), average ? View{} : y.view(),
                                             dy.view(), dx.view());
                       const auto window = static_cast<double>(c.spec.height * c.spec.width);
                       return {{"y", forward, window}, {"dx", device.canonical(c.spec.in, c.batch, dx), window}};
                     }});
  }
  for (const auto& [extent, batch] : odd_shapes()) {
    table.push_back({fmt::format("global average pool of {}, batch {}", text_of(extent), batch),
                     [extent = extent, batch = batch](kernels::Backend& backend) -> Results {
                       const Device device(backend);
                       const kernels::Extent out{extent.channels, 1, 1};
                       const Buffer x = device.activations(extent, batch, numbers(batch * extent.size(), 23));
                       Buffer y = device.activations(out, batch), dx = device.activations(extent, batch);
                       backend.global_average_pool_forward(extent, batch, x.view(), y.view());
                       const Buffer dy = device.activations(out, batch, numbers(batch * out.size(), 24));
                       backend.global_average_pool_backward(extent, batch, dy.view(), dx.view());
                       return {
                           {"y", device.canonical(out, batch, y), static_cast<double>(extent.height * extent.width)},
                           {"dx", device.canonical(extent, batch, dx)}};
                     }});
  }
}

// --- Normalisation ---------------------------------------------------------------------------------------------------

void add_batch_norms(Table& table) {
  for (const auto& [extent, batch] : odd_shapes()) {
    struct Fused {
      const char* text;
      bool relu, residual;
    };
    for (const auto& [text, relu, fused] :
         {Fused{"", false, false}, {"with ReLU ", true, false}, {"with ReLU and residual ", true, true}}) {
      const std::string name = fmt::format("batch norm {}of {}, batch {}", text, text_of(extent), batch);
      table.push_back(
          {name, [=, extent = extent, batch = batch, relu = relu, fused = fused](kernels::Backend& backend) -> Results {
             const Device device(backend);
             const kernels::NormSpec spec{.extent = extent,
                                          .epsilon = 1e-3F,
                                          .activation = relu ? kernels::Activation::relu : kernels::Activation::none,
                                          .adds_residual = fused};
             const Index c = extent.channels;
             const auto count = static_cast<double>(batch * extent.height * extent.width);
             const Buffer x = device.activations(extent, batch, numbers(batch * extent.size(), 31));
             const Buffer residual =
                 fused ? device.activations(extent, batch, numbers(batch * extent.size(), 32)) : Buffer();
             const Buffer gamma = device.vector(numbers(c, 33, 0.5F, 1.5F));
             const Buffer beta = device.vector(numbers(c, 34));
             Buffer running_mean = device.vector(numbers(c, 35));
             Buffer running_variance = device.vector(numbers(c, 36, 0.5F, 1.5F));
             Buffer mean = device.vector(c), inverse = device.vector(c);
             Buffer sums = device.vector(4 * c + 2);
             backend.batch_norm_sums(spec, batch, x.view(), as_doubles(sums.view()));
             backend.batch_norm_moments(spec, as_doubles(sums.view()), 0.25, running_mean.view(),
                                        running_variance.view(), mean.view(), inverse.view());
             Results results = {{"mean", device.values(mean), 1, false},
                                {"inverse deviation", device.values(inverse), 2, false},
                                {"running mean", device.values(running_mean), 2, false},
                                {"running variance", device.values(running_variance), 2, false}};
             // From here on with moments that are the same for all.
             backend.batch_norm_running_moments(spec, beta.view(), gamma.view(), mean.view(), inverse.view());
             results.push_back({"from running", device.values(inverse), 2, false});
             Buffer y = device.activations(extent, batch);
             const kernels::NormTerms terms{mean.view(), inverse.view(), gamma.view(), beta.view()};
             backend.batch_norm_forward(spec, batch, x.view(), terms, residual.view(), y.view());
             results.push_back({"y", device.canonical(extent, batch, y), 4});
             const Buffer given = device.activations(extent, batch, numbers(batch * extent.size(), 37));
             Buffer dy = device.activations(extent, batch, numbers(batch * extent.size(), 38));
             backend.batch_norm_backward_sums(spec, batch, x.view(), terms, given.view(), dy.view(),
                                              as_doubles(sums.view()));
             Buffer dgamma = device.vector(numbers(c, 39)), dbeta = device.vector(numbers(c, 40));
             backend.batch_norm_parameter_gradients(spec, as_doubles(sums.view()), dgamma.view(), dbeta.view(),
                                                    fused ? kernels::Write::add : kernels::Write::overwrite);
             Buffer dx = device.activations(extent, batch);
             backend.batch_norm_backward(spec, batch, x.view(), terms, dy.view(), as_doubles(sums.view()), dx.view());
             results.push_back({"dy", device.canonical(extent, batch, dy)});
             results.push_back({"dγ", device.values(dgamma), 4 * count, false});
             results.push_back({"dβ", device.values(dbeta), 4 * count, false});
             results.push_back({"dx", device.canonical(extent, batch, dx), 8});
             return results;
           }});
    }
  }
}

void add_layer_norms(Table& table) {
  for (const auto& [extent, batch] : odd_shapes()) {
    if (extent.size() == 1) continue;  // of one value the deviation is 0
    for (const bool of_pixels : {false, true}) {
      if (of_pixels && extent.channels == 1) continue;
      const kernels::Write write = batch == 3 ? kernels::Write::add : kernels::Write::overwrite;
      table.push_back({fmt::format("layer norm of {}{}, batch {}, {}", of_pixels ? "the pixels of " : "",
                                   text_of(extent), batch, write == kernels::Write::add ? "added" : "overwritten"),
                       [=, extent = extent, batch = batch](kernels::Backend& backend) -> Results {
                         const Device device(backend);
                         const kernels::NormSpec spec{.extent = extent, .epsilon = 1e-3F, .of_pixels = of_pixels};
                         const Index parameters = of_pixels ? extent.channels : extent.size();
                         const Index rows = of_pixels ? batch * extent.height * extent.width : batch;
                         const Block block = of_pixels ? block_of({extent.channels}, {})
                                                       : block_of({extent.channels, extent.height, extent.width},
                                                                  backend.feature_axes());
                         const Buffer x = device.activations(extent, batch, numbers(batch * extent.size(), 41));
                         const Buffer gamma = device.parameters(block, numbers(parameters, 42, 0.5F, 1.5F));
                         const Buffer beta = device.parameters(block, numbers(parameters, 43));
                         Buffer y = device.activations(extent, batch), dx = device.activations(extent, batch);
                         backend.layer_norm_forward(spec, batch, x.view(), gamma.view(), beta.view(), y.view());
                         const Buffer dy = device.activations(extent, batch, numbers(batch * extent.size(), 44));
                         Buffer dgamma = device.parameters(block, numbers(parameters, 45));
                         Buffer dbeta = device.parameters(block, numbers(parameters, 46));
                         backend.layer_norm_backward(spec, batch, x.view(), gamma.view(), dy.view(), dx.view(),
                                                     dgamma.view(), dbeta.view(), write);
                         // The deviation of few values may be small: errors are divided by it, by √ε = 1/32 at least.
                         const double terms = 32 + static_cast<double>(parameters), summed = static_cast<double>(rows);
                         return {{"y", device.canonical(extent, batch, y), 4 * terms},
                                 {"dx", device.canonical(extent, batch, dx), 8 * terms},
                                 {"dγ", device.canonical(block, dgamma), 8 * summed, false},
                                 {"dβ", device.canonical(block, dbeta), 8 * summed, false}};
                       }});
    }
  }
}

void add_channel_gates(Table& table) {
  for (const auto& [extent, batch] : odd_shapes()) {
    table.push_back({fmt::format("channel gate of {}, batch {}", text_of(extent), batch),
                     [extent = extent, batch = batch](kernels::Backend& backend) -> Results {
                       const Device device(backend);
                       const kernels::Extent flat{extent.channels, 1, 1};
                       const Buffer x = device.activations(extent, batch, numbers(batch * extent.size(), 151));
                       const Buffer factors = device.activations(flat, batch, numbers(batch * flat.size(), 152));
                       const Buffer dy = device.activations(extent, batch, numbers(batch * extent.size(), 153));
                       Buffer y = device.activations(extent, batch), dx = device.activations(extent, batch);
                       Buffer dfactors = device.activations(flat, batch);
                       backend.channel_gate_forward(extent, batch, x.view(), factors.view(), y.view());
                       backend.channel_gate_backward(extent, batch, x.view(), factors.view(), dy.view(), dx.view(),
                                                     dfactors.view());
                       return {{"y", device.canonical(extent, batch, y)},
                               {"dx", device.canonical(extent, batch, dx)},
                               {"dfactors", device.canonical(flat, batch, dfactors),
                                static_cast<double>(extent.height * extent.width)}};
                     }});
  }
}

// --- Element by element ----------------------------------------------------------------------------------------------

void add_elements(Table& table) {
  for (const auto& [extent, batch] : odd_shapes()) {
    for (const kernels::ActivationSpec& activation :
         {kernels::ActivationSpec(kernels::Activation::none), kernels::ActivationSpec(kernels::Activation::relu),
          kernels::ActivationSpec(kernels::Activation::gelu), kernels::ActivationSpec(kernels::Activation::tanh),
          kernels::ActivationSpec(kernels::Activation::sigmoid), kernels::ActivationSpec(kernels::Activation::silu),
          kernels::ActivationSpec(kernels::Activation::leaky_relu, 0.125F),
          kernels::ActivationSpec(kernels::Activation::elu, 0.75F),
          kernels::ActivationSpec(kernels::Activation::softplus),
          kernels::ActivationSpec(kernels::Activation::gelu_tanh)}) {
      table.push_back(
          {fmt::format("{} of {}, batch {}", name_of(activation.kind), text_of(extent), batch),
           [=, extent = extent, batch = batch](kernels::Backend& backend) -> Results {
             const Device device(backend);
             const Buffer x = device.activations(extent, batch, numbers(batch * extent.size(), 51, -4, 4));
             Buffer y = device.activations(extent, batch), dx = device.activations(extent, batch);
             backend.activation_forward(activation, extent, batch, x.view(), y.view());
             const Buffer given = device.activations(extent, batch, numbers(batch * extent.size(), 52, 0, 1));
             const Buffer dy = device.activations(extent, batch, numbers(batch * extent.size(), 53));
             const bool by_input = activation.reads_input();
             backend.activation_backward(activation, extent, batch, by_input ? x.view() : View{},
                                         by_input ? View{} : given.view(), dy.view(), dx.view());
             return {{"y", device.canonical(extent, batch, y), 24}, {"dx", device.canonical(extent, batch, dx), 24}};
           }});
    }
    table.push_back(
        {fmt::format("add and dropout of {}, batch {}", text_of(extent), batch),
         [extent = extent, batch = batch](kernels::Backend& backend) -> Results {
           const Device device(backend);
           const Buffer x = device.activations(extent, batch, numbers(batch * extent.size(), 54));
           Buffer y = device.activations(extent, batch, numbers(batch * extent.size(), 55));
           backend.add(extent, batch, x.view(), y.view());
           std::vector<std::uint64_t> examples;
           for (Index i = 0; i < batch; ++i) {
             examples.push_back((std::uint64_t{3} << 40) + static_cast<std::uint64_t>(977 * i));
           }
           Buffer dropped = device.activations(extent, batch);
           backend.dropout({.seed = 12, .epoch = 5, .layer = 3, .rate = 0.375F}, extent, examples, x.view(),
                           dropped.view());
           backend.submit();
           return {{"sum", device.canonical(extent, batch, y)}, {"dropped", device.canonical(extent, batch, dropped)}};
         }});
  }
}

// --- Losses ----------------------------------------------------------------------------------------------------------

/// Sums as results: figures that the device has added up in double.
void append_sums(Results& results, kernels::Backend& backend, kernels::LossSums& sums, double terms) {
  backend.collect(sums);
  const auto append = [&](const char* name, double value) {
    results.push_back({name, {static_cast<float>(value)}, terms, false});
  };
  append("loss", sums.loss);
  append("examples", static_cast<double>(sums.examples));
  append("correct", static_cast<double>(sums.correct));
  append("top 5", static_cast<double>(sums.correct_top5));
  append("squared error", sums.squared_error);
  append("absolute error", sums.absolute_error);
  append("targets", sums.target_sum);
  append("squared targets", sums.target_squared_sum);
  append("values", static_cast<double>(sums.values));
}

/// Weights of examples that every precision holds, zeros among them; none where they are not wanted.
Floats weights_of(Index batch, bool wanted) {
  Floats weights = numbers(wanted ? batch : 0, 66, 0.25F, 3);
  for (std::size_t i = 0; i < weights.size(); i += 6) weights[i] = 0;
  return weights;
}

void add_hinges(Table& table) {
  for (const Index batch : {1, 7, 130, 600}) {
    for (const Index classes : {1, 2, 10, 100}) {
      for (const bool weighted : {false, true}) {
        table.push_back(
            {fmt::format("hinge of {} classes, batch {}{}", classes, batch, weighted ? ", weighted" : ""),
             [=](kernels::Backend& backend) -> Results {
               const Device device(backend);
               const kernels::Extent extent{classes, 1, 1};
               Floats values = numbers(batch * classes, 67, -3, 3);
               for (std::size_t i = 0; i < values.size(); i += 5) values[i] = 1.5F;  // ties
               const Buffer scores = device.activations(extent, batch, values);
               const Floats weights = weights_of(batch, weighted);
               std::vector<std::int32_t> labels;
               for (Index i = 0; i < batch; ++i) {
                 labels.push_back(static_cast<std::int32_t>(7 * i % classes));
               }
               Buffer gradient = device.activations(extent, batch);
               kernels::LossSums sums;
               backend.multiclass_hinge(classes, batch, scores.view(), labels, {0.5F, weights}, gradient.view(), sums);
               backend.submit();
               backend.multiclass_hinge(classes, batch, scores.view(), labels, 0.5F, {}, sums);
               backend.submit();
               Results results = {{"dscores", device.canonical(extent, batch, gradient), 1}};
               append_sums(results, backend, sums, 16);
               return results;
             }});
      }
    }
  }
}

/// Losses of examples that have two labels each.
void add_mixed_losses(Table& table, Index batch) {
  for (const Index classes : {1, 5, 100}) {
    for (const bool sigmoid : {false, true}) {
      table.push_back(
          {fmt::format("{} of two labels of {}, batch {}", sigmoid ? "sigmoids" : "softmax", classes, batch),
           [=](kernels::Backend& backend) -> Results {
             const Device device(backend);
             const kernels::Extent extent{classes, 1, 1};
             const Buffer logits = device.activations(extent, batch, numbers(batch * classes, 68, -3, 3));
             const Floats shares = numbers(batch, 69, 0, 0.5F), weights = weights_of(batch, true);
             std::vector<std::int32_t> first, second;
             const Index most = sigmoid ? std::max<Index>(2, classes) : classes;  // one output: 0 and 1
             for (Index i = 0; i < batch; ++i) {
               first.push_back(static_cast<std::int32_t>(7 * i % most));
               second.push_back(static_cast<std::int32_t>(3 * i % most));
             }
             const kernels::Labels labels(first, second, shares);
             Buffer gradient = device.activations(extent, batch);
             kernels::LossSums sums;
             const kernels::LossScale scale{0.5F, weights};
             if (sigmoid) {
               backend.sigmoid_cross_entropy(extent, batch, logits.view(), labels, {}, 0.125F, scale, gradient.view(),
                                             sums);
             } else {
               backend.softmax_cross_entropy(classes, batch, logits.view(), labels, 0.125F, scale, gradient.view(),
                                             sums);
             }
             backend.submit();
             Results results = {{"dlogits", device.canonical(extent, batch, gradient), 32, true, 1, 0.5}};
             append_sums(results, backend, sums, 16);
             return results;
           }});
    }
  }
}

void add_losses(Table& table) {
  add_hinges(table);
  for (const Index batch : {1, 7, 130, 600}) {
    for (const Index classes : {2, 10, 100}) {
      for (const float smoothing : {0.0F, 0.125F}) {
        table.push_back({fmt::format("softmax of {} classes, batch {}, smoothing {}", classes, batch, smoothing),
                         [=](kernels::Backend& backend) -> Results {
                           const Device device(backend);
                           const kernels::Extent extent{classes, 1, 1};
                           Floats values = numbers(batch * classes, 61, -3, 3);
                           for (std::size_t i = 0; i < values.size(); i += 5) values[i] = 1.5F;  // ties
                           const Buffer logits = device.activations(extent, batch, values);
                           std::vector<std::int32_t> labels;
                           for (Index i = 0; i < batch; ++i)
                             labels.push_back(static_cast<std::int32_t>(7 * i % classes));
                           Buffer gradient = device.activations(extent, batch);
                           const Floats weights = weights_of(batch, smoothing == 0);
                           kernels::LossSums sums;
                           for (int twice = 0; twice < 2; ++twice) {
                             backend.softmax_cross_entropy(classes, batch, logits.view(), labels, smoothing,
                                                           {0.5F, weights}, gradient.view(), sums);
                             backend.submit();
                           }
                           backend.softmax_cross_entropy(classes, batch, logits.view(), labels, smoothing, 0.5F, {},
                                                         sums);
                           backend.submit();
                           Results results = {{"dlogits", device.canonical(extent, batch, gradient), 32, true, 1, 0.5}};
                           append_sums(results, backend, sums, 16);
                           return results;
                         }});
      }
    }
    add_mixed_losses(table, batch);
    for (const kernels::Extent extent : {kernels::Extent{5, 1, 1}, {1, 1, 1}, {3, 4, 5}}) {
      for (const bool labelled : {false, true}) {
        if (labelled && extent.height > 1) continue;
        table.push_back(
            {fmt::format("sigmoids of {}, batch {}, {}", text_of(extent), batch, labelled ? "labels" : "targets"),
             [=](kernels::Backend& backend) -> Results {
               const Device device(backend);
               const Buffer logits = device.activations(extent, batch, numbers(batch * extent.size(), 62, -3, 3));
               const Floats targets = numbers(batch * extent.size(), 63, 0, 1);
               std::vector<std::int32_t> labels;
               for (Index i = 0; i < batch; ++i) {
                 labels.push_back(static_cast<std::int32_t>(3 * i % std::max<Index>(2, extent.channels)));
               }
               Buffer gradient = device.activations(extent, batch);
               const Floats weights = weights_of(batch, labelled);
               kernels::LossSums sums;
               backend.sigmoid_cross_entropy(
                   extent, batch, logits.view(),
                   labelled ? std::span<const std::int32_t>(labels) : std::span<const std::int32_t>(),
                   labelled ? View{} : View(targets), 0.125F, {0.5F, weights}, gradient.view(), sums);
               backend.submit();
               Results results = {{"dlogits", device.canonical(extent, batch, gradient), 32, true, 1, 0.5}};
               append_sums(results, backend, sums, 16);
               return results;
             }});
      }
      for (const kernels::ErrorLoss loss :
           {kernels::ErrorLoss::squared, kernels::ErrorLoss::absolute, kernels::ErrorLoss::huber}) {
        for (const bool weighted : {false, true}) {
          const kernels::ErrorSpec spec{.extent = extent, .loss = loss, .delta = 0.375F};
          table.push_back(
              {fmt::format("errors, loss {}, of {}, batch {}{}", static_cast<int>(loss), text_of(extent), batch,
                           weighted ? ", weighted" : ""),
               [=](kernels::Backend& backend) -> Results {
                 const Device device(backend);
                 const Buffer outputs = device.activations(extent, batch, numbers(batch * extent.size(), 64));
                 const Floats targets = numbers(batch * extent.size(), 65);
                 const Floats weights = weights_of(batch, weighted);
                 Buffer gradient = device.activations(extent, batch);
                 kernels::LossSums sums;
                 backend.error_loss(spec, batch, outputs.view(), targets, {0.5F, weights}, gradient.view(), sums);
                 backend.submit();
                 Results results = {{"dy", device.canonical(extent, batch, gradient), 4}};
                 append_sums(results, backend, sums, 16);
                 return results;
               }});
        }
      }
    }
  }
}

// --- Vectors and update rules ----------------------------------------------------------------------------------------

/// θ, g and two states, in ranges that decay or not, are adapted or not, short and longer than a block's work; the
/// floats between them belong to nobody.
struct Vectors {
  static constexpr Index kSize = 20000;
  std::vector<kernels::UpdateRange> ranges = {{0, 16, false, false},
                                              {16, 4000, true, true},
                                              {4000, 4016, false, false},
                                              {4032, 17000, true, true},
                                              {17008, kSize, false, false}};
  Buffer theta, g, first, second;
  explicit Vectors(const Device& device)
      : theta(device.vector(numbers(kSize, 71))),
        g(device.vector(numbers(kSize, 72))),
        first(device.vector(numbers(kSize, 73))),
        second(device.vector(numbers(kSize, 74, 0, 1))) {}
  Results results(const Device& device) const {
    return {{"θ", device.values(theta), 24, false},
            {"first state", device.values(first), 24, false},
            {"second state", device.values(second), 24, false}};
  }
};

using Update = std::function<void(kernels::Backend&, Vectors&, const kernels::GradientScale&)>;

void add_update(Table& table, const std::string& name, const Update& update) {
  for (const double clip : {0.0, 0.5, 1e6}) {
    table.push_back({fmt::format("{}, clipped to {}", name, clip), [=](kernels::Backend& backend) -> Results {
                       const Device device(backend);
                       Vectors vectors(device);
                       Buffer norm = device.vector(2);
                       const kernels::UpdateRange all{0, Vectors::kSize};
                       backend.squared_norms(vectors.g.view(), {&all, 1}, as_doubles(norm.view()));
                       const kernels::GradientScale scale{
                           .factor = 0.25F, .clip_norm = clip, .squared_norm = as_doubles(norm.view())};
                       for (int step = 0; step < 3; ++step) {
                         update(backend, vectors, scale);
                         backend.submit();
                       }
                       return vectors.results(device);
                     }});
  }
}

void add_updates(Table& table) {
  for (const float momentum : {0.0F, 0.75F}) {
    for (const bool nesterov : {false, true}) {
      if (nesterov && momentum == 0) continue;
      add_update(table, fmt::format("sgd, momentum {}{}", momentum, nesterov ? ", nesterov" : ""),
                 [=](kernels::Backend& backend, Vectors& v, const kernels::GradientScale& scale) {
                   backend.sgd_update({0.125F, momentum, 0.01F, nesterov}, scale, v.ranges, v.g.view(), v.theta.view(),
                                      momentum == 0 ? MutableView{} : v.first.view());
                 });
    }
    add_update(table, fmt::format("lars, momentum {}", momentum),
               [=](kernels::Backend& backend, Vectors& v, const kernels::GradientScale& scale) {
                 Buffer norms(64, backend.memory());
                 const std::span<double> theta = as_doubles(norms.view().first(32)),
                                         g = as_doubles(norms.view().subspan(32));
                 backend.squared_norms(v.theta.view(), v.ranges, theta.first(v.ranges.size()));
                 backend.squared_norms(v.g.view(), v.ranges, g.first(v.ranges.size()));
                 backend.lars_update({0.125F, momentum, 0.01F, 0.02}, scale, v.ranges,
                                     {theta.first(v.ranges.size()), g.first(v.ranges.size())}, v.g.view(),
                                     v.theta.view(), momentum == 0 ? MutableView{} : v.first.view());
                 backend.submit();
               });
  }
  add_update(table, "adagrad", [](kernels::Backend& backend, Vectors& v, const kernels::GradientScale& scale) {
    backend.adagrad_update({0.125F, 0.01F, 1e-6F}, scale, v.ranges, v.g.view(), v.theta.view(), v.second.view());
  });
  add_update(table, "rmsprop", [](kernels::Backend& backend, Vectors& v, const kernels::GradientScale& scale) {
    backend.rmsprop_update({0.125F, 0.01F, 0.9F, 1e-6F}, scale, v.ranges, v.g.view(), v.theta.view(), v.second.view());
  });
  for (const bool decoupled : {false, true}) {
    kernels::AdamStep step{.rate = 0.125F, .decay = 0.01F, .beta1 = 0.9F, .beta2 = 0.99F, .epsilon = 1e-6F};
    step.correction1 = 2;
    step.correction2 = 3;
    step.decoupled = decoupled;
    add_update(table, decoupled ? "adamw" : "adam",
               [=](kernels::Backend& backend, Vectors& v, const kernels::GradientScale& scale) {
                 backend.adam_update(step, scale, v.ranges, v.g.view(), v.theta.view(), v.first.view(),
                                     v.second.view());
               });
    if (!decoupled) continue;
    add_update(table, "lamb", [=](kernels::Backend& backend, Vectors& v, const kernels::GradientScale& scale) {
      Buffer norms(64, backend.memory());
      const std::span<double> theta = as_doubles(norms.view().first(32)),
                              directions = as_doubles(norms.view().subspan(32));
      backend.squared_norms(v.theta.view(), v.ranges, theta.first(v.ranges.size()));
      backend.lamb_moments(step, scale, v.ranges, v.g.view(), v.theta.view(), v.first.view(), v.second.view(),
                           directions.first(v.ranges.size()));
      backend.lamb_apply(step, v.ranges, {theta.first(v.ranges.size()), directions.first(v.ranges.size())},
                         v.theta.view(), v.first.view(), v.second.view());
      backend.submit();
    });
  }
}

void add_algebra(Table& table) {
  for (const Index size : {1, 15, 16, 1000, 300'000}) {
    table.push_back({fmt::format("algebra of {} numbers", size), [=](kernels::Backend& backend) -> Results {
                       const Device device(backend);
                       const Buffer x = device.vector(numbers(size, 81));
                       Buffer sum = device.vector(numbers(size, 82)), scaled = device.vector(size),
                              cleared = device.vector(size), itself = device.vector(numbers(size, 83));
                       backend.axpby(0.75F, x.view(), -0.5F, sum.view());
                       backend.axpby(0.75F, x.view(), 0, scaled.view());
                       backend.axpby(-2, itself.view(), 0, itself.view());
                       backend.clear(cleared.view());
                       const auto norm = static_cast<float>(backend.squared_norm(x.view()));
                       const auto product = static_cast<float>(backend.dot(x.view(), sum.view()));
                       return {{"sum", device.values(sum), 2, false},
                               {"scaled", device.values(scaled), 1, false},
                               {"itself", device.values(itself), 1, false},
                               {"cleared", device.values(cleared), 1, false},
                               {"norm", {norm}, 1, false},
                               {"dot product", {product}, 1, false}};
                     }});
  }
}

}  // namespace

std::vector<Operation> vector_operations() {
  Table table;
  add_algebra(table);
  add_updates(table);
  return table;
}

std::vector<Operation> operations() {
  Table table;
  add_dense(table);
  add_convolutions(table);
  add_pools(table);
  add_channel_gates(table);
  add_batch_norms(table);
  add_layer_norms(table);
  add_elements(table);
  add_losses(table);
  return table;
}

}  // namespace unisono
