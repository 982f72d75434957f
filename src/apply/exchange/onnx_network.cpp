#include "exchange/onnx_network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>

#include "unisono/base/errors.hpp"

namespace unisono::apply {
namespace {

using Ints = std::vector<std::int64_t>;

/// Writes the operations of a network as nodes.
class OnnxNetwork {
 public:
  OnnxNetwork(OnnxGraph& graph, const nn::OperationList& network, const BlockValues& values)
      : graph_(graph), network_(network), values_(values) {}

  std::string run(const std::string& input) {
    tensors_ = {input};
    for (const nn::OperationStep& step : network_.steps) {
      graph_.enter(step.name);
      step_ = &step;
      x_ = in_form(step.input, step.input_form);
      tensors_.push_back(std::visit([&](const auto& operation) { return write(operation); }, step.operation));
    }
    return tensors_.back();
  }

 private:
  std::string node(const std::string& kind, const std::vector<std::string>& inputs,
                   const std::vector<OnnxAttribute>& attributes = {}) {
    return graph_.node(kind, inputs, attributes);
  }
  std::string numbers(const char* name, const std::vector<Index>& values) {
    return graph_.constant(fmt::format("{}/{}", step_->name, name), values);
  }
  std::string number(const char* name, double value) {
    return graph_.scalar(fmt::format("{}/{}", step_->name, name), static_cast<float>(value));
  }

  /// A block as a constant of this shape; the same one where it was asked for before.
  std::string parameter(const std::string& block, const std::vector<Index>& shape) {
    const auto [known, is_new] = parameters_.try_emplace({block, shape});
    if (is_new) known->second = graph_.constant(block, shape, values_(block));
    return known->second;
  }

  /// A tensor in another form than it has.
  std::string in_form(int tensor, nn::TensorForm wanted) {
    const std::string& there = tensors_[static_cast<std::size_t>(tensor)];
    if (network_.form(tensor) == wanted) return there;
    if (wanted == nn::TensorForm::row) return node("Flatten", {there}, {{"axis", std::int64_t{1}}});
    const kernels::Extent& extent = network_.shape(tensor).extent;
    return node("Reshape", {there, numbers("image", {0, extent.channels, extent.height, extent.width})});
  }

  [[noreturn]] std::string write(const std::monostate&) {
    throw ConfigError(
        fmt::format("the layer '{}' has no form in ONNX; write the parameters with --format safetensors, npz or hdf5",
                    step_->name));
  }

  std::string write(const nn::DenseOperation& dense) {
    const Index units = dense.spec.units;
    const std::string weight = parameter(dense.weight, {units, dense.spec.in.size()});
    if (step_->input_form == nn::TensorForm::row) {
      std::vector<std::string> inputs = {x_, weight};
      if (!dense.bias.empty()) inputs.push_back(parameter(dense.bias, {units}));
      return node("Gemm", inputs, {{"transB", std::int64_t{1}}});
    }
    const std::string y = product(weight);
    return dense.bias.empty() ? y : node("Add", {y, parameter(dense.bias, {units})});
  }
  /// x Wᵀ of each row of a sequence.
  std::string product(const std::string& weight) {
    return node("MatMul", {x_, node("Transpose", {weight}, {{"perm", Ints{1, 0}}})});
  }

  std::string write(const nn::ConvolutionOperation& convolution) {
    const kernels::ConvolutionSpec& spec = convolution.spec;
    std::vector<std::string> inputs = {x_, parameter(convolution.weight, {spec.channels, spec.in.channels / spec.groups,
                                                                          spec.kernel_height, spec.kernel_width})};
    if (!convolution.bias.empty()) inputs.push_back(parameter(convolution.bias, {spec.channels}));
    return node("Conv", inputs,
                {{"kernel_shape", Ints{spec.kernel_height, spec.kernel_width}},
                 {"strides", Ints{spec.stride_height, spec.stride_width}},
                 {"pads", Ints{spec.padding_height, spec.padding_width, spec.padding_height, spec.padding_width}},
                 {"dilations", Ints{spec.dilation_height, spec.dilation_width}},
                 {"group", spec.groups}});
  }

