#include "graph.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <span>

#include "layers/catalog.hpp"
#include "layers/divided.hpp"
#include "layers/elementwise.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::nn {
namespace {

/// Where a sequence of layers is in the config.
struct Place {
  std::string path;        ///< "model.layers"
  std::string prefix;      ///< of the layers' names: "", "residual1."
  std::string outer = {};  ///< the residual block that they are in; empty: none
};

class GraphBuilder {
 public:
  GraphBuilder(const Shape& in, const LayerContext& context) : context_(context), shape_(in) {
    graph_.in = in;
    context_.vocabulary = in.vocabulary;
  }

  void sequence(const std::vector<LayerSettings>& layers, const Place& place);
  Graph take() { return std::move(graph_); }

 private:
  void layer(const LayerSettings& settings, const Place& inner);
  void operation(const LayerKind& kind, const LayerSettings& settings, const Place& inner);
  /// Layers that are divided together.
  struct Together {
    std::span<const LayerSettings> layers;
    std::vector<Place> places;
    Index between;  ///< outputs of the first layer, all leaves together
    int input;      ///< tensor that all leaves read
    Shape in;
    std::uint32_t number;  ///< of the first layer
  };
  std::size_t divisible(std::span<const LayerSettings> layers) const;
  Index outputs_of(const LayerKind& kind, const LayerSettings& settings) const;
  void divided(std::span<const LayerSettings> layers, std::vector<Place> places);
  void add_leaves(const Together& together, int first, int count);
  void add_leaf(const Together& together, int leaf);
  void residual(const LayerSettings& settings, const Place& inner);
  void gate(const LayerSettings& settings, const Place& inner);
  void repeat(const LayerSettings& settings, const Place& inner);
  void check_inputs(const LayerKind& kind) const;
  void check_rows(const LayerKind& kind) const;
  void append(std::unique_ptr<Layer> layer, const Place& inner, int second_input = -1);
  std::string name_of(const LayerSettings& settings, const Place& place, std::map<std::string, int>& numbers);
  Place place_of(const LayerSettings& settings, const Place& place, std::map<std::string, int>& numbers);

