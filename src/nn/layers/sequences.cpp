// The layers of language models: embedding, attention, gated units and the unembedding with its loss; and the pooling
// of classifiers of texts.
#include "unisono/kernels/sequence_kernels.hpp"

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "layers/catalog.hpp"
#include "layers/dense.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/nn/decodable.hpp"

namespace unisono::nn {
namespace {

// Embedding -----------------------------------------------------------------------------------------------------------

enum class Positions { learned, sinusoidal, none };

constexpr Named<Positions> kPositions[] = {
    {Positions::learned, "learned", "a vector for each position, which is trained and added"},
    {Positions::sinusoidal, "sinusoidal", "sines and cosines of the position are added (Vaswani et al. 2017)"},
    {Positions::none, "none", "nothing is added, for instance where attention layers are rotary"}};

struct EmbeddingSettings {
  std::int64_t units = 0;
  Positions positions = Positions::learned;
  double deviation = 0.02;
};

/// The tokens of a part. \throws ConfigError where there are fewer tokens than leaves
AxisRange vocabulary_of(const TensorPart& part, Index vocabulary) {
  if (vocabulary < part.leaves) {
    throw ConfigError(
        fmt::format("a vocabulary of {} cannot be divided into {} parts; lower replica.tensor or replica.tensor_leaves",
                    count_of(vocabulary, "token"), part.leaves));
  }
  const Index first = share_of(vocabulary, part.first, part.leaves);
  return {.first = first, .count = share_of(vocabulary, part.first + part.count, part.leaves) - first};
}

/// y = W[token] + P[position]. Tokens [B·T], W [V, C], P [T, C], y [B·T, C].
class Embedding final : public Layer, public Decodable {
 public:
  /// \param part of the vocabulary; the first one adds the positions
  Embedding(const EmbeddingSettings& settings, const TensorPart& part, const Shape& in)
      : Layer({.extent = {settings.units}, .rows = in.rows}),
        settings_(settings),
        is_divided_(part.is_divided()),
        is_first_(part.first == 0),
        tokens_(vocabulary_of(part, in.vocabulary)),
        spec_{.vocabulary = tokens_.count,
              .units = settings.units,
              .rows = in.rows,
              .sinusoidal = is_first_ && settings.positions == Positions::sinusoidal,
              .first = tokens_.first} {}

  LayerTraits traits() const override { return {.keeps_input = true}; }
  void declare(const std::string& name, const kernels::Backend& backend, ParameterLayout& parameters,
               ParameterLayout& statistics) override;
  void share_weights() override { shares_weights_ = true; }
  Operation operation() const override {
    return EmbeddingOperation{.spec = spec_, .weight = weight_.name, .position = positions_.name};
  }
  std::string note() const override { return spec_.sinusoidal ? "sinusoidal positions" : ""; }
  void forward(const Pass& pass, const ForwardViews& views) const override;
  void backward(const Pass& pass, const BackwardViews& views) const override;
  void decode(const DecodeStep& step, const DecodeViews& views) const override {
    const View positions = learns_positions() ? step.parameter(positions_) : View{};
    step.kernels.decode_embedding(spec_, step.rows, step.tokens, step.parameter(weight_), positions, views.y);
  }

 private:
  bool learns_positions() const { return is_first_ && settings_.positions == Positions::learned; }
  Block block_of(const std::string& name, Index rows) const;

