#pragma once

#include <string>

#include "exchange/onnx_graph.hpp"
#include "unisono/apply/trained_model.hpp"

namespace unisono::apply {

/// A trained network or linear model in the format ONNX: from the values of a set, or of its columns, to what `predict`
/// gives. Its second output, where there are two, is what the last layer gives.
/// \param raw whether the preprocessing is a part of it \throws ConfigError for other models, and for what ONNX does
/// not have
OnnxGraph onnx_of(const TrainedModel& model, bool raw);

}  // namespace unisono::apply