  Graph graph_;
  LayerContext context_;
  std::set<std::string> names_;
  Shape shape_;     // of the last tensor
  int tensor_ = 0;  // the last one
};

/// What an operation consists of; of a single part, the name is empty.
std::vector<Part> parts_of(const LayerKind& kind, const LayerSettings& settings, const Shape& in,
                           const LayerContext& context) {
  if (kind.make_parts != nullptr) return kind.make_parts(settings, in, context);
  std::vector<Part> parts;
  parts.push_back({"", settings.kind, kind.make(settings, in, context)});
  return parts;
}

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

/// A layer's own place. \param place that of its sequence
Place GraphBuilder::place_of(const LayerSettings& settings, const Place& place, std::map<std::string, int>& numbers) {
  const std::string name = name_of(settings, place, numbers);
  if (!names_.insert(name).second) throw ConfigError("another layer has this name already; choose a different one");
  return {place.path, name, place.outer.empty() ? name : place.outer};
}

void GraphBuilder::sequence(const std::vector<LayerSettings>& layers, const Place& place) {
  std::map<std::string, int> numbers;  // of each kind so far
  for (std::size_t i = 0; i < layers.size();) {
    const std::size_t together = divisible(std::span(layers).subspan(i)), count = std::max<std::size_t>(together, 1);
    std::vector<Place> places;
    const std::size_t first = i;
    try {
      for (; places.size() < count; ++i) {
        places.push_back(
            place_of(layers[i], {fmt::format("{}[{}]", place.path, i), place.prefix, place.outer}, numbers));
      }
      if (together == 0) {
        layer(layers[first], places.front());
      } else {
        divided(std::span(layers).subspan(first, count), places);
      }
    } catch (const ConfigError& error) {
      const std::string what = error.what();
      if (what.starts_with("model.")) throw;  // a layer inside this one has said where
      const LayerSettings& settings = layers[first];
      const std::string own =
          settings.name.empty() ? fmt::format("{}{}", settings.kind, numbers[settings.kind]) : settings.name;
      const std::string name = places.empty() ? place.prefix + own : places.front().prefix;
      throw ConfigError(fmt::format("{}[{}] '{}': {}", place.path, first, name, what));
    }
  }
}

/// \param inner the layer's own path and name
void GraphBuilder::layer(const LayerSettings& settings, const Place& inner) {
  const LayerKind* kind = find_layer_kind(settings.kind);
  if (kind == nullptr) throw ConfigError(fmt::format("there is no kind of layer '{}'", settings.kind));
  if (kind->form == LayerForm::repeat) return repeat(settings, inner);
  check_inputs(*kind);
  check_rows(*kind);
  if (kind->form == LayerForm::residual) return residual(settings, inner);
  if (kind->form == LayerForm::gate) return gate(settings, inner);
  if (kind->form == LayerForm::operation) return operation(*kind, settings, inner);
  shape_.flat = true;
  graph_.configured.push_back({inner.outer, inner.prefix, settings.kind, shape_, -1, tensor_});
}

/// \throws ConfigError where the layer cannot take what the layer before it gives
void GraphBuilder::check_inputs(const LayerKind& kind) const {
  const bool embeds = kind.name == kEmbedding;
  if (shape_.vocabulary > 0 && !embeds) {
    throw ConfigError("the inputs are token numbers; let the network begin with an embedding layer");
  }
  if (shape_.vocabulary == 0 && embeds) {
    throw ConfigError(
        "an embedding layer takes token numbers, and must be the first layer of a network for a set of "
        "tokens (unisono data import tokens)");
  }
  if (!graph_.nodes.empty() && graph_.nodes.back().layer->traits().gives_loss) {
    throw ConfigError("it comes after the unembedding layer, which must be the last one");
  }
  if (shape_.rows == 1 && kind.name == kAttention) {
    throw ConfigError(fmt::format(
        "an attention layer looks from row to row of a sequence, but its inputs have one row for each example ({}); "
        "remove it, or put it behind an embedding and before any sequence_pool layer",
        text_of(shape_)));
  }
  if (shape_.rows > 1 && !kind.of_sequences) {
    throw ConfigError(
        fmt::format("a {} layer does not take sequences, but its inputs are {}", kind.name, text_of(shape_)));
  }
}

/// Texts are of different lengths: rows behind a text's end must not change what is made of it. A language model
/// predicts a token in each row.
void GraphBuilder::check_rows(const LayerKind& kind) const {
  const bool pools = kind.name == kSequencePool;
  if (!pools && kind.name != kUnembedding) return;
  for (const Node& node : graph_.nodes) {
    const LayerTraits traits = node.layer->traits();
    if (traits.pools_rows && pools) {
      throw ConfigError(fmt::format("'{}' has made one vector of each text before", node.outer));
    }
    if (traits.pools_rows) {
      throw ConfigError(
          fmt::format("it takes sequences, but '{}' has made one vector of each; remove one of the two", node.outer));
    }
    if (!pools || !traits.sees_later_rows) continue;
    throw ConfigError(fmt::format(
        "in '{}' tokens see later ones (causal = false), so that short texts would depend on the padding behind "
        "them; set causal = true there",
        node.name));
  }
}

void GraphBuilder::operation(const LayerKind& kind, const LayerSettings& settings, const Place& inner) {
  const bool joins = context_.part.is_divided() && !context_.part.has_all();
  const bool is_head = kind.name == kUnembedding;
  if (joins && is_head) append(std::make_unique<GradientSum>(shape_, /*alone=*/false), inner);
  for (Part& part : parts_of(kind, settings, shape_, context_)) {
    const std::string name = part.name.empty() ? inner.prefix : inner.prefix + "." + part.name;
    append(std::move(part.layer), {inner.path, name, inner.outer});
    graph_.configured.push_back({inner.outer, name, part.kind, shape_, tensor_ - 1, tensor_});
  }
  ++context_.number;
  if (joins && is_head) graph_.nodes.back().inside = true;
  if (kind.name != kEmbedding) return;
  context_.embedding = inner.prefix;
  context_.embedding_units = shape_.extent.size();
  if (!joins) return;
  append(std::make_unique<OutputSum>(shape_), inner);
  graph_.nodes.back().inside = true;
}

/// How many of the layers, from the first one on, are divided together; 0: the first one is not divided.
std::size_t GraphBuilder::divisible(std::span<const LayerSettings> layers) const {
  const LayerKind* const first = find_layer_kind(layers.front().kind);
  if (!context_.part.is_divided() || first == nullptr) return 0;
  if (first->divided == Divided::heads) return 1;
  if (first->divided != Divided::outputs) return 0;
  for (std::size_t i = 1; i < layers.size(); ++i) {
    const LayerKind* const kind = find_layer_kind(layers[i].kind);
    if (kind == nullptr) return 0;
    if (kind->divided == Divided::elements) continue;
    return kind->divided_by_inputs && outputs_of(*first, layers.front()) >= context_.part.leaves ? i + 1 : 0;
  }
  return 0;
}

Index GraphBuilder::outputs_of(const LayerKind& kind, const LayerSettings& settings) const {
  return parts_of(kind, settings, shape_, context_).back().layer->out().extent.size();
}

void GraphBuilder::divided(std::span<const LayerSettings> layers, std::vector<Place> places) {
  const Place place = places.front();
  const std::size_t first_node = graph_.nodes.size();
  append(std::make_unique<GradientSum>(shape_, context_.part.has_all()), place);
  const Together together{.layers = layers,
                          .places = std::move(places),
                          .between = outputs_of(*find_layer_kind(layers.front().kind), layers.front()),
                          .input = tensor_,
                          .in = shape_,
                          .number = context_.number};
  add_leaves(together, context_.part.first, context_.part.count);
  append(std::make_unique<OutputSum>(shape_), {place.path, together.places.back().prefix, place.outer});
  for (std::size_t i = first_node; i < graph_.nodes.size(); ++i) {
    graph_.nodes[i].outer = place.outer;
    graph_.nodes[i].inside = i > first_node;
  }
}

/// Leaves [first, first + count), and the tree of additions above them.
void GraphBuilder::add_leaves(const Together& together, int first, int count) {
  if (count == 1) return add_leaf(together, first);
  const int left = left_leaves(count);
  const auto half = [&](int from, int leaves) {
    Together part = together;
    tensor_ = together.input;
    shape_ = together.in;
    append(std::make_unique<PassOn>(shape_), together.places.front());
    part.input = tensor_;
    add_leaves(part, from, leaves);
    return tensor_;
  };
  const int left_sum = half(first, left);
  const int right_sum = half(first + left, count - left);
  tensor_ = left_sum;
  append(std::make_unique<Addition>(shape_), together.places.back(), right_sum);
}

void GraphBuilder::add_leaf(const Together& together, int leaf) {
  const std::size_t rows = graph_.configured.size();
  const Index all = together.between, leaves = context_.part.leaves;
  const Index begin = share_of(all, leaf, leaves);
  const AxisRange own{.first = begin, .count = share_of(all, leaf + 1, leaves) - begin};
  tensor_ = together.input;
  shape_ = together.in;
  context_.number = together.number;
  for (std::size_t i = 0; i < together.layers.size(); ++i) {
    const LayerKind& kind = *find_layer_kind(together.layers[i].kind);
    const bool sums = i > 0 && i + 1 == together.layers.size();
    context_.leaf = {.number = leaf, .leaves = context_.part.leaves};
    (sums ? context_.leaf.inputs : context_.leaf.outputs) = own;
    operation(kind, together.layers[i], together.places[i]);
  }
  context_.leaf = {};
  if (leaf > context_.part.first) graph_.configured.resize(rows);  // a row for all leaves of a layer
}

void GraphBuilder::repeat(const LayerSettings& settings, const Place& inner) {
  const auto own = settings.own.of<RepeatSettings>();
  if (own.layers.empty()) throw ConfigError("it has no layers to repeat; add 'layers'");
  for (std::int64_t i = 0; i < own.times; ++i) {
    sequence(own.layers, {inner.path + ".layers", fmt::format("{}.{}.", inner.prefix, i + 1)});
  }
}

// The shortcut runs first, so that the branch's last layer can add its result. The gradients of θ
// are then final from the end to the start, because the branch's backward pass comes first.
void GraphBuilder::residual(const LayerSettings& settings, const Place& inner) {
  const int in_tensor = tensor_;
  const Shape in_shape = shape_;
  const auto own = settings.own.of<ResidualSettings>();
  sequence(own.shortcut, {inner.path + ".shortcut", inner.prefix + ".shortcut.", inner.outer});
  const int shortcut = tensor_;
  const Shape shortcut_shape = shape_;

  tensor_ = in_tensor;
  shape_ = in_shape;
  sequence(own.layers, {inner.path + ".layers", inner.prefix + ".", inner.outer});
  if (tensor_ == in_tensor) throw ConfigError("its branch is empty; add 'layers'");
  if (shape_.with(shape_.extent) != shortcut_shape.with(shortcut_shape.extent)) {
    throw ConfigError(
        fmt::format("the branch gives {} but the shortcut gives {}; make them equal, for instance with a "
                    "convolution of kernel 1 as 'shortcut'",
                    text_of(shape_), text_of(shortcut_shape)));
  }
  append(std::make_unique<Addition>(shape_), inner, shortcut);
  graph_.configured.push_back({inner.outer, inner.prefix, settings.kind, shape_, tensor_ - 1, tensor_});
}

void GraphBuilder::gate(const LayerSettings& settings, const Place& inner) {
  const int image = tensor_;
  const Shape image_shape = shape_;
  require_image(image_shape, "channel_gate");
  sequence(settings.own.of<ChannelGateSettings>().layers, {inner.path + ".layers", inner.prefix + ".", inner.outer});
  if (tensor_ == image) throw ConfigError("it has no layers that compute factors; add 'layers'");
  const kernels::Extent wanted{image_shape.extent.channels, 1, 1};
  if (shape_.extent != wanted) {
    throw ConfigError(fmt::format(
        "its layers give {}, but the inputs {} need {} factors, one for each channel; let them end with a dense layer "
        "of {} units and a sigmoid",
        text_of(shape_), text_of(image_shape), wanted.channels, wanted.channels));
  }
  const int factors = tensor_;
  tensor_ = image;
  shape_ = image_shape;
  append(std::make_unique<ChannelGate>(shape_), inner, factors);
  graph_.configured.push_back({inner.outer, inner.prefix, settings.kind, shape_, tensor_ - 1, tensor_});
}

/// Limits the size of an example, so that the bytes of a batch of up to 2³⁰ examples fit an integer.
void check_size(const Shape& out) {
  constexpr Index kMostValues = Index{1} << 30;
  if (out.rows <= kMostValues / out.extent.size()) return;
  throw ConfigError(fmt::format("an example would have {} values here; make the layer smaller", text_of(out)));
}

void GraphBuilder::append(std::unique_ptr<Layer> layer, const Place& inner, int second_input) {
  check_size(layer->out());
  shape_ = layer->out();
  if (const std::string other = layer->weights_of(); !other.empty()) {
    std::ranges::find(graph_.nodes, other, &Node::name)->layer->share_weights();
  }
  graph_.nodes.push_back({.layer = std::move(layer),
                          .name = inner.prefix,
                          .input = tensor_,
                          .residual = second_input,
                          .outer = inner.outer});
  tensor_ = static_cast<int>(graph_.nodes.size());
}

}  // namespace

