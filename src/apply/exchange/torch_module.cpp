#include "exchange/torch_module.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <vector>

#include "exchange/onnx_inputs.hpp"
#include "model/new_file.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/models/staged.hpp"

namespace unisono::apply {
namespace {

/// A class that the file defines where the network has it.
struct TorchClass {
  std::string_view name, text;
};

constexpr std::array kClasses = {TorchClass{"Layers", R"(class Layers(nn.Module):
    """Layers by their names, one after the other. Unlike those of nn.Sequential, names may be any."""

    def __init__(self, layers):
        super().__init__()
        self._modules.update(layers)

    def forward(self, x):
        for layer in self._modules.values():
            x = layer(x)
        return x
)"},
                                 TorchClass{"Residual", R"(class Residual(Layers):
    """Layers whose outputs are added to their inputs, or to what the shortcut makes of these."""

    def __init__(self, layers, shortcut=None):
        super().__init__({"shortcut": shortcut, **layers} if shortcut else layers)
        self.has_shortcut = shortcut is not None

    def forward(self, x):
        shortcut = y = x
        for number, layer in enumerate(self._modules.values()):
            if self.has_shortcut and number == 0:
                shortcut = layer(x)
            else:
                y = layer(y)
        return y + shortcut.reshape(y.shape)
)"},
                                 TorchClass{"ChannelGate", R"(class ChannelGate(Layers):
    """Multiplies each channel by the factor that the layers compute."""

    def forward(self, x):
        return x * super().forward(x).reshape(*x.shape[:2], 1, 1)
)"},
                                 TorchClass{"Stored", R"(class Stored(nn.Module):
    """The values that stored numbers stand for."""

    def __init__(self, scale, offset):
        super().__init__()
        self.scale, self.offset = scale, offset

    def forward(self, x):
        return x.float() * self.scale + self.offset
)"},
                                 TorchClass{"Normalization", R"(class Normalization(nn.Module):
    """(x − mean) · scale, of the training examples."""

    def __init__(self, *shape):
        super().__init__()
        self.shape = shape
        self.register_buffer("mean", torch.zeros(shape).flatten())
        self.register_buffer("scale", torch.ones(shape).flatten())

    def forward(self, x):
        return (x - self.mean.view(self.shape)) * self.scale.view(self.shape)
)"},
                                 TorchClass{"ChannelNorm", R"(class ChannelNorm(nn.LayerNorm):
    """Normalises each pixel over its channels."""

    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
)"},
                                 TorchClass{"Scale", R"(class Scale(nn.Module):
    """Multiplies each channel by a parameter."""

    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))

    def forward(self, x):
        return x * (self.weight[:, None, None] if x.dim() == 4 else self.weight)
)"},
                                 TorchClass{"Embedding", R"(class Embedding(nn.Module):
    """A vector for each token, to which that of its position is added. −1 stands behind the end of a text."""

    def __init__(self, tokens, units, positions=0):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(tokens, units))
        if positions:
            self.position = nn.Parameter(torch.zeros(positions, units))