  std::string write(const nn::PoolOperation& pool) {
    const kernels::PoolSpec& spec = pool.spec;
    if (spec.is_adaptive()) return adaptive_mean(spec);
    const bool is_max = spec.kind == kernels::PoolKind::max;
    return node(is_max ? "MaxPool" : "AveragePool", {x_},
                {{"kernel_shape", Ints{spec.height, spec.width}},
                 {"strides", Ints{spec.stride_height, spec.stride_width}},
                 {"pads", Ints{spec.padding_height, spec.padding_width, spec.padding_height, spec.padding_width}}});
  }

  /// A x Bᵀ, with the matrices of the means over rows and over columns.
  std::string adaptive_mean(const kernels::PoolSpec& spec) {
    std::vector<float> rows(static_cast<std::size_t>(spec.out_height * spec.in.height));
    std::vector<float> columns(static_cast<std::size_t>(spec.in.width * spec.out_width));
    const auto share = [](const kernels::PoolWindow& window) {
      return 1 / static_cast<float>(window.last - window.first);
    };
    for (Index i = 0; i < spec.out_height; ++i) {
      const kernels::PoolWindow window = spec.rows_of(i);
      for (Index k = window.first; k < window.last; ++k)
        rows[static_cast<std::size_t>(i * spec.in.height + k)] = share(window);
    }
    for (Index j = 0; j < spec.out_width; ++j) {
      const kernels::PoolWindow window = spec.columns_of(j);
      for (Index k = window.first; k < window.last; ++k)
        columns[static_cast<std::size_t>(k * spec.out_width + j)] = share(window);
    }
    const std::string left = graph_.constant(step_->name + "/rows", {spec.out_height, spec.in.height}, rows);
    const std::string right = graph_.constant(step_->name + "/columns", {spec.in.width, spec.out_width}, columns);
    return node("MatMul", {node("MatMul", {left, x_}), right});
  }

  std::string write(const nn::GlobalMeanOperation&) {
    return node("Flatten", {node("GlobalAveragePool", {x_})}, {{"axis", std::int64_t{1}}});
  }

  std::string write(const nn::BatchNormOperation& norm) {
    const std::vector<Index> channels = {step_->out.extent.channels};
    return node("BatchNormalization",
                {x_, parameter(norm.gamma, channels), parameter(norm.beta, channels), parameter(norm.mean, channels),
                 parameter(norm.variance, channels)},
                {{"epsilon", static_cast<float>(norm.epsilon)}});
  }

  std::string write(const nn::LayerNormOperation& norm) {
    const auto epsilon = static_cast<float>(norm.spec.epsilon);
    if (!norm.spec.of_pixels) {
      const std::vector<Index> shape = step_->element_shape();
      return node("LayerNormalization", {x_, parameter(norm.gamma, shape), parameter(norm.beta, shape)},
                  {{"axis", -std::ssize(shape)}, {"epsilon", epsilon}});
    }
    const std::vector<Index> channels = {step_->out.extent.channels};
    const std::string pixels = node("Transpose", {x_}, {{"perm", Ints{0, 2, 3, 1}}});
    const std::string y =
        node("LayerNormalization", {pixels, parameter(norm.gamma, channels), parameter(norm.beta, channels)},
             {{"axis", std::int64_t{-1}}, {"epsilon", epsilon}});
    return node("Transpose", {y}, {{"perm", Ints{0, 3, 1, 2}}});
  }

