#include "layers/dense.hpp"

#include <string>

#include "unisono/nn/decodable.hpp"

namespace unisono::nn {
namespace {

/// y = x Wᵀ + b of each row, with a ReLU where one follows.
/// x [B·T, in], W [units, in], b [units], y [B·T, units]; 2·B·T·in·units flops forward, twice that backward.
class Dense final : public Layer, public Decodable {
 public:
  Dense(const DenseSettings& settings, const Shape& in, const Cut& cut);

  LayerTraits traits() const override;
  void declare(const std::string& name, const kernels::Backend& backend, ParameterLayout& parameters,
               ParameterLayout& statistics) override;
  double products() const override { return static_cast<double>(out().rows * spec_.in.size() * spec_.units); }
  Operation operation() const override {
    return DenseOperation{.spec = spec_, .weight = weight_.name, .bias = bias_.name};
  }
  bool absorb_relu() override;
  void forward(const Pass& pass, const ForwardViews& views) const override;
  void backward(const Pass& pass, const BackwardViews& views) const override;
  FloatRange steps_at_once(const kernels::Backend& backend) const override;
  void decode(const DecodeStep& step, const DecodeViews& views) const override {
    step.kernels.decode_dense(spec_, step.size(), views.x, step.parameter(weight_),
                              has_bias_ ? step.parameter(bias_) : View{}, views.y);
  }

 private:
  kernels::DenseSpec spec_;
  bool has_bias_;
  InitialWeights weights_;
  Cut cut_;
  Block weight_, bias_;
};

Dense::Dense(const DenseSettings& settings, const Shape& in, const Cut& cut)
    : Layer(in.with({settings.units})),
      spec_{.in = in.extent, .units = settings.units},
      has_bias_(settings.bias),
      weights_(settings.weights),
      cut_(cut) {}

LayerTraits Dense::traits() const {
  const bool relu = spec_.activation == kernels::Activation::relu;
  return {.keeps_input = true, .keeps_output = relu, .changes_gradient = relu};
}

void Dense::declare(const std::string& name, const kernels::Backend& backend, ParameterLayout& parameters,
                    ParameterLayout&) {
  weight_ = declare_block(parameters, {.name = name + ".weight",
                                       .shape = {spec_.units, spec_.in.channels, spec_.in.height, spec_.in.width},
                                       .axes = backend.dense_weight_axes(),
                                       .role = Role::weight,
                                       .fan_in = spec_.in.size(),
                                       .fan_out = spec_.units,
                                       .initialiser = weights_.initialiser,
                                       .deviation = weights_.deviation,
                                       .cut = cut_});
  if (!has_bias_) return;
  bias_ = declare_block(parameters, {.name = name + ".bias",
                                     .shape = {spec_.units},
                                     .role = Role::bias,
                                     .fan_in = spec_.in.size(),
                                     .fan_out = spec_.units,
                                     .initialiser = bias_initialiser(weights_.initialiser),
                                     .cut = cut_.axis == 0 ? cut_ : Cut{}});
}

bool Dense::absorb_relu() {
  if (spec_.activation != kernels::Activation::none) return false;
  spec_.activation = kernels::Activation::relu;
  return true;
}

void Dense::forward(const Pass& pass, const ForwardViews& views) const {
  const View b = has_bias_ ? pass.parameter(bias_) : View{};
  pass.backend.dense_forward(spec_, rows(pass), views.x, pass.parameter(weight_), b, views.y);
}

void Dense::backward(const Pass& pass, const BackwardViews& views) const {
  const MutableView db = has_bias_ ? pass.gradient(views.gradient, bias_) : MutableView{};
  const bool at_once = pass.step != nullptr && steps_at_once(pass.backend) != FloatRange{};
  const MutableView dw = at_once ? MutableView{} : pass.gradient(views.gradient, weight_);
  pass.backend.dense_backward(spec_, rows(pass), views.x, pass.parameter(weight_), views.y, views.dy, views.dx, dw, db,
                              views.write);
  if (!at_once) return;
  dynamic_cast<kernels::StepKernels&>(pass.backend)
      .dense_step(spec_, rows(pass), views.x, views.dy, weight_.offset, *pass.step);
}

FloatRange Dense::steps_at_once(const kernels::Backend& backend) const {
  const auto* const kernels = dynamic_cast<const kernels::StepKernels*>(&backend);
  if (kernels == nullptr || !kernels->has_dense_step(spec_)) return {};
  return {weight_.offset, weight_.offset + weight_.stored_size()};
}

void describe_dense(LayerSettings& settings, ConfigVisitor& visitor) {
  auto& own = settings.own.of<DenseSettings>();
  visitor.field(
      {.name = "units", .meaning = "number of outputs", .range = at_least(1).at_most(kLargestSize), .required = true},
      own.units);
  visitor.field({.name = "bias", .meaning = "add the bias b; useless before a batch_norm"}, own.bias);
  own.weights.describe(visitor);
}

std::unique_ptr<Layer> make_dense_layer(const LayerSettings& settings, const Shape& in, const LayerContext& context) {
  auto own = settings.own.of<DenseSettings>();
  const Leaf& leaf = context.leaf;
  if (leaf.outputs.count > 0) {
    own.units = leaf.outputs.count;
    return make_dense(own, in, {.axis = 0, .ranges = {leaf.outputs}});
  }
  if (leaf.inputs.count == 0) return make_dense(own, in);
  own.bias = own.bias && leaf.number == 0;  // which is added once
  return make_dense(own, in, {.axis = 1, .ranges = {leaf.inputs}});
}

}  // namespace

void InitialWeights::describe(ConfigVisitor& visitor) {
  visitor.choice({.name = "initialiser", .meaning = "initial values of the weights"}, initialiser, kInitialisers);
  visitor.field({.name = "deviation", .meaning = "for initialiser = \"normal\": standard deviation", .range = above(0)},
                deviation);
}

std::unique_ptr<Layer> make_dense(const DenseSettings& settings, const Shape& in, const Cut& cut) {
  return std::make_unique<Dense>(settings, in, cut);
}

LayerKind dense_layer() {
  return {.name = "dense",
          .meaning = "fully connected layer: y = x Wᵀ + b; an image is flattened",
          .describe = describe_dense,
          .make = make_dense_layer,
          .of_sequences = true,
          .divided = Divided::outputs,
          .divided_by_inputs = true};
}

}  // namespace unisono::nn