  EmbeddingSettings settings_;
  bool is_divided_, is_first_;
  AxisRange tokens_;  ///< of the vocabulary
  kernels::EmbeddingSpec spec_;
  Block weight_, positions_;
  bool shares_weights_ = false;
};

Block Embedding::block_of(const std::string& name, Index rows) const {
  return {.name = name,
          .shape = {rows, spec_.units},
          .role = Role::embedding,
          .fan_in = spec_.units,
          .fan_out = spec_.units,
          .initialiser = Initialiser::normal,
          .deviation = settings_.deviation};
}

void Embedding::declare(const std::string& name, const kernels::Backend&, ParameterLayout& parameters,
                        ParameterLayout&) {
  Block weight = block_of(name + ".weight", spec_.vocabulary);
  if (is_divided_) weight.cut = {.axis = 0, .ranges = {tokens_}};
  weight_ = declare_block(parameters, std::move(weight));
  if (learns_positions()) positions_ = declare_block(parameters, block_of(name + ".position", spec_.rows));
}

void Embedding::forward(const Pass& pass, const ForwardViews& views) const {
  const View positions = learns_positions() ? pass.parameter(positions_) : View{};
  pass.backend.embedding_forward(spec_, pass.batch, views.x, pass.parameter(weight_), positions, views.y);
}

void Embedding::backward(const Pass& pass, const BackwardViews& views) const {
  kernels::Backend& backend = pass.backend;
  const bool continues = shares_weights_ && pass.tied == nullptr;  // what the unembedding has begun
  const MutableView dw = pass.gradient(views.gradient, weight_);
  backend.embedding_backward(spec_, pass.batch, views.x, views.dy, dw, {},
                             continues ? kernels::Write::add : views.write);
  if (learns_positions()) {
    backend.embedding_backward(spec_, pass.batch, views.x, views.dy, {}, pass.gradient(views.gradient, positions_),
                               views.write);
  }
  if (!shares_weights_ || continues || !pass.tied->complete) return;
  backend.axpby(1, pass.tied->gradient.first(dw.size()), 1, dw);
}

void describe_embedding(LayerSettings& settings, ConfigVisitor& visitor) {
  auto& own = settings.own.of<EmbeddingSettings>();
  visitor.field({.name = "units",
                 .meaning = "length of the vector of a token",
                 .range = at_least(1).at_most(kLargestSize),
                 .required = true},
                own.units);
  visitor.choice({.name = "positions", .meaning = "how the network knows a token's position"}, own.positions,
                 kPositions);
  visitor.field(
      {.name = "deviation", .meaning = "initial values are normal, with this standard deviation", .range = above(0)},
      own.deviation);
}

std::unique_ptr<Layer> make_embedding(const LayerSettings& settings, const Shape& in, const LayerContext& context) {
  return std::make_unique<Embedding>(settings.own.of<EmbeddingSettings>(), context.part, in);
}

// Attention -----------------------------------------------------------------------------------------------------------

struct AttentionSettings {
  std::int64_t heads = 1, key_heads = 0, head_units = 0;
  bool causal = true, rotary = false, bias = true;
  double theta = 10000, dropout = 0;
  InitialWeights weights = {};
  double output_deviation = 0;

  /// For the table of layers: "attention, rotary, not causal".
  std::string kind() const {
    return fmt::format("attention{}{}", rotary ? ", rotary" : "", causal ? "" : ", not causal");
  }
};

/// The middle of an attention layer, without parameters: y_i = Σ_j softmax_j(q_i·k_j / √D) v_j in each head. x [B·T,
/// (H + 2G) D], y [B·T, H D]; see kernels::SequenceKernels. Vaswani et al., NeurIPS 2017.
class Heads final : public Layer, public Decodable {
 public:
  /// \param first the number of the first head, where others are on other ranks
  Heads(const kernels::AttentionSpec& spec, double dropout, std::uint32_t number, Index first, const Shape& in)
      : Layer(in.with(spec.out())),
        spec_(spec),
        dropout_(static_cast<float>(dropout)),
        number_(number),
        first_(first) {}

  LayerTraits traits() const override {
    return {.keeps_input = true, .keeps_output = true, .random = dropout_ > 0, .sees_later_rows = !spec_.causal};
  }
  Operation operation() const override {
    return AttentionOperation{.spec = spec_, .dropout = static_cast<double>(dropout_)};
  }
  kernels::Extent kept_of_row() const override { return spec_.log_sums(); }
  /// Of the products q·k and p v; with a causal mask half of them are left out.
  double products() const override {
    const auto rows = static_cast<double>(spec_.rows);
    return 2 * rows * rows * static_cast<double>(spec_.heads * spec_.width) * (spec_.causal ? 0.5 : 1);
  }
  void forward(const Pass& pass, const ForwardViews& views) const override {
    pass.backend.attention_forward(spec_, pass.batch, views.x, key_of(pass), pass.examples, views.y, views.kept);
  }
  void backward(const Pass& pass, const BackwardViews& views) const override {
    if (views.dx.empty()) return;
    pass.backend.attention_backward(spec_, pass.batch, views.x, views.y, views.kept, key_of(pass), pass.examples,
                                    views.dy, views.dx);
  }