  std::string write(const nn::RmsNormOperation& norm) {
    const std::vector<Index> shape = step_->element_shape();
    Ints axes;
    for (std::int64_t axis = -std::ssize(shape); axis < 0; ++axis) axes.push_back(axis);
    const std::string mean = node("ReduceMean", {node("Mul", {x_, x_})}, {{"axes", axes}});
    const std::string root = node("Sqrt", {node("Add", {mean, number("epsilon", norm.epsilon)})});
    return node("Mul", {node("Div", {x_, root}), parameter(norm.gamma, shape)});
  }

  std::string write(const nn::ScaleOperation& scale) {
    const Index channels = step_->out.extent.channels;
    const bool is_image = step_->form == nn::TensorForm::image;
    return node("Mul", {x_, parameter(scale.gamma,
                                      is_image ? std::vector<Index>{channels, 1, 1} : std::vector<Index>{channels})});
  }

  std::string write(const nn::ActivationOperation& operation) {
    using kernels::Activation;
    const float a = operation.activation.number;
    switch (operation.activation.kind) {
      case Activation::none:
        return x_;
      case Activation::relu:
        return node("Relu", {x_});
      case Activation::tanh:
        return node("Tanh", {x_});
      case Activation::sigmoid:
        return node("Sigmoid", {x_});
      case Activation::softplus:
        return node("Softplus", {x_});
      case Activation::leaky_relu:
        return node("LeakyRelu", {x_}, {{"alpha", a}});
      case Activation::elu:
        return node("Elu", {x_}, {{"alpha", a}});
      case Activation::silu:
        return silu(x_);
      case Activation::gelu:
        return gelu(node("Erf", {node("Mul", {x_, number("inverse_root", 1 / std::numbers::sqrt2)})}));
      case Activation::gelu_tanh:
        return gelu(node("Tanh", {cubic()}));
    }
    throw std::logic_error("an activation without a form in ONNX");
  }
  /// x / (1 + exp(−x)), which is more exact than x σ(x) where programs approximate σ.
  std::string silu(const std::string& x) {
    return node("Div", {x, node("Add", {node("Exp", {node("Neg", {x})}), number("one", 1)})});
  }
  /// ½ x (1 + y).
  std::string gelu(const std::string& y) {
    const std::string half = node("Mul", {x_, number("half", 0.5)});
    return node("Mul", {half, node("Add", {y, number("one", 1)})});
  }
  /// √(2/π) (x + 0.044715 x³).
  std::string cubic() {
    const std::string cube = node("Mul", {node("Mul", {x_, x_}), x_});
    const std::string sum = node("Add", {x_, node("Mul", {cube, number("cubic", 0.044715)})});
    return node("Mul", {sum, number("scale", std::sqrt(2 / std::numbers::pi))});
  }

  std::string write(const nn::DropoutOperation&) { return x_; }

  std::string write(const nn::AdditionOperation&) { return node("Add", {x_, in_form(step_->second, step_->form)}); }

  std::string write(const nn::ChannelGateOperation&) {
    const std::string factors = in_form(step_->second, nn::TensorForm::row);
    const std::string shape = numbers("factors", {0, step_->out.extent.channels, 1, 1});
    return node("Mul", {x_, node("Reshape", {factors, shape})});
  }

  // Sequences ---------------------------------------------------------------------------------------------------------

  /// [1]: how many rows the sequences of x have.
  std::string length() {
    if (length_.empty()) {
      length_ = node("Shape", {x_}, {{"start", std::int64_t{1}}, {"end", std::int64_t{2}}});
    }
    return length_;
  }
  /// The first rows of a table with a row for each position.
  std::string of_positions(const std::string& table) {
    return node("Slice", {table, numbers("begin", {0}), length(), numbers("axis", {0})});
  }
  /// [N, T]: whether a token is real, and no padding behind a shorter text.
  std::string is_real() { return node("GreaterOrEqual", {tensors_.front(), numbers("zero", {0})}); }

