#include "exchange/onnx.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "exchange/block_values.hpp"
#include "exchange/onnx_inputs.hpp"
#include "exchange/onnx_network.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/models/staged.hpp"
#include "vectors/tables.hpp"

namespace unisono::apply {
namespace {

/// x W + b. \return [examples, outputs]
std::string add_linear(OnnxGraph& graph, const TrainedModel& model, std::string x) {
  const View parameters = model.parts->parameters.view();
  graph.enter("linear");
  const auto& inputs = model.checkpoint.header.inputs;
  if (inputs.features.height * inputs.features.width > 1) x = graph.node("Flatten", {x}, {{"axis", std::int64_t{1}}});
  for (const models::VectorTable& table : model.parts->model->vectors(parameters)) {
    std::vector<float> values(static_cast<std::size_t>(table.rows * table.width));
    for (Index row = 0; row < table.rows; ++row) {
      const auto first = static_cast<std::size_t>(row * table.width);
      read_row(table, parameters, row, MutableView(values).subspan(first, static_cast<std::size_t>(table.width)));
    }
    const bool is_bias = table.name == "bias";
    const std::string name =
        graph.constant(is_bias ? "linear.bias" : "linear.weight", {table.rows, table.width}, values);
    x = graph.node(is_bias ? "Add" : "MatMul", {x, name});
  }
  return x;
}

/// What comes out of a model, and what `predict` makes of it.
class Outputs {
 public:
  Outputs(OnnxGraph& graph, const TrainedModel& model) : graph_(graph), model_(model) {}

  /// \param raw what the model gives \param shape of an example's \param binary whether one output stands for two
  /// classes \param exclusive whether the outputs stand for classes that exclude each other
  void add(const std::string& raw, const std::vector<OnnxDimension>& shape, bool binary, bool exclusive) {
    graph_.enter("outputs");
    const models::Prediction prediction = model_.parts->model->prediction();
    if (prediction == models::Prediction::values) return name(raw, "predictions", shape);
    if (prediction == models::Prediction::margins) {
      return name(binary ? pair(graph_.node("Neg", {raw}), raw) : raw, "scores", predicted(shape));
    }
    std::string probabilities;
    if (binary) {
      probabilities = pair(graph_.node("Sigmoid", {graph_.node("Neg", {raw})}), graph_.node("Sigmoid", {raw}));
    } else if (exclusive) {
      probabilities = graph_.node("Softmax", {raw}, {{"axis", std::int64_t{1}}});
    } else {
      probabilities = graph_.node("Sigmoid", {raw});
    }
    name(probabilities, "probabilities", binary ? predicted(shape) : shape);
    name(raw, "logits", shape);
  }
  void name(const std::string& tensor, const std::string& output, const std::vector<OnnxDimension>& shape) {
    graph_.output(tensor, output, OnnxType::float32, shape);
  }

 private:
  std::vector<OnnxDimension> predicted(const std::vector<OnnxDimension>& shape) const {
    return {shape.front(), model_.parts->model->output_size()};
  }
  std::string pair(const std::string& first, const std::string& second) {
    return graph_.node("Concat", {first, second}, {{"axis", std::int64_t{1}}});
  }

  OnnxGraph& graph_;
  const TrainedModel& model_;
};

std::vector<OnnxDimension> shape_of(const nn::OperationStep& last) {
  std::vector<OnnxDimension> shape = {"examples"};
  if (last.form == nn::TensorForm::sequence) shape.emplace_back("length");
  for (const Index n : last.element_shape()) shape.emplace_back(n);
  return shape;
}

void add_metadata(OnnxGraph& graph, const TrainedModel& model) {
  const data::Preprocessing& known = model.checkpoint.header.preprocessing;
  const auto add_list = [&](const char* key, const std::vector<std::string>& names) {
    if (!names.empty())
      graph.metadata(key, nlohmann::json(names).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  };
  graph.metadata("checkpoint", model.checkpoint.path);
  graph.metadata("step", std::to_string(model.checkpoint.header.step));
  add_list("class_names", known.class_names);
  add_list("label_names", known.label_names);
  if (model.threshold) graph.metadata("threshold", fmt::format("{}", *model.threshold));
}

}  // namespace

OnnxGraph onnx_of(const TrainedModel& model, bool raw) {
  const models::Staged* const network = model.parts->model->staged();
  if (network == nullptr && model.config.model.kind != "linear") {
    throw ConfigError(
        fmt::format("--format onnx: ONNX has networks and linear models, but {} has model.kind = \"{}\"; export its "
                    "vectors with --format npy, or all parameters with npz or hdf5",
                    model.checkpoint.path, model.config.model.kind));
  }
  OnnxGraph graph;
  const session::CheckpointHeader& header = model.checkpoint.header;
  const std::string x = add_inputs(graph, header.preprocessing, header.inputs, raw);
  const Index predictions = model.parts->model->output_size();
  Outputs outputs(graph, model);
  if (network == nullptr) {
    const Index width = model.parts->model->vectors(model.parts->parameters.view()).front().width;
    outputs.add(add_linear(graph, model, x), {"examples", width}, width != predictions, width > 1);
  } else {
    const nn::OperationList operations = network->operations();
    const std::string y = add_network(graph, operations, BlockValues(model), x);
    const nn::OperationStep& last = operations.steps.back();
    if (network->network().gives_loss()) {
      outputs.name(y, "logits", shape_of(last));
    } else {
      outputs.add(y, shape_of(last), last.out.extent.size() != predictions,
                  model.config.model.network.loss == nn::LossKind::softmax_cross_entropy);
    }
  }
  add_metadata(graph, model);
  return graph;
}

}  // namespace unisono::apply