std::vector<int> readers_of(const Graph& graph) {
  std::vector<int> readers(static_cast<std::size_t>(graph.tensors()), 0);
  for (const Node& node : graph.nodes) {
    ++readers[static_cast<std::size_t>(node.input)];
    if (node.residual >= 0) ++readers[static_cast<std::size_t>(node.residual)];
  }
  return readers;
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

Graph build_graph(const NetworkSettings& settings, const Shape& in, const NetworkOptions& options) {
  GraphBuilder builder(in, {.steps_together = options.steps_together,
                            .winograd = settings.winograd,
                            .label_smoothing = static_cast<float>(settings.label_smoothing),
                            .part = options.part});
  builder.sequence(settings.layers, {"model.layers", ""});
  Graph graph = builder.take();
  graph.recomputes_blocks = options.recomputes_blocks;
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

/// Makes one layer of two, the second of which alone reads the first one's output, if possible. \return whether it was
bool absorb(Node& node, const Node& next, const kernels::Backend& backend) {
  if (is_relu(*next.layer) && node.layer->absorb_relu()) return true;
  const Operation operation = next.layer->operation();
  if (const auto* const pool = std::get_if<PoolOperation>(&operation)) {
    return node.layer->absorb_pool(pool->spec, backend);
  }
  if (!is_addition(*next.layer) || !node.layer->absorb_addition()) return false;
  node.residual = next.residual;
  return true;
}

/// Renumbers the nodes of the rows of the table of layers. \param now the number of each node; where two have become
/// one, they have the same
void renumber(Graph& graph, const std::vector<int>& now) {
  for (ConfiguredLayer& row : graph.configured) {
    if (row.node < 0) continue;
    const auto before = static_cast<std::size_t>(row.node);
    row.node = now[before];
    if (before == 0 || now[before - 1] != now[before]) continue;
    row.kind += " (in " + graph.nodes[static_cast<std::size_t>(row.node)].name + ")";
    row.node = -1;
  }
}

}  // namespace

void fuse(Graph& graph, const kernels::Backend& backend) {
  const std::vector<int> readers = readers_of(graph);
  std::vector<int> now;           // of each node so far, its number among those that stay
  std::vector<int> tensor = {0};  // of each tensor so far
  std::vector<Node> before = std::move(graph.nodes);
  graph.nodes.clear();
  for (int i = 0; i < static_cast<int>(before.size()); ++i) {
    Node& node = before[static_cast<std::size_t>(i)];
    const bool alone = i > 0 && node.input == i && readers[static_cast<std::size_t>(i)] == 1;
    node.input = tensor[static_cast<std::size_t>(node.input)];
    if (node.residual >= 0) node.residual = tensor[static_cast<std::size_t>(node.residual)];
    if (!alone || !absorb(graph.nodes.back(), node, backend)) graph.nodes.push_back(std::move(node));
    now.push_back(static_cast<int>(graph.nodes.size()) - 1);
    tensor.push_back(static_cast<int>(graph.nodes.size()));
  }
  renumber(graph, now);
}

}  // namespace unisono::nn