  std::string write(const nn::EmbeddingOperation& embedding) {
    const kernels::EmbeddingSpec& spec = embedding.spec;
    const bool has_padding = std::ranges::any_of(network_.steps, [](const nn::OperationStep& step) {
      return std::holds_alternative<nn::SequencePoolOperation>(step.operation);
    });
    length();
    const std::string tokens = has_padding ? node("Max", {x_, numbers("padding", {0})}) : x_;
    const std::string y = node("Gather", {parameter(embedding.weight, {spec.vocabulary, spec.units}), tokens});
    if (!embedding.position.empty()) {
      return node("Add", {y, of_positions(parameter(embedding.position, {spec.rows, spec.units}))});
    }
    return spec.sinusoidal ? node("Add", {y, of_positions(sinusoids(spec))}) : y;
  }
  std::string sinusoids(const kernels::EmbeddingSpec& spec) {
    std::vector<float> table;
    for (Index t = 0; t < spec.rows; ++t) {
      for (Index c = 0; c < spec.units; ++c) {
        const double exponent = static_cast<double>(c / 2 * 2) / static_cast<double>(spec.units);
        const double angle = static_cast<double>(t) / std::pow(10000.0, exponent);
        table.push_back(static_cast<float>(c % 2 == 0 ? std::sin(angle) : std::cos(angle)));
      }
    }
    return graph_.constant(step_->name + "/sinusoids", {spec.rows, spec.units}, table);
  }

  std::string write(const nn::AttentionOperation& attention) {
    const kernels::AttentionSpec& spec = attention.spec;
    const Index queries = spec.heads * spec.width, keys = spec.key_heads * spec.width;
    const std::vector<std::string> parts = split(x_, {queries, keys, keys}, -1);
    const std::string q = turned(heads_of(parts[0], spec.heads, spec.width), spec);
    const std::string k = for_queries(turned(heads_of(parts[1], spec.key_heads, spec.width), spec), spec);
    const std::string v = for_queries(heads_of(parts[2], spec.key_heads, spec.width), spec);
    const std::string products = node("MatMul", {q, node("Transpose", {k}, {{"perm", Ints{0, 1, 3, 2}}})});
    std::string scores = node("Mul", {products, number("scale", 1 / std::sqrt(static_cast<double>(spec.width)))});
    if (spec.causal) {
      scores = node("Where", {causal(), scores, number("hidden", -std::numeric_limits<double>::infinity())});
    }
    const std::string y = node("MatMul", {node("Softmax", {scores}, {{"axis", std::int64_t{-1}}}), v});
    return node("Reshape", {node("Transpose", {y}, {{"perm", Ints{0, 2, 1, 3}}}), numbers("joined", {0, 0, queries})});
  }
  std::vector<std::string> split(const std::string& x, const std::vector<Index>& sizes, std::int64_t axis) {
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < sizes.size(); ++i) parts.push_back(fmt::format("{}/part{}", x, i));
    graph_.node("Split", {x, numbers("sizes", sizes)}, parts, {{"axis", axis}});
    return parts;
  }
  /// [N, heads, T, D] of [N, T, heads · D].
  std::string heads_of(const std::string& x, Index heads, Index width) {
    return node("Transpose", {node("Reshape", {x, numbers("heads", {0, 0, heads, width})})},
                {{"perm", Ints{0, 2, 1, 3}}});
  }
  /// Keys or values for each head of queries.
  std::string for_queries(const std::string& x, const kernels::AttentionSpec& spec) {
    if (spec.heads == spec.key_heads) return x;
    const std::string apart = node("Unsqueeze", {x, numbers("axis", {2})});
    const std::string copies = node("Expand", {apart, numbers("copies", {1, 1, spec.heads / spec.key_heads, 1, 1})});
    return node("Reshape", {copies, numbers("heads", {0, spec.heads, -1, spec.width})});
  }
  /// Heads turned by the angles of rotary positions.
  std::string turned(const std::string& x, const kernels::AttentionSpec& spec) {
    if (spec.rotary == 0) return x;
    const Index half = spec.width / 2;
    std::vector<float> cosines, sines;
    for (Index t = 0; t < spec.rows; ++t) {
      for (Index i = 0; i < half; ++i) {
        const double exponent = -2 * static_cast<double>(i) / static_cast<double>(spec.width);
        const double angle = static_cast<double>(t) * std::pow(spec.rotary, exponent);
        cosines.push_back(static_cast<float>(std::cos(angle)));
        sines.push_back(static_cast<float>(std::sin(angle)));
      }
    }
    const std::string cosine = of_positions(graph_.constant(step_->name + "/cosines", {spec.rows, half}, cosines));
    const std::string sine = of_positions(graph_.constant(step_->name + "/sines", {spec.rows, half}, sines));
    const std::vector<std::string> halves = split(x, {half, half}, -1);
    const std::string first = node("Sub", {node("Mul", {halves[0], cosine}), node("Mul", {halves[1], sine})});
    const std::string second = node("Add", {node("Mul", {halves[1], cosine}), node("Mul", {halves[0], sine})});
    return node("Concat", {first, second}, {{"axis", std::int64_t{-1}}});
  }
  /// [T, T]: whether row i sees row j.
  std::string causal() {
    if (!causal_.empty()) return causal_;
    const std::string count = node("Squeeze", {length(), numbers("axis", {0})});
    const auto whole = [&](const char* name, Index value) {
      return node("Squeeze", {numbers(name, {value}), numbers("axis", {0})});
    };
    const std::string rows = node("Range", {whole("first", 0), count, whole("step", 1)});
    causal_ = node("LessOrEqual",
                   {node("Unsqueeze", {rows, numbers("axis", {0})}), node("Unsqueeze", {rows, numbers("axis", {1})})});
    return causal_;
  }