  Index cached_of_sequence() const override { return kernels::cache_size(spec_); }
  void require_decodable() const override {
    if (!spec_.causal) throw ConfigError("with causal = false positions see later ones: the model generates no text");
  }
  void decode(const DecodeStep& step, const DecodeViews& views) const override {
    step.kernels.decode_attention(spec_, step.rows, views.x, views.cache, views.y);
  }

 private:
  kernels::DropoutKey key_of(const Pass& pass) const {
    return {.seed = pass.seed,
            .epoch = static_cast<std::uint32_t>(pass.epoch),
            .layer = number_,
            .rate = pass.training ? dropout_ : 0,
            .first = first_ * spec_.rows * spec_.rows};
  }

  kernels::AttentionSpec spec_;
  float dropout_;
  std::uint32_t number_;
  Index first_;
};

void describe_attention(LayerSettings& settings, ConfigVisitor& visitor) {
  auto& own = settings.own.of<AttentionSettings>();
  visitor.field({.name = "heads", .meaning = "heads of queries", .range = at_least(1).at_most(4096), .required = true},
                own.heads);
  visitor.field(
      {.name = "key_heads",
       .meaning = "heads of keys and values, each for heads / key_heads heads of queries (Ainslie et al. 2023); "
                  "0: as many as `heads`",
       .range = at_least(0).at_most(4096)},
      own.key_heads);
  visitor.field({.name = "head_units",
                 .meaning = "units of a head; 0: those of the inputs, divided by `heads`",
                 .range = at_least(0).at_most(kLargestSize)},
                own.head_units);
  visitor.field({.name = "causal", .meaning = "a position sees itself and those before it; false: it sees all"},
                own.causal);
  visitor.field({.name = "rotary",
                 .meaning = "queries and keys are turned by angles that grow with the position, in "
                            "the order of Llama: element i with i + head_units / 2 (Su et al. 2021)"},
                own.rotary);
  visitor.field({.name = "theta", .meaning = "for rotary: base of the angles", .range = above(1)}, own.theta);
  visitor.field({.name = "dropout",
                 .meaning = "during training, probability that an attention weight is zeroed",
                 .range = at_least(0).at_most(0.999999)},
                own.dropout);
  visitor.field({.name = "bias", .meaning = "whether the projections have biases"}, own.bias);
  own.weights.describe(visitor);
  visitor.field(
      {.name = "output_deviation",
       .meaning = "for initialiser = \"normal\": standard deviation of the output projection; 0: as the others",
       .range = at_least(0)},
      own.output_deviation);
}

kernels::AttentionSpec spec_of(const AttentionSettings& settings, const Shape& in) {
  const Index units = in.extent.size(), heads = settings.heads;
  const Index key_heads = settings.key_heads == 0 ? heads : settings.key_heads;
  if (heads % key_heads != 0) {
    throw ConfigError(fmt::format("key_heads = {} does not divide heads = {}", key_heads, heads));
  }
  if (settings.head_units == 0 && units % heads != 0) {
    throw ConfigError(fmt::format(
        "heads = {} does not divide the {} units of its inputs; change one of them, or set head_units", heads, units));
  }
  const Index width = settings.head_units == 0 ? units / heads : settings.head_units;
  if (settings.rotary && width % 2 != 0) {
    throw ConfigError(fmt::format("rotary needs heads of an even number of units, but they have {}", width));
  }
  return {.rows = in.rows,
          .heads = heads,
          .key_heads = key_heads,
          .width = width,
          .causal = settings.causal,
          .rotary = settings.rotary ? settings.theta : 0};
}

/// The heads of a leaf: what it has of W of the queries, keys and values, and of that of the output.
struct LeafOfHeads {
  kernels::AttentionSpec spec;
  Cut qkv, output;
  Index first = 0;  ///< head of queries
};

LeafOfHeads leaf_of(kernels::AttentionSpec spec, const Leaf& leaf) {
  if (leaf.leaves == 1) return {.spec = spec, .qkv = {}, .output = {}};
  if (spec.key_heads % leaf.leaves != 0) {
    throw ConfigError(fmt::format(
        "its heads are divided into {} parts (replica.tensor, replica.tensor_leaves), which must divide {} = {}",
        leaf.leaves, spec.key_heads == spec.heads ? "heads" : "key_heads", spec.key_heads));
  }
  const Index heads = spec.heads / leaf.leaves, key_heads = spec.key_heads / leaf.leaves;
  const AxisRange queries{.first = leaf.number * heads * spec.width, .count = heads * spec.width};
  const Index keys = key_heads * spec.width, first_key = spec.heads * spec.width + leaf.number * keys;
  const Index first_value = first_key + spec.key_heads * spec.width;
  spec.heads = heads;
  spec.key_heads = key_heads;
  return {.spec = spec,
          .qkv = {.axis = 0, .ranges = {queries, {first_key, keys}, {first_value, keys}}},
          .output = {.axis = 1, .ranges = {queries}},
          .first = leaf.number * heads};
}

std::vector<Part> make_attention(const LayerSettings& settings, const Shape& in, const LayerContext& context) {
  const auto own = settings.own.of<AttentionSettings>();
  const auto [spec, qkv, output, first] = leaf_of(spec_of(own, in), context.leaf);
  InitialWeights output_weights = own.weights;
  if (own.output_deviation > 0) output_weights.deviation = own.output_deviation;
  const bool output_bias = own.bias && context.leaf.number == 0;  // which is added once
  std::vector<Part> parts;
  parts.push_back({"qkv", "dense", make_dense({spec.in().size(), own.bias, own.weights}, in, qkv)});
  parts.push_back({"heads", own.kind(),
                   std::make_unique<Heads>(spec, own.dropout, context.number, first, parts.back().layer->out())});
  parts.push_back({"output", "dense",
                   make_dense({in.extent.size(), output_bias, output_weights}, parts.back().layer->out(), output)});
  return parts;
}

// Gated units ---------------------------------------------------------------------------------------------------------

/// y = silu(x₁) ⊙ x₂, x₁ the first half of the inputs and x₂ the second. x [B·T, 2F], y [B·T, F].
class Gate final : public Layer, public Decodable {
 public:
  explicit Gate(const Shape& in) : Layer(in.with({in.extent.size() / 2})) {}