    def forward(self, tokens):
        x = F.embedding(tokens.clamp(min=0), self.weight)
        return x + self.position[: tokens.shape[1]] if hasattr(self, "position") else x
)"},
                                 TorchClass{"Sinusoids", R"(class Sinusoids(Embedding):
    """A vector for each token, to which sines and cosines of its position are added."""

    def forward(self, tokens):
        x = super().forward(tokens)
        units, position = torch.arange(x.shape[2]), torch.arange(x.shape[1], dtype=torch.float64)
        angles = position[:, None] / 10000 ** (units // 2 * 2 / x.shape[2])
        return x + torch.where(units % 2 == 0, angles.sin(), angles.cos()).to(x)
)"},
                                 TorchClass{"Attention", R"(class Attention(nn.Module):
    """Attention of heads of queries to heads of keys and values, behind each other in x. theta: of rotary positions."""

    def __init__(self, heads, key_heads, width, causal=True, theta=0, dropout=0):
        super().__init__()
        self.heads, self.key_heads, self.width = heads, key_heads, width
        self.causal, self.theta, self.dropout = causal, theta, dropout

    def turned(self, x):
        if not self.theta:
            return x
        speeds = self.theta ** (-torch.arange(0, self.width, 2, dtype=torch.float64) / self.width)
        angles = torch.arange(x.shape[2], dtype=torch.float64)[:, None] * speeds
        cosine, sine, (a, b) = angles.cos().to(x), angles.sin().to(x), x.chunk(2, -1)
        return torch.cat((a * cosine - b * sine, b * cosine + a * sine), -1)

    def forward(self, x):
        n, t, _ = x.shape
        counts = (self.heads, self.key_heads, self.key_heads)
        parts = x.split([count * self.width for count in counts], -1)
        q, k, v = (part.view(n, t, count, self.width).transpose(1, 2) for part, count in zip(parts, counts))
        copies = self.heads // self.key_heads
        k, v = self.turned(k).repeat_interleave(copies, 1), v.repeat_interleave(copies, 1)
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(self.turned(q), k, v, dropout_p=dropout, is_causal=self.causal)
        return y.transpose(1, 2).reshape(n, t, -1)
)"},
                                 TorchClass{"Gate", R"(class Gate(nn.Module):
    """silu(a) · b, the halves of x."""

    def forward(self, x):
        a, b = x.chunk(2, -1)
        return F.silu(a) * b
)"},
                                 TorchClass{"SequencePool", R"(class SequencePool(nn.Module):
    """The last vector of each text, or the mean of all, without those behind its end."""

    def __init__(self, kind):
        super().__init__()
        self.kind, self.tokens = kind, None

    def forward(self, x):
        real = self.tokens >= 0
        if self.kind == "last":
            return x[torch.arange(len(x)), real.sum(1) - 1]
        return (x * real[..., None]).sum(1) / real.sum(1, keepdim=True)
)"},
                                 TorchClass{"Texts", R"(class Texts(Layers):
    """Layers of which one pools texts, and is told where they end."""

    def forward(self, tokens):
        for layer in self.modules():
            if isinstance(layer, SequencePool):
                layer.tokens = tokens
        return super().forward(tokens)
)"}};

/// "5", or "(5, 3)" for height and width.
std::string pair_text(Index height, Index width) {
  return height == width ? fmt::format("{}", height) : fmt::format("({}, {})", height, width);
}

/// ", name=value", unless it is PyTorch's default.
template <typename Value>
std::string unless(const char* name, const Value& value, const Value& otherwise) {
  return value == otherwise ? "" : fmt::format(", {}={}", name, value);
}
std::string pair_unless(const char* name, Index height, Index width, Index otherwise) {
  return unless(name, pair_text(height, width), pair_text(otherwise, otherwise));
}

/// "(3, 1, 1)", or "3".
std::string shape_text(const std::vector<Index>& shape) {
  return shape.size() == 1 ? fmt::format("{}", shape.front()) : fmt::format("({})", fmt::join(shape, ", "));
}

/// A module and those inside it.
struct Module {
  std::string name;
  std::string text = {};  ///< of a module without others: "nn.Linear(500, 10)"
  std::string kind = {};  ///< of one with others: a class
  std::vector<Module> inner = {};
  bool has_shortcut = false;  ///< a residual block: whether the module "shortcut" in it is its shortcut
};

/// Writes the operations of a network as modules.
class TorchNetwork {
 public:
  explicit TorchNetwork(const nn::OperationList& network) : network_(network), root_{.name = "", .kind = "Layers"} {}

  void add_input(const std::string& name, const std::string& class_name, const std::string& arguments) {
    insert(root_, {.name = name, .text = fmt::format("{}({})", used(class_name), arguments)});
  }

  void add_steps() {
    for (const nn::OperationStep& step : network_.steps) {
      step_ = &step;
      std::visit([&](const auto& operation) { add(operation); }, step.operation);
    }
  }

  /// The expression that builds the network.
  std::string text() {
    used("Layers");
    return text_of(root_, 1);
  }
  std::string classes() const {
    std::string text;
    for (const TorchClass& one : kClasses) {
      if (classes_.contains(one.name)) text += fmt::format("\n\n{}", one.text);
    }
    return text;
  }
  const std::string& tied() const { return tied_; }
  const std::string& embedding() const { return embedding_; }

 private:
  std::string used(const std::string& class_name) {
    classes_.insert(class_name);
    return class_name;
  }

  /// The module of this name in another one, made where it is not there.
  static Module& child(Module& module, const std::string& name) {
    const auto found = std::ranges::find(module.inner, name, &Module::name);
    if (found != module.inner.end()) return *found;
    module.inner.push_back({.name = name});
    return module.inner.back();
  }

  /// Adds a module to those in another one. \throws ConfigError where there is one of this name
  void insert(Module& outer, Module module) const {
    const bool is_taken = std::ranges::find(outer.inner, module.name, &Module::name) != outer.inner.end();
    if (is_taken || module.name == "training") {  // which each module of PyTorch sets itself
      throw ConfigError(
          fmt::format("the layer '{}' cannot be written as a module of PyTorch, since something else in PyTorch "
                      "has this name; rename it, or write the parameters alone with --names unisono",
                      step_->name));
    }
    outer.inner.push_back(std::move(module));
  }

  /// The module that a step's name stands for, and the one that it is in.
  struct Place {
    Module& outer;
    std::string name;
  };
  Place place() {
    Module* outer = &root_;
    std::string rest = step_->name;
    for (std::size_t dot = rest.find('.'); dot != std::string::npos; dot = rest.find('.')) {
      outer = &child(*outer, rest.substr(0, dot));
      if (outer->kind.empty()) outer->kind = used("Layers");
      rest.erase(0, dot + 1);
    }
    return {*outer, rest};
  }

  /// Adds a module for the step, behind one that brings its input into the form that it takes.
  void put(const std::string& text) {
    const Place at = place();
    const nn::TensorForm there = network_.form(step_->input);
    if (there != step_->input_form && step_->input_form == nn::TensorForm::row) {
      insert(at.outer, {.name = "flat " + at.name, .text = "nn.Flatten()"});  // no layer has a blank in its name
    } else if (there != step_->input_form) {
      const kernels::Extent& extent = network_.shape(step_->input).extent;
      insert(at.outer,
             {.name = "image " + at.name,
              .text = fmt::format("nn.Unflatten(1, ({}, {}, {}))", extent.channels, extent.height, extent.width)});
    }
    insert(at.outer, {.name = at.name, .text = text});
  }
  /// The step combines what the modules inside of it give with their input. \return the module
  Module& combine(const std::string& class_name) {
    const Place at = place();
    Module& module = child(at.outer, at.name);
    module.kind = used(class_name);
    return module;
  }

  [[noreturn]] void add(const std::monostate&) {
    throw ConfigError(
        fmt::format("the layer '{}' does not say what it computes, so that it cannot be written as a module of "
                    "PyTorch; write the parameters alone with --names unisono",
                    step_->name));
  }
  void add(const nn::DenseOperation& dense) {
    put(fmt::format("nn.Linear({}, {}{})", dense.spec.in.size(), dense.spec.units,
                    dense.bias.empty() ? ", bias=False" : ""));
  }
  void add(const nn::ConvolutionOperation& convolution) {
    const kernels::ConvolutionSpec& spec = convolution.spec;
    put(fmt::format("nn.Conv2d({}, {}, {}{}{}{}{}{})", spec.in.channels, spec.channels,
                    pair_text(spec.kernel_height, spec.kernel_width),
                    pair_unless("stride", spec.stride_height, spec.stride_width, 1),
                    pair_unless("padding", spec.padding_height, spec.padding_width, 0),
                    pair_unless("dilation", spec.dilation_height, spec.dilation_width, 1),
                    unless("groups", spec.groups, Index{1}), convolution.bias.empty() ? ", bias=False" : ""));
  }
  void add(const nn::PoolOperation& pool) {
    const kernels::PoolSpec& spec = pool.spec;
    if (spec.is_adaptive())
      return put(fmt::format("nn.AdaptiveAvgPool2d({})", pair_text(spec.out_height, spec.out_width)));
    const bool is_max = spec.kind == kernels::PoolKind::max;
    put(fmt::format("nn.{}({}, {}{}{})", is_max ? "MaxPool2d" : "AvgPool2d", pair_text(spec.height, spec.width),
                    pair_text(spec.stride_height, spec.stride_width),
                    pair_unless("padding", spec.padding_height, spec.padding_width, 0),
                    is_max ? "" : ", count_include_pad=False"));
  }
  void add(const nn::GlobalMeanOperation&) { put("nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())"); }
  void add(const nn::BatchNormOperation& norm) {
    put(fmt::format("nn.BatchNorm{}({}{}{})", step_->form == nn::TensorForm::image ? "2d" : "1d",
                    step_->out.extent.channels, unless("eps", norm.epsilon, 1e-5),
                    unless("momentum", norm.momentum, 0.1)));
  }
  /// "(16, 8, 8)", or "64" of a row.
  std::string element_shape() const { return shape_text(step_->element_shape()); }
  void add(const nn::LayerNormOperation& norm) {
    const std::string epsilon = unless("eps", norm.spec.epsilon, 1e-5);
    if (norm.spec.of_pixels) {
      return put(fmt::format("{}({}{})", used("ChannelNorm"), step_->out.extent.channels, epsilon));
    }
    put(fmt::format("nn.LayerNorm({}{})", element_shape(), epsilon));
  }
  void add(const nn::RmsNormOperation& norm) {
    put(fmt::format("nn.RMSNorm({}, eps={})", element_shape(), norm.epsilon));
  }
  void add(const nn::ScaleOperation&) { put(fmt::format("{}({})", used("Scale"), step_->out.extent.channels)); }
  void add(const nn::ActivationOperation& operation) {
    using kernels::Activation;
    const double a = static_cast<double>(operation.activation.number);
    switch (operation.activation.kind) {
      case Activation::none:
        return put("nn.Identity()");
      case Activation::relu:
        return put("nn.ReLU()");
      case Activation::gelu:
        return put("nn.GELU()");
      case Activation::gelu_tanh:
        return put("nn.GELU(approximate=\"tanh\")");
      case Activation::tanh:
        return put("nn.Tanh()");
      case Activation::sigmoid:
        return put("nn.Sigmoid()");
      case Activation::silu:
        return put("nn.SiLU()");
      case Activation::leaky_relu:
        return put(fmt::format("nn.LeakyReLU({})", a));
      case Activation::elu:
        return put(fmt::format("nn.ELU({})", a));
      case Activation::softplus:
        return put("nn.Softplus()");
    }
  }
  void add(const nn::DropoutOperation& dropout) { put(fmt::format("nn.Dropout({})", dropout.rate)); }
  void add(const nn::AdditionOperation&) {
    const auto shortcut = static_cast<std::size_t>(step_->second);
    combine("Residual").has_shortcut =
        shortcut > 0 && network_.steps[shortcut - 1].name.starts_with(step_->name + ".shortcut.");
  }
  void add(const nn::ChannelGateOperation&) { combine("ChannelGate"); }
  void add(const nn::EmbeddingOperation& embedding) {
    const kernels::EmbeddingSpec& spec = embedding.spec;
    embedding_ = step_->name;
    used("Embedding");
    const std::string positions = embedding.position.empty() ? "" : fmt::format(", {}", spec.rows);
    put(fmt::format("{}({}, {}{})", used(spec.sinusoidal ? "Sinusoids" : "Embedding"), spec.vocabulary, spec.units,
                    positions));
  }
  void add(const nn::AttentionOperation& attention) {
    const kernels::AttentionSpec& spec = attention.spec;
    put(fmt::format("{}({}, {}, {}{}{}{})", used("Attention"), spec.heads, spec.key_heads, spec.width,
                    spec.causal ? "" : ", causal=False", unless("theta", spec.rotary, 0.0),
                    unless("dropout", attention.dropout, 0.0)));
  }
  void add(const nn::GateOperation&) { put(fmt::format("{}()", used("Gate"))); }
  void add(const nn::UnembeddingOperation& unembedding) {
    if (unembedding.weight != step_->name + ".weight") tied_ = step_->name;
    put(fmt::format("nn.Linear({}, {}, bias=False)", network_.shape(step_->input).extent.size(),
                    step_->out.extent.size()));
  }
  void add(const nn::SequencePoolOperation& pool) {
    root_.kind = used("Texts");
    const bool is_last = pool.spec.kind == kernels::SequencePool::last;
    put(fmt::format("{}(\"{}\")", used("SequencePool"), is_last ? "last" : "mean"));
  }

  static std::string text_of(const Module& module, int depth) {
    if (module.kind.empty()) return module.text;
    const std::string indent(static_cast<std::size_t>(4 * depth), ' ');
    std::string text = module.kind + "({\n";
    std::string shortcut;
    for (const Module& one : module.inner) {
      if (module.has_shortcut && one.name == "shortcut") {
        shortcut = fmt::format(", shortcut={}", text_of(one, depth));
      } else {
        text += fmt::format("{}    \"{}\": {},\n", indent, one.name, text_of(one, depth + 1));
      }
    }
    return text + indent + "}" + shortcut + ")";
  }

  const nn::OperationList& network_;
  const nn::OperationStep* step_ = &network_.steps.front();  ///< the one that is written
  Module root_;
  std::set<std::string, std::less<>> classes_;  ///< those that the network has
  std::string embedding_, tied_;  ///< names of layers; tied: the unembedding that has the embedding's weights
};

/// A text as Python writes it between quotes, which are as JSON's.
std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}
/// Likewise, for a comment.
std::string unquoted(const std::string& text) {
  const std::string inside = quoted(text);
  return inside.substr(1, inside.size() - 2);
}

