#include "exchange/onnx_inputs.hpp"

#include <fmt/format.h>

#include "unisono/base/errors.hpp"

namespace unisono::apply {
namespace {

const std::string kExamples = "examples";

/// The encoding of a recipe's columns, as data::Encoder computes it.
class Columns {
 public:
  Columns(OnnxGraph& graph, const data::Preprocessing& preprocessing) : graph_(graph), preprocessing_(preprocessing) {}

  std::string add() {
    for (const data::FittedColumn& column : preprocessing_.columns) {
      const OnnxType type = column.kind == data::ColumnKind::number ? OnnxType::float32 : OnnxType::text;
      graph_.input(column.name, type, {kExamples, Index{1}});
    }
    std::vector<std::string> features;
    for (const data::FittedColumn& column : preprocessing_.columns) {
      graph_.enter(column.name);
      features.push_back(column.kind == data::ColumnKind::number ? number(column) : category(column));
    }
    graph_.enter("features");
    return graph_.node("Concat", features, {{"axis", std::int64_t{1}}});
  }

 private:
  std::string number(const data::FittedColumn& column) {
    if (!column.fill) return column.name;
    const std::string fill = graph_.scalar(column.name + "/fill", static_cast<float>(*column.fill));
    return graph_.node("Where", {graph_.node("IsNaN", {column.name}), fill, column.name});
  }

  /// One feature for each level, and one for all others. Where others are refused, so they are by the operator.
  std::string category(const data::FittedColumn& column) {
    if (column.levels.empty()) {
      throw ConfigError(fmt::format(
          "the column '{}' has no level of its own, only \"other\", for which ONNX has no encoding; export the model "
          "behind it with --without-preprocessing",
          column.name));
    }
    const bool refuses = preprocessing_.recipe.unknown == data::Unknown::error;
    const std::string one_hot = column.name + "/OneHotEncoder";
    graph_.node("OneHotEncoder", {column.name}, {one_hot},
                {{"cats_strings", column.levels}, {"zeros", std::int64_t{refuses ? 0 : 1}}}, "ai.onnx.ml");
    const std::string levels = graph_.node("Flatten", {one_hot}, {{"axis", std::int64_t{1}}});
    if (!column.other) return levels;
    const std::string sum = graph_.node("ReduceSum", {levels, graph_.constant(column.name + "/axis", {1})});
    const std::string other = graph_.node("Sub", {graph_.scalar(column.name + "/one", 1), sum});
    return graph_.node("Concat", {levels, other}, {{"axis", std::int64_t{1}}});
  }

  OnnxGraph& graph_;
  const data::Preprocessing& preprocessing_;
};

/// scale · stored + offset.
std::string values_of(OnnxGraph& graph, const data::Preprocessing& preprocessing, const std::string& stored) {
  std::string x = stored;
  if (preprocessing.bytes) x = graph.node("Cast", {x}, {{"to", static_cast<std::int64_t>(OnnxType::float32)}});
  if (preprocessing.scale != 1) x = graph.node("Mul", {x, graph.scalar("stored/scale", preprocessing.scale)});
  if (preprocessing.offset != 0) x = graph.node("Add", {x, graph.scalar("stored/offset", preprocessing.offset)});
  return x;
}

/// (x − mean) · scale, where there is a value for each channel, for each feature, or one for all. Sparse rows have no
/// mean.
std::string normalised(OnnxGraph& graph, const data::Normalization& normalization, const data::FeatureShape& features,
                       const std::string& x) {
  if (normalization.scale.empty()) return x;
  graph.enter("normalization");
  const std::vector<Index> shape = normalization_shape(normalization, features);
  const std::string centred =
      normalization.mean.empty()
          ? x
          : graph.node("Sub", {x, graph.constant("normalization.mean", shape, normalization.mean)});
  return graph.node("Mul", {centred, graph.constant("normalization.scale", shape, normalization.scale)});
}

}  // namespace

std::vector<Index> normalization_shape(const data::Normalization& normalization, const data::FeatureShape& features) {
  const auto count = static_cast<Index>(normalization.scale.size());
  const bool is_image = features.height * features.width > 1;
  if (is_image && count == features.size()) return {features.channels, features.height, features.width};
  if (is_image && count == features.channels) return {count, 1, 1};
  return {count};
}

std::string add_inputs(OnnxGraph& graph, const data::Preprocessing& preprocessing, const models::ModelInputs& inputs,
                       bool raw) {
  if (inputs.kind == data::SetKind::tokens) {
    graph.input("tokens", OnnxType::int64, {kExamples, "length"});
    return "tokens";
  }
  data::FeatureShape features = inputs.features;
  if (inputs.kind == data::SetKind::sparse) features = {.channels = inputs.columns};
  const bool is_image = features.height * features.width > 1;
  std::string x;
  if (raw && !preprocessing.columns.empty()) {
    x = Columns(graph, preprocessing).add();
  } else {
    x = is_image ? "images" : "features";
    const bool bytes = raw && preprocessing.bytes;
    const OnnxType type = bytes ? OnnxType::uint8 : OnnxType::float32;
    graph.enter(x);
    if (is_image) {
      graph.input(x, type, {kExamples, features.channels, features.height, features.width});
    } else {
      graph.input(x, type, {kExamples, features.size()});
    }
    if (raw) x = values_of(graph, preprocessing, x);
  }
  return raw ? normalised(graph, preprocessing.normalization, features, x) : x;
}

}  // namespace unisono::apply