  LayerTraits traits() const override { return {.keeps_input = true}; }
  Operation operation() const override { return GateOperation{}; }
  void forward(const Pass& pass, const ForwardViews& views) const override {
    pass.backend.gate_forward(out().extent.size(), rows(pass), views.x, views.y);
  }
  void backward(const Pass& pass, const BackwardViews& views) const override {
    if (views.dx.empty()) return;
    pass.backend.gate_backward(out().extent.size(), rows(pass), views.x, views.dy, views.dx);
  }
  void decode(const DecodeStep& step, const DecodeViews& views) const override {
    step.kernels.decode_gate(out().extent.size(), step.size(), views.x, views.y);
  }
};

struct SwigluSettings {
  std::int64_t units = 0;
  bool bias = false;
  InitialWeights weights = {};
};

void describe_swiglu(LayerSettings& settings, ConfigVisitor& visitor) {
  auto& own = settings.own.of<SwigluSettings>();
  visitor.field(
      {.name = "units", .meaning = "number of outputs", .range = at_least(1).at_most(kLargestSize), .required = true},
      own.units);
  visitor.field({.name = "bias", .meaning = "whether both products have biases"}, own.bias);
  own.weights.describe(visitor);
}

std::vector<Part> make_swiglu(const LayerSettings& settings, const Shape& in, const LayerContext& context) {
  const auto own = settings.own.of<SwigluSettings>();
  const AxisRange part = context.leaf.outputs;
  const bool is_part = part.count > 0;
  const Cut cut{.axis = 0, .ranges = {part, {.first = own.units + part.first, .count = part.count}}};
  const Index units = is_part ? part.count : own.units;
  std::vector<Part> parts;
  parts.push_back({"products", "dense", make_dense({2 * units, own.bias, own.weights}, in, is_part ? cut : Cut{})});
  parts.push_back({"gate", "swiglu", std::make_unique<Gate>(parts.back().layer->out())});
  return parts;
}

// Unembedding ---------------------------------------------------------------------------------------------------------

struct UnembeddingSettings {
  bool tied = false;
  InitialWeights weights = {};
};

/// The head of a language model: logits z = W x of each row, and their cross-entropy with the token that follows. The
/// loss and its gradient are computed together, for some rows at a time, so that the logits of all rows never exist:
/// in the backward pass of training, and in the forward pass of an evaluation. x [B·T, C], W [V, C].
/// 2·B·T·C·V flops forward, twice that backward. A backward pass in halves computes the logits twice.
class Unembedding final : public Layer, public Decodable {
 public:
  Unembedding(const UnembeddingSettings& settings, const Shape& in, const LayerContext& context)
      : Layer(in.with({context.vocabulary})),
        settings_(settings),
        tied_to_(settings.tied ? context.embedding : ""),
        tokens_(vocabulary_of(context.part, context.vocabulary)),
        spec_{.units = in.extent.size(),
              .vocabulary = context.vocabulary,
              .smoothing = context.label_smoothing,
              .leaves = context.part.leaves,
              .first = context.part.first,
              .count = context.part.count} {}

