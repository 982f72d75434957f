#pragma once

#include <string>
#include <vector>

#include "exchange/onnx_graph.hpp"
#include "unisono/data/preprocessing.hpp"
#include "unisono/models/factory.hpp"

namespace unisono::apply {

/// The shape of a normalisation, beside the examples: [C, 1, 1] of the channels of images, [C, H, W] of their values,
/// or [n].
std::vector<Index> normalization_shape(const data::Normalization& normalization, const data::FeatureShape& features);

/// Adds the inputs of a graph and what becomes of them before the model: images that are bytes, columns of a table with
/// its missing values and levels, the normalisation.
///   tokens     "tokens", int64 [examples, length]; −1 stands behind the end of a text that is shorter than the others
///   images     "images", bytes or float32 [examples, C, H, W]
///   columns    one input for each column of the recipe, named as it is: float32 or text [examples, 1]
///   others     "features", bytes or float32 [examples, C]
/// \param raw false: the inputs are what the model gets, "features", "images" or "tokens" \return the tensor that
/// enters the model \throws ConfigError for a column that ONNX cannot encode
std::string add_inputs(OnnxGraph& graph, const data::Preprocessing& preprocessing, const models::ModelInputs& inputs,
                       bool raw);

}  // namespace unisono::apply