/// What the model takes, for the file's users.
std::string inputs_text(const data::Preprocessing& preprocessing, const models::ModelInputs& inputs) {
  if (inputs.kind == data::SetKind::tokens) return fmt::format("int64 [N, T ≤ {}], token numbers", inputs.context);
  const data::FeatureShape& shape = inputs.features;
  const std::string type = preprocessing.bytes ? "bytes" : "float32";
  if (shape.height * shape.width > 1) {
    return fmt::format("{} [N, {}, {}, {}]", type, shape.channels, shape.height, shape.width);
  }
  return fmt::format("{} [N, {}]{}", type, shape.size(),
                     preprocessing.columns.empty() ? "" : ", as FEATURES lists them");
}

}  // namespace

std::string torch_module_of(const TrainedModel& model, const std::string& safetensors) {
  const data::Preprocessing& known = model.checkpoint.header.preprocessing;
  const models::ModelInputs& inputs = model.checkpoint.header.inputs;
  const nn::OperationList operations = model.parts->model->staged()->operations();
  TorchNetwork network(operations);
  if (known.columns.empty() && (known.bytes || known.scale != 1 || known.offset != 0)) {
    network.add_input("stored values", "Stored", fmt::format("{}, {}", known.scale, known.offset));
  }
  if (!known.normalization.scale.empty()) {
    network.add_input("normalization", "Normalization",
                      fmt::format("{}", fmt::join(normalization_shape(known.normalization, inputs.features), ", ")));
  }
  network.add_steps();
  const std::string built = network.text(), classes = network.classes();
  const std::string file = std::filesystem::path(safetensors).filename().string();
  std::string text = fmt::format(
      "\"\"\"The network of {}{}\n\n"
      "    model = load()       # with the weights of {}; model.train() before it trains on\n"
      "    outputs = model(x)   # x: {}\n\"\"\"\n"
      "from pathlib import Path\n\nimport torch\nfrom torch import nn\n{}",
      unquoted(model.checkpoint.path), kTorchModuleMark, unquoted(file), inputs_text(known, inputs),
      classes.find("F.") == std::string::npos ? "" : "from torch.nn import functional as F\n");
  text += classes;
  if (!known.columns.empty()) {
    text += "\n\nFEATURES = [\n";
    for (const std::string& name : known.encoded_names()) text += fmt::format("    {},\n", quoted(name));
    text += "]\n";
  }
  text += fmt::format("\n\ndef build():\n    return {}\n", built);
  text += fmt::format("\n\ndef load(weights=Path(__file__).with_name({})):\n", quoted(file));
  text += "    from safetensors.torch import load_file\n\n    model, tensors = build(), load_file(weights)\n";
  if (model.threshold) {
    text +=
        "    tensors.pop(\"decision.threshold\", None)  # from which output on the second of two classes is "
        "predicted\n";
  }
  if (!network.tied().empty()) {
    text += fmt::format("    tensors[\"{}.weight\"] = tensors[\"{}.weight\"]\n", network.tied(), network.embedding());
  }
  text += "    model.load_state_dict(tensors)\n";
  if (!network.tied().empty()) {
    text +=
        fmt::format("    modules = dict(model.named_modules())\n    modules[\"{}\"].weight = modules[\"{}\"].weight\n",
                    network.tied(), network.embedding());
  }
  return text + "    return model.eval()\n";
}

}  // namespace unisono::apply