  LayerTraits traits() const override { return {.keeps_input = true, .gives_loss = true}; }
  void declare(const std::string& name, const kernels::Backend& backend, ParameterLayout& parameters,
               ParameterLayout& statistics) override;
  /// The first half of a backward pass in halves adds the losses, even where nobody wants dx.
  Index carried_size() const override { return kLineFloats; }
  double products() const override { return static_cast<double>(out().rows * spec_.units * tokens_.count); }
  std::string weights_of() const override { return tied_to_; }
  Operation operation() const override { return UnembeddingOperation{weight_.name}; }
  void forward(const Pass& pass, const ForwardViews& views) const override;
  void backward(const Pass& pass, const BackwardViews& views) const override;
  void decode(const DecodeStep& step, const DecodeViews& views) const override {
    const kernels::DenseSpec product{.in = {spec_.units}, .units = spec_.vocabulary};
    step.kernels.decode_dense(product, step.size(), views.x, step.parameter(weight_), {}, views.y);
  }

 private:
  void add_loss(const Pass& pass, View x, MutableView dx, MutableView dw, kernels::Write write,
                kernels::LossSums& sums) const {
    const bool elsewhere = pass.tied != nullptr && !pass.tied->weight.empty();
    const View w = elsewhere ? pass.tied->weight : pass.parameter(weight_);
    pass.backend.head_loss(spec_, {.rows = rows(pass), .x = x, .w = w, .labels = pass.loss->labels},
                           {.scale = pass.loss->scale, .dx = dx, .dw = dw, .write = write}, pass.tensor, sums);
  }

  UnembeddingSettings settings_;
  std::string tied_to_;  ///< name of the embedding layer; empty: the layer has weights of its own
  AxisRange tokens_;     ///< of the vocabulary
  kernels::HeadSpec spec_;
  Block weight_;
};

void Unembedding::declare(const std::string& name, const kernels::Backend&, ParameterLayout& parameters,
                          ParameterLayout&) {
  if (!tied_to_.empty()) {
    weight_ = parameters.block(tied_to_ + ".weight");
    return;
  }
  weight_ = declare_block(parameters, {.name = name + ".weight",
                                       .shape = {tokens_.count, spec_.units},
                                       .role = Role::weight,
                                       .fan_in = spec_.units,
                                       .fan_out = spec_.vocabulary,
                                       .initialiser = settings_.weights.initialiser,
                                       .deviation = settings_.weights.deviation,
                                       .cut = spec_.leaves > 1 ? Cut{.axis = 0, .ranges = {tokens_}} : Cut{}});
}

void Unembedding::forward(const Pass& pass, const ForwardViews& views) const {
  if (pass.training || pass.loss == nullptr) return;
  add_loss(pass, views.x, {}, {}, kernels::Write::overwrite, pass.loss->sums);
}

void Unembedding::backward(const Pass& pass, const BackwardViews& views) const {
  if (!tied_to_.empty() && pass.tied != nullptr) {
    return add_loss(pass, views.x, views.dx, pass.tied->gradient, pass.tied->write, pass.loss->sums);
  }
  const MutableView dw = pass.gradient(views.gradient, weight_);
  const bool is_second_half = !views.carried.empty() && !dw.empty();
  kernels::LossSums counted_before;
  add_loss(pass, views.x, views.dx, dw, views.write, is_second_half ? counted_before : pass.loss->sums);
}

void describe_unembedding(LayerSettings& settings, ConfigVisitor& visitor) {
  auto& own = settings.own.of<UnembeddingSettings>();
  visitor.field({.name = "tied", .meaning = "whether its weights are those of the embedding layer (Press & Wolf 2017)"},
                own.tied);
  own.weights.describe(visitor);
}

std::unique_ptr<Layer> make_unembedding(const LayerSettings& settings, const Shape& in, const LayerContext& context) {
  const auto own = settings.own.of<UnembeddingSettings>();
  if (context.embedding.empty()) {
    throw ConfigError("an unembedding layer needs an embedding layer at the beginning of the network");
  }
  if (own.tied && context.embedding_units != in.extent.size()) {
    throw ConfigError(
        fmt::format("with tied weights its inputs must have the {} units of the embedding, but they have {}; change "
                    "one of them, or "
                    "set tied = false",
                    context.embedding_units, in.extent.size()));
  }
  return std::make_unique<Unembedding>(own, in, context);
}

// One row for each sequence
// ------------------------------------------------------------------------------------------------

constexpr Named<kernels::SequencePool> kSequencePools[] = {
    {kernels::SequencePool::last, "last", "the last token's, which depends on all before it"},
    {kernels::SequencePool::mean, "mean", "the mean of all tokens'"}};

struct SequencePoolSettings {
  kernels::SequencePool pool = kernels::SequencePool::mean;
};

/// One row of each sequence's n_b real rows (Pass::lengths): the last, or their mean. x [B·T, C], y [B, C].
class SequencePooling final : public Layer {
 public:
  SequencePooling(kernels::SequencePool kind, const Shape& in)
      : Layer({.extent = in.extent}), spec_{.kind = kind, .units = in.extent.size(), .rows = in.rows} {}

