#include "graph.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "layers/catalog.hpp"
#include "layers/elementwise.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::nn {
namespace {

/// Where a sequence of layers is in the config.
struct Place {
  std::string path;    ///< "model.layers"
  std::string prefix;  ///< of the layers' names: "", "residual1."
};

class GraphBuilder {
 public:
  GraphBuilder(const Shape& in, const LayerContext& context) : context_(context), shape_(in) { graph_.in = in; }

  void sequence(const std::vector<LayerSettings>& layers, const Place& place);
  Graph take() { return std::move(graph_); }

 private:
  void layer(const LayerSettings& settings, const Place& inner);
  void residual(const LayerSettings& settings, const Place& inner);
  void append(std::unique_ptr<Layer> layer, const std::string& name, int second_input = -1);
  std::string name_of(const LayerSettings& settings, const Place& place, std::map<std::string, int>& numbers);

  Graph graph_;
  LayerContext context_;
  std::set<std::string> names_;
  Shape shape_;     // of the last tensor
  int tensor_ = 0;  // the last one
};

void check_name(const std::string& name) {
  const auto allowed = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; };
  if (std::all_of(name.begin(), name.end(), allowed)) return;
  throw ConfigError(fmt::format("the name '{}' may contain only letters, digits, _ and -", name));
}

std::string GraphBuilder::name_of(const LayerSettings& settings, const Place& place,
                                  std::map<std::string, int>& numbers) {
  const int number = ++numbers[settings.kind];
  check_name(settings.name);
  const std::string own = settings.name.empty() ? fmt::format("{}{}", settings.kind, number) : settings.name;
  return place.prefix + own;
}

void GraphBuilder::sequence(const std::vector<LayerSettings>& layers, const Place& place) {
  std::map<std::string, int> numbers;  // of each kind so far
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::string path = fmt::format("{}[{}]", place.path, i);
    std::string name;
    try {
      name = name_of(layers[i], place, numbers);
      if (!names_.insert(name).second) throw ConfigError("another layer has this name already; choose a different one");
      layer(layers[i], {path, name});
    } catch (const ConfigError& error) {
      const std::string what = error.what();
      if (what.starts_with("model.")) throw;  // a layer inside this one has said where
      throw ConfigError(fmt::format("{} '{}': {}", path, name.empty() ? layers[i].name : name, what));
    }
  }
}

/// \param inner the layer's own path and name
void GraphBuilder::layer(const LayerSettings& settings, const Place& inner) {
  const LayerKind* kind = find_layer_kind(settings.kind);
  if (kind == nullptr) throw ConfigError(fmt::format("there is no kind of layer '{}'", settings.kind));
  if (kind->form == LayerForm::residual) return residual(settings, inner);
  if (kind->form == LayerForm::flatten) {
    shape_.flat = true;
    graph_.configured.push_back({inner.prefix, settings.kind, shape_, -1, tensor_});
    return;
  }
  append(kind->make(settings, shape_, context_), inner.prefix);
  ++context_.number;
  graph_.configured.push_back({inner.prefix, settings.kind, shape_, tensor_ - 1, tensor_});
}

// The shortcut runs first, so that the branch's last layer can add its result. The gradients of θ
// are then final from the end to the start, because the branch's backward pass comes first.
void GraphBuilder::residual(const LayerSettings& settings, const Place& inner) {
  const int in_tensor = tensor_;
  const Shape in_shape = shape_;
  const auto own = settings.own.of<ResidualSettings>();
  sequence(own.shortcut, {inner.path + ".shortcut", inner.prefix + ".shortcut."});
  const int shortcut = tensor_;
  const Shape shortcut_shape = shape_;

  tensor_ = in_tensor;
  shape_ = in_shape;
  sequence(own.layers, {inner.path + ".layers", inner.prefix + "."});
  if (tensor_ == in_tensor) throw ConfigError("its branch is empty; add 'layers'");
  if (shape_.extent != shortcut_shape.extent) {
    throw ConfigError(
        fmt::format("the branch gives {} but the shortcut gives {}; make them equal, for instance with a "
                    "convolution of kernel 1 as 'shortcut'",
                    text_of(shape_), text_of(shortcut_shape)));
  }
  append(std::make_unique<Addition>(shape_), inner.prefix, shortcut);
  graph_.configured.push_back({inner.prefix, settings.kind, shape_, tensor_ - 1, tensor_});
}