  std::string write(const nn::GateOperation&) {
    const Index units = step_->out.extent.size();
    const std::vector<std::string> halves = split(x_, {units, units}, -1);
    return node("Mul", {silu(halves[0]), halves[1]});
  }

  std::string write(const nn::UnembeddingOperation& unembedding) {
    const Index units = network_.shape(step_->input).extent.size();
    return product(parameter(unembedding.weight, {step_->out.extent.size(), units}));
  }

  std::string write(const nn::SequencePoolOperation& pool) {
    const std::string real = is_real();
    const auto as = [&](OnnxType type, const std::string& x) {
      return node("Cast", {x}, {{"to", static_cast<std::int64_t>(type)}});
    };
    const auto sum = [&](const std::string& x, bool keeps) {
      return node("ReduceSum", {x, numbers("axis", {1})}, {{"keepdims", std::int64_t{keeps ? 1 : 0}}});
    };
    if (pool.spec.kind == kernels::SequencePool::last) {
      const std::string last = node("Sub", {sum(as(OnnxType::int64, real), true), numbers("one", {1})});
      return node("GatherND", {x_, last}, {{"batch_dims", std::int64_t{1}}});
    }
    const std::string share = as(OnnxType::float32, real);
    const std::string kept = node("Mul", {x_, node("Unsqueeze", {share, numbers("axis", {2})})});
    return node("Div", {sum(kept, false), sum(share, true)});
  }

  OnnxGraph& graph_;
  const nn::OperationList& network_;
  const BlockValues& values_;
  std::map<std::pair<std::string, std::vector<Index>>, std::string> parameters_;
  std::vector<std::string> tensors_;  ///< their names
  std::string length_, causal_;
  const nn::OperationStep* step_ = nullptr;  ///< the one that is written
  std::string x_;                            ///< its input, in the form that it takes
};

}  // namespace

std::string add_network(OnnxGraph& graph, const nn::OperationList& network, const BlockValues& values,
                        const std::string& input) {
  return OnnxNetwork(graph, network, values).run(input);
}

}  // namespace unisono::apply