  LayerTraits traits() const override { return {.pools_rows = true}; }
  Operation operation() const override { return SequencePoolOperation{spec_}; }
  void forward(const Pass& pass, const ForwardViews& views) const override {
    pass.backend.sequence_pool_forward(spec_, pass.batch, views.x, pass.lengths, views.y);
  }
  void backward(const Pass& pass, const BackwardViews& views) const override {
    if (views.dx.empty()) return;
    pass.backend.sequence_pool_backward(spec_, pass.batch, pass.lengths, views.dy, views.dx);
  }

 private:
  kernels::SequencePoolSpec spec_;
};

void describe_sequence_pool(LayerSettings& settings, ConfigVisitor& visitor) {
  visitor.choice({.name = "pool", .meaning = "what becomes of a text's vectors"},
                 settings.own.of<SequencePoolSettings>().pool, kSequencePools);
}

std::unique_ptr<Layer> make_sequence_pool(const LayerSettings& settings, const Shape& in, const LayerContext& context) {
  if (context.embedding.empty()) {
    throw ConfigError(
        "it makes one vector of those of a text's tokens, but the network does not begin with an embedding");
  }
  return std::make_unique<SequencePooling>(settings.own.of<SequencePoolSettings>().pool, in);
}

}  // namespace

LayerKind embedding_layer() {
  return {.name = kEmbedding,
          .meaning = "a vector for each token, which is trained, and the token's position",
          .describe = describe_embedding,
          .make = make_embedding,
          .of_sequences = true};
}

LayerKind attention_layer() {
  return {.name = kAttention,
          .meaning =
              "multi-head attention of the positions of a sequence to each other, with its projections (Vaswani et "
              "al. 2017)",
          .describe = describe_attention,
          .make_parts = make_attention,
          .of_sequences = true,
          .divided = Divided::heads};
}

LayerKind swiglu_layer() {
  return {.name = "swiglu",
          .meaning = "silu(x W₁ᵀ) ⊙ x W₂ᵀ, the gated units of Llama (Shazeer 2020)",
          .describe = describe_swiglu,
          .make_parts = make_swiglu,
          .of_sequences = true,
          .divided = Divided::outputs};
}

LayerKind unembedding_layer() {
  return {.name = kUnembedding,
          .meaning = "scores of all tokens to come next, and their cross-entropy; the last layer of a language model",
          .describe = describe_unembedding,
          .make = make_unembedding,
          .of_sequences = true};
}

LayerKind sequence_pool_layer() {
  return {.name = kSequencePool,
          .meaning = "one vector for each text, from those of its tokens; the layers behind it classify the text",
          .describe = describe_sequence_pool,
          .make = make_sequence_pool,
          .of_sequences = true};
}

}  // namespace unisono::nn