/// Limits the size of an example, so that the bytes of a batch of up to 2³⁰ examples fit an integer.
void check_size(const Shape& out) {
  constexpr Index kMostValues = Index{1} << 30;
  if (out.extent.size() <= kMostValues) return;
  throw ConfigError(fmt::format("an example would have {} values here; make the layer smaller", text_of(out)));
}

void GraphBuilder::append(std::unique_ptr<Layer> layer, const std::string& name, int second_input) {
  check_size(layer->out());
  shape_ = layer->out();
  graph_.nodes.push_back({.layer = std::move(layer), .name = name, .input = tensor_, .residual = second_input});
  tensor_ = static_cast<int>(graph_.nodes.size());
}

}  // namespace

int Graph::readers(int tensor) const {
  int count = 0;
  for (const Node& node : nodes) count += (node.input == tensor ? 1 : 0) + (node.residual == tensor ? 1 : 0);
  return count;
}

std::vector<bool> wanted_gradients(const Graph& graph) {
  std::vector<bool> wanted = {false};
  for (const Node& node : graph.nodes) {
    const bool by_residual = node.residual >= 0 && wanted[static_cast<std::size_t>(node.residual)];
    wanted.push_back(node.learns || by_residual || wanted[static_cast<std::size_t>(node.input)]);
  }
  return wanted;
}

void cut_after(Graph& graph, const std::string& layer) {
  const auto named = std::find_if(graph.configured.begin(), graph.configured.end(),
                                  [&](const ConfiguredLayer& one) { return one.name == layer; });
  if (named == graph.configured.end()) {
    std::vector<std::string> names;
    for (const ConfiguredLayer& one : graph.configured) names.push_back(one.name);
    throw ConfigError(fmt::format("the network has no layer '{}'; choose from {}", layer, fmt::join(names, ", ")));
  }
  // Nodes depend only on earlier ones, and declare their parts of θ in this order.
  graph.nodes.resize(static_cast<std::size_t>(named->tensor));
  graph.configured.erase(named + 1, graph.configured.end());
}

Graph build_graph(const NetworkSettings& settings, const Shape& in, bool steps_together) {
  GraphBuilder builder(in, {.steps_together = steps_together, .winograd = settings.winograd});
  builder.sequence(settings.layers, {"model.layers", ""});
  Graph graph = builder.take();
  if (graph.nodes.empty()) throw ConfigError("model.layers: the network has no layers; give it at least one");
  return graph;
}

// Peephole fusion: an operation that a kernel applies while its values are in registers costs no pass over memory.

namespace {

bool is_relu(const Layer& layer) {
  const auto* activation = dynamic_cast<const ActivationLayer*>(&layer);
  return activation != nullptr && activation->activation() == kernels::Activation::relu;
}

bool is_addition(const Layer& layer) { return dynamic_cast<const Addition*>(&layer) != nullptr; }

/// Removes a node; its readers then read the output of the node before it.
void remove_node(Graph& graph, int removed) {
  graph.nodes.erase(graph.nodes.begin() + removed);
  const auto renumber = [removed](int& number) { number -= number > removed ? 1 : 0; };
  for (Node& node : graph.nodes) {
    renumber(node.input);
    renumber(node.residual);
  }
  for (ConfiguredLayer& row : graph.configured) {
    if (row.node == removed) {
      row.node = -1;
      row.kind += " (in " + graph.nodes[static_cast<std::size_t>(removed) - 1].name + ")";
    } else {
      renumber(row.node);
    }
  }
}

/// Fuses node i + 1 into node i, if possible. \return whether it was
bool fuse_next(Graph& graph, int i) {
  Node& node = graph.nodes[static_cast<std::size_t>(i)];
  const Node& next = graph.nodes[static_cast<std::size_t>(i) + 1];
  if (next.input != i + 1 || graph.readers(i + 1) != 1) return false;
  if (is_relu(*next.layer) && node.layer->absorb_relu()) {
    remove_node(graph, i + 1);
    return true;
  }
  if (is_addition(*next.layer) && node.layer->absorb_addition()) {
    node.residual = next.residual;
    remove_node(graph, i + 1);
    return true;
  }
  return false;
}

}  // namespace

void fuse(Graph& graph) {
  for (int i = 0; i + 1 < static_cast<int>(graph.nodes.size());) {
    if (!fuse_next(graph, i)) ++i;
  }
}

}  // namespace unisono::nn
